//! Which formats this version can use. Format 1 is the first, so there is none to come from yet.

use std::cmp::Ordering;

use turnkeep_core::mutant;
use turnkeep_core::{Error, ErrorKind, Result};

use crate::tables::FORMAT;

/// Whether a format is ours to use.
///
/// # Errors
/// `NewerFormat` or `OlderFormat`.
pub(crate) fn check_format(found: u32) -> Result<()> {
    match found.cmp(&FORMAT) {
        Ordering::Equal => Ok(()),
        Ordering::Greater if mutant::is("redb/newer-format-opened") => Ok(()),
        Ordering::Greater => Err(Error::new(
            ErrorKind::NewerFormat,
            "the store was written by a newer version of turnkeep; it was not touched: upgrade this program",
        )
        .with("found", found)
        .with("known", FORMAT)),
        Ordering::Less => Err(Error::new(
            ErrorKind::OlderFormat,
            "the store has a format that no released version of turnkeep wrote; it was not touched",
        )
        .with("found", found)
        .with("known", FORMAT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_known_format_is_used() {
        let kind = |format| check_format(format).map_err(|error| error.kind());
        assert_eq!(kind(0), Err(ErrorKind::OlderFormat));
        assert_eq!(kind(1), Ok(()));
        assert_eq!(kind(2), Err(ErrorKind::NewerFormat));
    }
}
