//! How keys and values are written: big-endian numbers and plain bytes, nothing of the engine's own types.
//!
//! A key is a row of fields. A text field ends with a zero byte, which no id contains, so that keys sort as their
//! fields do; the last text of a key needs no end. A value begins with the version of its layout and ends with a check
//! sum over key and value: the engine does not check what it reads, so a turned bit would otherwise be believed.

use turnkeep_core::{Error, Result, Timestamp};

use crate::error::damaged;
use crate::tables::Table;

/// The layout that this version writes, of every kind of value.
const LAYOUT: u8 = 1;

/// Bytes of the check sum.
const SUM: usize = 4;

/// A key in the making.
#[derive(Clone, Debug, Default)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(32))
    }

    pub(crate) fn u64(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub(crate) fn u32(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// A time, so that earlier ones sort first.
    pub(crate) fn time(self, time: Timestamp) -> Self {
        self.u64(time.as_millis().cast_unsigned() ^ (1 << 63))
    }

    /// A text with something after it.
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        self
    }

    /// The last text.
    pub(crate) fn tail(mut self, text: &str) -> Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads the fields of a stored key or value.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    table: Table,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn of_key(table: Table, key: &'a [u8]) -> Self {
        Self { table, rest: key }
    }

    /// The fields of a value whose sum was checked when it was read.
    pub(crate) fn of_value(table: Table, body: &'a [u8]) -> Result<Self> {
        match body.split_first() {
            Some((&LAYOUT, rest)) => Ok(Self { table, rest }),
            _ => Err(damaged(table, "layout")),
        }
    }

    pub(crate) fn damaged(&self, what: &'static str) -> Error {
        damaged(self.table, what)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.damaged("length"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| self.damaged("length"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged("flag")),
        }
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.bytes().map(u64::from_be_bytes)
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        self.bytes().map(i64::from_be_bytes).map(Timestamp::from_millis)
    }

    pub(crate) fn str(&mut self) -> Result<&'a str> {
        let length = self.u32()? as usize;
        self.utf8(length)
    }

    pub(crate) fn maybe_str(&mut self) -> Result<Option<&'a str>> {
        match self.u32()? {
            NONE => Ok(None),
            length => self.utf8(length as usize).map(Some),
        }
    }

    fn utf8(&mut self, length: usize) -> Result<&'a str> {
        let taken = self.take(length)?;
        std::str::from_utf8(taken).map_err(|_| self.damaged("text"))
    }

    /// A text of a key that something follows.
    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let length = self.rest.iter().position(|byte| *byte == 0).ok_or_else(|| self.damaged("text"))?;
        let text = self.utf8(length)?;
        self.take(1)?;
        Ok(text)
    }

    /// The last text of a key.
    pub(crate) fn tail(&mut self) -> Result<&'a str> {
        self.utf8(self.rest.len())
    }

    /// An id, which has rules of its own.
    pub(crate) fn id<T: std::str::FromStr>(&mut self) -> Result<T> {
        let text = self.str()?;
        self.parse(text)
    }

    pub(crate) fn maybe_id<T: std::str::FromStr>(&mut self) -> Result<Option<T>> {
        let text = self.maybe_str()?;
        text.map(|text| self.parse(text)).transpose()
    }

    pub(crate) fn parse<T: std::str::FromStr>(&self, text: &str) -> Result<T> {
        text.parse().map_err(|_| self.damaged("id"))
    }

    /// Nothing may be left: a longer row is not the one that was written.
    pub(crate) fn end(self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.damaged("length")) }
    }
}

/// The length that stands for "none".
const NONE: u32 = u32::MAX;

/// A value in the making.
#[derive(Debug)]
pub(crate) struct Value(Vec<u8>);

impl Value {
    pub(crate) fn new() -> Self {
        Self::sized(64)
    }

    pub(crate) fn sized(bytes: usize) -> Self {
        let mut body = Vec::with_capacity(bytes + 1 + SUM);
        body.push(LAYOUT);
        Self(body)
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8(self, number: u8) -> Self {
        self.bytes(&[number])
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.u8(flag.into())
    }

    pub(crate) fn u32(self, number: u32) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    pub(crate) fn u64(self, number: u64) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    pub(crate) fn time(self, time: Timestamp) -> Self {
        self.bytes(&time.as_millis().to_be_bytes())
    }

    /// A text. Limits far below 4 GiB hold long before this.
    pub(crate) fn str(self, text: &str) -> Self {
        let length = u32::try_from(text.len()).unwrap_or(NONE - 1);
        self.u32(length).bytes(text.as_bytes())
    }

    pub(crate) fn maybe_str(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.str(text),
            None => self.u32(NONE),
        }
    }

    /// The bytes to store under a key.
    pub(crate) fn seal(self, key: &[u8]) -> Vec<u8> {
        seal(key, self.0)
    }
}

/// Adds the check sum to the body of a value.
pub(crate) fn seal(key: &[u8], mut body: Vec<u8>) -> Vec<u8> {
    let sum = check_sum(key, &body);
    body.extend_from_slice(&sum.to_be_bytes());
    body
}

/// The body of a stored value, if it is the one that was written under this key.
pub(crate) fn unseal<'a>(table: Table, key: &[u8], stored: &'a [u8]) -> Result<&'a [u8]> {
    let at = stored.len().checked_sub(SUM).ok_or_else(|| damaged(table, "length"))?;
    let (body, sum) = stored.split_at(at);
    if check_sum(key, body).to_be_bytes() == *sum { Ok(body) } else { Err(damaged(table, "check sum")) }
}

/// A sum that changes with every turned bit: each step is one-to-one in the state for a given word, and in the word
/// for a given state. Not against forgers; who can write the file can write the sum.
fn check_sum(key: &[u8], body: &[u8]) -> u32 {
    let state = (key.len() as u64) << 32 ^ body.len() as u64 ^ 0x7475_726E_6B65_6570;
    let state = mix(mix(state, key), body);
    let state = (state ^ (state >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (state ^ (state >> 32)) as u32
}

fn mix(mut state: u64, bytes: &[u8]) -> u64 {
    let step = |state: u64, word: u64| {
        let state = (state ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        state ^ (state >> 29)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = step(state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    step(state, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables;

    #[test]
    fn keys_sort_as_their_fields_do() {
        let key = |text: &str, number| Key::new().text(text).u64(number).into_bytes();
        let sorted = [key("a", 2), key("a", 256), key("a b", 1), key("ab", 0), key("b", 0)];
        assert!(sorted.is_sorted());
        let time = |ms| Key::new().time(Timestamp::from_millis(ms)).into_bytes();
        assert!([time(i64::MIN), time(-1), time(0), time(1), time(i64::MAX)].is_sorted());
    }

    #[test]
    fn every_turned_bit_of_key_and_value_is_noticed() {
        let key = Key::new().u64(7).tail("a key").into_bytes();
        let stored = Value::new().u32(5).str("words of somebody").seal(&key);
        assert!(unseal(tables::ENTRIES, &key, &stored).is_ok());
        for bit in 0..stored.len() * 8 {
            let mut turned = stored.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(tables::ENTRIES, &key, &turned).is_err(), "bit {bit} of the value");
        }
        for bit in 0..key.len() * 8 {
            let mut turned = key.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(tables::ENTRIES, &turned, &stored).is_err(), "bit {bit} of the key");
        }
        for length in 0..stored.len() {
            assert!(unseal(tables::ENTRIES, &key, &stored[..length]).is_err(), "cut to {length}");
        }
    }

    #[test]
    fn fields_come_back_and_a_short_value_is_damage() {
        let key = b"k".as_slice();
        let value = Value::new().u8(1).maybe_str(None).maybe_str(Some("é")).time(Timestamp::from_millis(-5));
        let stored = value.seal(key);
        let body = unseal(tables::ENTRIES, key, &stored).unwrap();
        let mut fields = Fields::of_value(tables::ENTRIES, body).unwrap();
        assert!(fields.flag().unwrap());
        assert_eq!(fields.maybe_str().unwrap(), None);
        assert_eq!(fields.maybe_str().unwrap(), Some("é"));
        assert_eq!(fields.time().unwrap().as_millis(), -5);
        assert!(fields.u8().is_err());
        fields.end().unwrap();
    }
}
