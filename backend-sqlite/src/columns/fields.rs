//! Reading the columns of a row one after the other, and refusing what cannot be ours.

use std::str::FromStr;

use rusqlite::Row;
use rusqlite::types::ValueRef;
use turnkeep_core::model::Usage;
use turnkeep_core::{EntryNo, Error, ErrorKind, Payload, Result, Timestamp};

use crate::error::{damaged, sql};

/// The columns of one row, from left to right.
pub(crate) struct Fields<'r> {
    row: &'r Row<'r>,
    at: usize,
    table: &'static str,
}

impl<'r> Fields<'r> {
    pub(crate) fn new(table: &'static str, row: &'r Row<'r>) -> Self {
        Self { row, at: 0, table }
    }

    /// The fields from a later column on.
    pub(crate) fn after(table: &'static str, row: &'r Row<'r>, at: usize) -> Self {
        Self { row, at, table }
    }

    /// The error for the column read last.
    pub(crate) fn damaged(&self) -> Error {
        damaged(self.table, self.at)
    }

    fn next(&mut self) -> Result<ValueRef<'r>> {
        let value = self.row.get_ref(self.at).map_err(sql)?;
        self.at += 1;
        Ok(value)
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<&'r str>> {
        match self.next()? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| self.damaged()),
            _ => Err(self.damaged()),
        }
    }

    pub(crate) fn text(&mut self) -> Result<&'r str> {
        self.maybe_text()?.ok_or_else(|| self.damaged())
    }

    pub(crate) fn maybe_string(&mut self) -> Result<Option<String>> {
        Ok(self.maybe_text()?.map(str::to_owned))
    }

    /// An id, a kind, a status: whatever checks its own form.
    pub(crate) fn id<T: FromStr>(&mut self) -> Result<T> {
        self.text()?.parse().map_err(|_| self.damaged())
    }

    pub(crate) fn maybe_id<T: FromStr>(&mut self) -> Result<Option<T>> {
        self.maybe_text()?.map(|text| text.parse().map_err(|_| self.damaged())).transpose()
    }

    /// A value that has a stored name.
    pub(crate) fn named<T>(&mut self, from_name: impl FnOnce(&str) -> Option<T>) -> Result<T> {
        from_name(self.text()?).ok_or_else(|| self.damaged())
    }

    pub(crate) fn maybe_named<T>(&mut self, from_name: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>> {
        self.maybe_text()?.map(|name| from_name(name).ok_or_else(|| self.damaged())).transpose()
    }

    pub(crate) fn maybe_int(&mut self) -> Result<Option<i64>> {
        match self.next()? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) => Ok(Some(value)),
            _ => Err(self.damaged()),
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64> {
        self.maybe_int()?.ok_or_else(|| self.damaged())
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        u64::try_from(self.int()?).map_err(|_| self.damaged())
    }

    pub(crate) fn maybe_u64(&mut self) -> Result<Option<u64>> {
        self.maybe_int()?.map(|value| u64::try_from(value).map_err(|_| self.damaged())).transpose()
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        u32::try_from(self.int()?).map_err(|_| self.damaged())
    }

    pub(crate) fn maybe_u32(&mut self) -> Result<Option<u32>> {
        self.maybe_int()?.map(|value| u32::try_from(value).map_err(|_| self.damaged())).transpose()
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.int()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged()),
        }
    }

    pub(crate) fn maybe_number(&mut self) -> Result<Option<EntryNo>> {
        self.maybe_u32()?.map(|value| EntryNo::new(value).ok_or_else(|| self.damaged())).transpose()
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        self.int().map(Timestamp::from_millis)
    }

    pub(crate) fn maybe_time(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.maybe_int()?.map(Timestamp::from_millis))
    }

    pub(crate) fn maybe_bytes<const N: usize>(&mut self) -> Result<Option<[u8; N]>> {
        match self.next()? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => bytes.try_into().map(Some).map_err(|_| self.damaged()),
            _ => Err(self.damaged()),
        }
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.maybe_bytes()?.ok_or_else(|| self.damaged())
    }

    pub(crate) fn payload(&mut self) -> Result<Payload> {
        self.text().map(Payload::from_stored)
    }

    pub(crate) fn maybe_payload(&mut self) -> Result<Option<Payload>> {
        Ok(self.maybe_text()?.map(Payload::from_stored))
    }

    pub(crate) fn usage(&mut self) -> Result<Usage> {
        Ok(Usage {
            requests: self.u64()?,
            input_tokens: self.u64()?,
            output_tokens: self.u64()?,
            total_tokens: self.u64()?,
            cache_read_tokens: self.u64()?,
            cache_write_tokens: self.u64()?,
            duration_ms: self.u64()?,
        })
    }
}

/// A counter as a column. The engine's integers have 63 bits.
pub(crate) fn int(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| {
        Error::new(
            ErrorKind::Invalid,
            format!("{value} is above 2^63 - 1, the largest number SQLite can hold"),
        )
    })
}

/// Random bits as a column; they may look negative there.
pub(crate) fn to_bits(value: u64) -> i64 {
    value.cast_signed()
}

/// Random bits from a column.
pub(crate) fn from_bits(value: i64) -> u64 {
    value.cast_unsigned()
}

/// Hands out one shared copy of texts that repeat from row to row, such as kinds, roles and runs.
pub(crate) struct Intern<T> {
    recent: Vec<T>,
    next: usize,
}

const INTERNED: usize = 4;

impl<T: Clone + AsRef<str> + FromStr> Intern<T> {
    pub(crate) fn new() -> Self {
        Self { recent: Vec::new(), next: 0 }
    }

    /// The id with this text; `None` when the text is no such id.
    pub(crate) fn get(&mut self, text: &str) -> Option<T> {
        if let Some(known) = self.recent.iter().find(|known| known.as_ref() == text) {
            return Some(known.clone());
        }
        let new: T = text.parse().ok()?;
        if self.recent.len() < INTERNED {
            self.recent.push(new.clone());
        } else if let Some(oldest) = self.recent.get_mut(self.next) {
            *oldest = new.clone();
            self.next = (self.next + 1) % INTERNED;
        }
        Some(new)
    }
}
