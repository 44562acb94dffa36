//! Between columns and the model: each table's columns are named and read in one place.

mod entry;
mod event;
mod fields;
mod lease;
mod record;
mod run;
mod session;

pub(crate) use entry::{ENTRY_COLUMNS, EntryReader, visibility_name, visibility_of};
pub(crate) use event::{EVENT_COLUMNS, STREAM_COLUMNS, event, stream};
pub(crate) use fields::{Fields, Intern, from_bits, int, to_bits};
pub(crate) use lease::{lease_row, lease_state_name};
pub(crate) use record::{RECORD_COLUMNS, record};
pub(crate) use run::{RUN_COLUMNS, run};
pub(crate) use session::{
    SESSION_COLUMNS, audience_name, fork_kind_name, session, session_state_name, title_source_name,
};

use turnkeep_core::EntryNo;

/// The part of a row key below the session key: numbers have 32 bits.
pub(crate) const NUMBER_BITS: u32 = 32;

/// The row key of a number in a session.
pub(crate) fn row_key(skey: i64, number: u32) -> i64 {
    (skey << NUMBER_BITS) | i64::from(number)
}

/// The number in a row key.
pub(crate) fn number_of(row_key: i64) -> u32 {
    // The lower 32 bits are the number; cutting off the rest is the point.
    (row_key & i64::from(u32::MAX)) as u32
}

/// The column of a number that may be absent.
pub(crate) fn maybe_number(number: Option<EntryNo>) -> Option<u32> {
    number.map(EntryNo::get)
}
