//! `turnkeep sessions …`

pub(crate) mod delete;
pub(crate) mod fork;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod mark;
pub(crate) mod new;
pub(crate) mod prune;
pub(crate) mod rename;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod tail;

use crate::failure::{Failure, Outcome};

/// A title of blanks only would look like none.
pub(crate) fn refuse_empty_title(title: &str) -> Outcome<()> {
    if title.trim().is_empty() {
        return Err(Failure::usage("the title is empty; give some text"));
    }
    Ok(())
}
