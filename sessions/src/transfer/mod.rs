//! Export and import, one session as one file of lines; [`copy`], a whole store into another; [`salvage`], what is
//! left of a damaged one.
//!
//! [`export`] writes every row of a session as JSON lines, with a header before them and a footer that proves them
//! whole. [`import`] reads such a file back so that it reads the same in every query, or a session file of the pi
//! coding agent (versions 1 to 3). What cannot be read is dropped line by line, named and counted; a file that is no session
//! at all is refused. An import is invisible until it is complete, and the next try takes over what a dead one left.
//!
//! `docs/export-format.md` describes the lines.

pub(crate) mod builder;
mod content;
mod copy;
mod export;
mod filling;
mod import;
mod jsonl;
mod lines;
mod moment;
mod pi;
mod report;
mod salvage;
mod stand_in;
mod sum;
mod survey;

use std::ops::ControlFlow;

pub use copy::{CopiedRecords, CopiedSession, CopiedWorkspace, CopyOptions, CopyOutcome, CopyReport, copy};
pub use export::{ExportReport, export};
pub use import::{ImportOptions, import};
pub use jsonl::{FORMAT_NAME, FORMAT_VERSION};
pub use report::{DropReason, Dropped, Format, ImportReport, Missing, UnansweredIn, Wholeness};
pub use salvage::{LeftOut, SalvageOptions, SalvageReport, salvage};
pub use sum::Sum;

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is done: bytes read of an import, entries written of an export, entries read of a copy.
    pub done: u64,
    /// What there is to do, in the same unit. An import reads its file twice, so this is twice its length.
    pub total: u64,
}

/// Told how far a transfer is, and asked whether it should go on. `Break` ends it with `Cancelled`, and nothing of it
/// stays.
pub type OnProgress<'a> = dyn FnMut(Progress) -> ControlFlow<()> + Send + 'a;

/// A progress callback for whoever wants none.
pub fn quietly() -> impl FnMut(Progress) -> ControlFlow<()> + Send {
    |_| ControlFlow::Continue(())
}
