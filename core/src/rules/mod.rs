//! What a commit means, as pure functions: `plan` says what it needs to know, `decide` what it writes or why not.
//!
//! No clock, randomness or I/O in here, so the same rules hold on every backend.

mod decide;
mod exclusive;
mod facts;
mod plan;
mod transitions;
mod validate;
mod writes;

pub use decide::decide;
pub use exclusive::{EXCLUSIVE_COLLECTIONS, EXCLUSIVE_STREAMS, is_exclusive_collection, is_exclusive_stream};
pub use facts::{
    AttemptFact, Facts, LeaseFact, LeaseRow, Lookup, OwnerState, Place, ReadSet, RecordFact, RequestRow,
    Span, Stamp,
};
pub use plan::plan;
pub use transitions::{REOPENABLE, TRANSITIONS, may_follow};
pub use validate::validate;
pub use writes::{Segment, SessionChange, Write, WriteSet};
