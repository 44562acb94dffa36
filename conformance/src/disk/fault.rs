//! Faults: which calls fail, and how.

use std::io;

use super::Call;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Makes a file.
    Create,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Changes a length.
    SetLen,
    /// Makes a file durable.
    Sync,
    /// Removes a name.
    Remove,
    /// Moves or doubles a name.
    Name,
    /// Makes names durable.
    SyncFolder,
    /// Any of them but reads: whatever changes something.
    Change,
}

impl Kind {
    /// The kinds that a call can have.
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Read,
        Self::Write,
        Self::SetLen,
        Self::Sync,
        Self::Remove,
        Self::Name,
        Self::SyncFolder,
    ];

    pub(super) const fn of(call: &Call<'_>) -> Self {
        match call {
            Call::Create(_) => Self::Create,
            Call::Read(_) => Self::Read,
            Call::Write(..) => Self::Write,
            Call::SetLen(..) => Self::SetLen,
            Call::Sync(..) => Self::Sync,
            Call::Remove(_) => Self::Remove,
            Call::Rename(..) | Call::Link(..) => Self::Name,
            Call::SyncFolder(_) => Self::SyncFolder,
        }
    }

    fn fits(self, kind: Self) -> bool {
        self == kind || (self == Self::Change && kind != Self::Read)
    }
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The device reports an error.
    Io,
    /// No room is left.
    Full,
    /// The process ends on the spot, before the call: a kill at an enumerated point.
    Abort,
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Full => Self::new(io::ErrorKind::StorageFull, "the test disk is full"),
            Failure::Io | Failure::Abort => Self::other("the test disk fails"),
        }
    }
}

/// Which calls fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Calls of this kind.
    pub kind: Kind,
    /// Only on files whose names end so. Empty: on every file.
    pub name: String,
    /// How many of them still pass.
    pub pass: u64,
    /// How many fail then.
    pub times: u64,
    /// How they fail.
    pub failure: Failure,
}

impl Fault {
    /// Lets `pass` calls of a kind pass and fails one.
    #[must_use]
    pub fn once(kind: Kind, pass: u64, failure: Failure) -> Self {
        Self { kind, name: String::new(), pass, times: 1, failure }
    }

    /// Fails every call of a kind until disarmed.
    #[must_use]
    pub fn always(kind: Kind, failure: Failure) -> Self {
        Self { times: u64::MAX, ..Self::once(kind, 0, failure) }
    }

    /// Only on files whose names end so.
    #[must_use]
    pub fn on(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }
}

/// The faults that are armed, and how often each kind was called.
#[derive(Debug, Default)]
pub(super) struct Faults {
    armed: Vec<Fault>,
    calls: [u64; Kind::ALL.len()],
    pub(super) failed: u64,
}

impl Faults {
    pub(super) fn arm(&mut self, fault: Fault) {
        self.armed.push(fault);
    }

    pub(super) fn disarm(&mut self) {
        self.armed.clear();
    }

    pub(super) fn calls(&self, kind: Kind) -> u64 {
        Kind::ALL.iter().zip(self.calls).filter(|(of, _)| kind.fits(**of)).map(|(_, count)| count).sum()
    }

    /// Counts a call, and says how it fails if it does.
    pub(super) fn judge(&mut self, kind: Kind, name: &str) -> Option<Failure> {
        for (of, count) in Kind::ALL.iter().zip(&mut self.calls) {
            *count += u64::from(*of == kind);
        }
        for fault in &mut self.armed {
            if fault.kind.fits(kind) && name.ends_with(&fault.name) {
                if fault.pass > 0 {
                    fault.pass -= 1;
                } else if fault.times > 0 {
                    fault.times -= 1;
                    self.failed += 1;
                    return Some(fault.failure);
                }
            }
        }
        None
    }
}
