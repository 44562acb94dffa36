//! How the program ends.

use std::fmt;
use std::io;

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was done: a list was printed, a report was written.
    Done,
    /// There is a certificate.
    Certified,
    /// All that was asked passed, but it was less than a certificate needs.
    Passed,
    /// There is no certificate.
    NotCertified,
    /// Somebody ended it early.
    Interrupted,
}

impl Ending {
    /// The exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done | Self::Certified | Self::Passed => 0,
            Self::NotCertified => 17,
            Self::Interrupted => 130,
        }
    }
}

/// Why something could not be done.
#[derive(Debug)]
#[non_exhaustive]
pub enum Trouble {
    /// The command line is wrong.
    Usage(String),
    /// Nothing has that name.
    NotFound(String),
    /// A file is not what it should be.
    BadFile(String),
    /// Something of this machine failed.
    Failed(String),
    /// The output cannot be written.
    Output(io::Error),
}

impl Trouble {
    /// The exit code.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::NotFound(_) => 3,
            Self::BadFile(_) => 15,
            Self::Failed(_) | Self::Output(_) => 1,
        }
    }

    /// Whether the reader of the output went away. Nobody is there to be told.
    #[must_use]
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::NotFound(text) | Self::BadFile(text) | Self::Failed(text) => {
                f.write_str(text)
            }
            Self::Output(error) => write!(f, "the output cannot be written: {error}"),
        }
    }
}

impl std::error::Error for Trouble {}

impl From<io::Error> for Trouble {
    /// Only writes to the output come here: files are named where they are opened.
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
