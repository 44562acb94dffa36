//! Whether a writer may write.

use std::sync::OnceLock;

use crate::error::{Error, ErrorKind, Result};
use crate::mutant;

/// Whether a writer may write: never to what was opened only to read what is left of it, and no more once the outcome
/// of a write is unknown.
#[derive(Debug)]
pub struct Permit {
    damaged: bool,
    poisoned: OnceLock<Error>,
}

impl Permit {
    /// Of a writer that begins; `damaged` when the store was opened only to read what is left of it.
    #[must_use]
    pub fn new(damaged: bool) -> Self {
        Self { damaged, poisoned: OnceLock::new() }
    }

    /// Refuses what may not be.
    ///
    /// # Errors
    /// `ReadOnly` for what was opened as damaged, `Poisoned` after [`Permit::poison`].
    pub fn check(&self) -> Result<()> {
        if self.damaged && !mutant::is("permit/damaged-is-written") {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the store was opened to read what is left of it, so nothing is written to it",
            ));
        }
        match self.poisoned.get() {
            Some(why) if !mutant::is("permit/poison-not-looked-at") => Err(poisoned(why)),
            _ => Ok(()),
        }
    }

    /// Nothing may be written any more. The first reason stays.
    pub fn poison(&self, why: &Error) {
        self.poisoned.get_or_init(|| why.duplicate());
    }
}

/// The answer to whoever writes after the outcome of a write was unknown.
pub(super) fn poisoned(why: &Error) -> Error {
    Error::new(
        ErrorKind::Poisoned,
        "an earlier commit failed in a way that leaves its outcome open; reopen the store",
    )
    .with_source(why.to_string())
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn what_was_opened_as_damaged_is_not_written() {
        assert!(Permit::new(false).check().is_ok());
        let permit = Permit::new(true);
        assert_eq!(permit.check().unwrap_err().kind(), ErrorKind::ReadOnly);
        permit.poison(&Error::new(ErrorKind::Io, "no"));
        assert_eq!(permit.check().unwrap_err().kind(), ErrorKind::ReadOnly);
    }

    #[test]
    fn after_an_unknown_outcome_nothing_is_written_and_the_first_reason_is_told() {
        let permit = Permit::new(false);
        permit.poison(&Error::new(ErrorKind::Io, "the first"));
        permit.poison(&Error::new(ErrorKind::Io, "the second"));
        let refused = permit.check().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Poisoned);
        assert!(refused.source().is_some_and(|why| why.to_string().contains("the first")));
    }
}
