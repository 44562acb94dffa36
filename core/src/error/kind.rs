//! One kind per decision a caller can take.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// Why a fork was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ForkReason {
    /// The source session does not exist.
    SourceNotFound,
    /// The source has an active run.
    SourceActive,
    /// The source has no completed turn.
    NoCompletedTurn,
    /// The boundary is not there (yet).
    Unavailable,
    /// The boundary is inside a turn or splits a tool call from its result.
    InvalidBoundary,
    /// An entry up to the boundary cannot be carried over.
    UnsupportedEntry,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        /// What went wrong, as the decision it asks for. New kinds may be added.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $name,)*
            /// The fork cannot be made; the reason says why. Nothing was written.
            ForkRefused(ForkReason),
        }

        impl ErrorKind {
            /// Every code with its page under `docs/errors/`.
            pub const CODES: &'static [&'static str] = &[$($code,)* "TK-FORK-REFUSED"];

            /// The stable code, for logs, scripts and the page in the docs.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                    Self::ForkRefused(_) => "TK-FORK-REFUSED",
                }
            }
        }
    };
}

kinds! {
    /// The thing named is not there. Check the id, or create it.
    NotFound = "TK-NOT-FOUND";
    /// Something with that id is there already, and was not touched.
    AlreadyExists = "TK-ALREADY-EXISTS";
    /// A prefix fits more than one id. Give more characters.
    Ambiguous = "TK-AMBIGUOUS";
    /// Another writer was first: the leaf, head or revision moved. Reload and decide again.
    StaleLeaf = "TK-STALE-LEAF";
    /// The run is not in a state that allows this. Read it and decide again.
    RunState = "TK-RUN-STATE";
    /// The session has an active run. Finish or recover it first.
    ActiveRun = "TK-ACTIVE-RUN";
    /// The turn is not open, or its stream is closed.
    TurnNotOpen = "TK-TURN-NOT-OPEN";
    /// Somebody else holds the lease. Wait or give up.
    LeaseHeld = "TK-LEASE-HELD";
    /// The lease is not yours any more. Stop working.
    LeaseLost = "TK-LEASE-LOST";
    /// The request id was used for something else. Use a new id.
    RequestConflict = "TK-REQUEST-CONFLICT";
    /// The request id is older than seven days, so nobody can say whether it landed. Look, then use a new id.
    RequestExpired = "TK-REQUEST-EXPIRED";
    /// The record is at another version. Read it and decide again.
    VersionConflict = "TK-VERSION-CONFLICT";
    /// The input is wrong. Nothing was written; change the input.
    Invalid = "TK-INVALID";
    /// The input is over a limit. Nothing was written; send less.
    TooLarge = "TK-TOO-LARGE";
    /// The state root lies where workspace tools could change it. Choose another.
    UnsafeRoot = "TK-UNSAFE-ROOT";
    /// This store cannot do that. Nothing was done.
    Unsupported = "TK-UNSUPPORTED";
    /// The caller cancelled. Nothing further was done.
    Cancelled = "TK-CANCELLED";
    /// Somebody else kept the store busy for longer than the deadline. Nothing was written; try again.
    Busy = "TK-BUSY";
    /// No room left. Nothing was written; make room and try again.
    Full = "TK-FULL";
    /// The store was opened read-only or the file system is. Nothing was written.
    ReadOnly = "TK-READ-ONLY";
    /// The stored data is damaged. Nothing was changed; restore a backup or verify.
    Corrupt = "TK-CORRUPT";
    /// The store was written by a newer version of this software. Nothing was touched; upgrade.
    NewerFormat = "TK-NEWER-FORMAT";
    /// The store has an older format that this version cannot open as it is.
    OlderFormat = "TK-OLDER-FORMAT";
    /// Nobody can say whether the commit landed. Repeat it with its request id: it lands once.
    CommitUnknown = "TK-COMMIT-UNKNOWN";
    /// An earlier commit's outcome is unknown, so this handle takes no more. Reopen the store.
    Poisoned = "TK-POISONED";
    /// The store was closed. Open it again.
    Closed = "TK-CLOSED";
    /// The operating system refused. The message says what.
    Io = "TK-IO";
}

impl ErrorKind {
    /// Whether the same call can succeed later without changing it.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::LeaseHeld | Self::CommitUnknown | Self::Full)
    }

    /// What a caller can do about an error of the file system.
    #[must_use]
    pub fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            _ => Self::Io,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
