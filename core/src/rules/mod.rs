//! What a commit means, as pure functions: `plan` says what it needs to know, `decide` what it writes or why not.
//!
//! No clock, randomness or I/O in here, so the same rules hold on every backend. A backend fetches the facts that
//! `plan` names, calls `decide`, writes the rows, commits: that is all.

mod decide;
mod exclusive;
mod facts;
mod fingerprint;
mod plan;
mod restore;
mod transitions;
mod validate;
mod writes;

pub use decide::{counts_as_message, decide};
pub use exclusive::{EXCLUSIVE_COLLECTIONS, EXCLUSIVE_STREAMS, is_exclusive_collection, is_exclusive_stream};
pub use facts::{
    AttemptFact, Facts, LeaseFact, LeaseRow, Lookup, MAX_ACTIVITY, OwnerState, Place, ReadSet, RecordFact,
    RequestFact, RequestRow, Span, Stamp,
};
pub use fingerprint::fingerprint;
pub use plan::plan;
pub use restore::{copied, fold_row};
pub use transitions::{REOPENABLE, TRANSITIONS, may_follow};
pub use validate::validate;
pub use writes::{Segment, SessionChange, Write, WriteSet};
