//! What happened on a disk, in order.

use std::sync::Arc;

use super::Flush;

/// A file, whatever its name is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(super) usize);

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A file that was there before the log began, durably.
    Found {
        /// Its name.
        name: String,
        /// What it is called in this log.
        file: FileId,
        /// What it held.
        bytes: Arc<[u8]>,
    },
    /// An empty file was made.
    Create {
        /// Its name.
        name: String,
        /// What it is called in this log.
        file: FileId,
    },
    /// Bytes were written.
    Write {
        /// To this file.
        file: FileId,
        /// From here on.
        offset: u64,
        /// These.
        bytes: Arc<[u8]>,
    },
    /// A length was set.
    SetLen {
        /// Of this file.
        file: FileId,
        /// To so many bytes.
        len: u64,
    },
    /// A file was made durable.
    Sync {
        /// This one.
        file: FileId,
        /// How.
        flush: Flush,
    },
    /// A name was removed.
    Remove {
        /// This one.
        name: String,
    },
    /// A file got another name.
    Rename {
        /// The old one.
        from: String,
        /// The new one.
        to: String,
    },
    /// A file got a second name.
    Link {
        /// The first one.
        from: String,
        /// The second one.
        to: String,
    },
    /// Names were made durable.
    SyncFolder {
        /// In this folder.
        folder: String,
    },
}

/// What a test notes in the log, so that an image knows what had been said by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// So many commits were handed in.
    Begun(u64),
    /// So many commits were acknowledged.
    Acked(u64),
    /// Something else came so far.
    Noted(u64),
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something was done.
    Op(Op),
    /// The test noted something.
    Mark(Mark),
}

/// What happened on a disk, in order.
#[derive(Clone, Debug, Default)]
pub struct Log {
    steps: Vec<Step>,
}

impl Log {
    pub(super) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Every line.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What was done, without the notes.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.steps.iter().filter_map(|step| match step {
            Step::Op(op) => Some(op),
            Step::Mark(_) => None,
        })
    }
}
