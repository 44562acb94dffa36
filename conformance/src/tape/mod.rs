//! Tapes: whole runs against a store as text, played by the clauses of the group `MOD` and held against a plain model.
//!
//! One form for all: `script` and `ops` are its words, `generate` draws tapes, `model` is the second opinion,
//! `stage` says a tape's words to a store, `play` has the players, `judge` holds one against the other, and
//! `shrink` makes a failing tape short. A finding has the short tape as JSON; [`replay`] plays it again.

mod draws;
pub(crate) mod generate;
pub(crate) mod history;
mod judge;
mod look;
mod mind;
mod model;
mod names;
mod observe;
mod ops;
mod order;
pub(crate) mod play;
pub(crate) mod run;
pub(crate) mod script;
pub(crate) mod shrink;
mod speaker;
mod stage;
mod translate;
mod view;

use std::sync::Arc;

use crate::clause::Clause;
use crate::harness::Harness;
use crate::registry;
use crate::runner::{self, Settings};
use crate::verdict::{Finding, Verdict};
use script::Tape;

/// The clause that a tape belongs to.
///
/// # Errors
/// What is wrong with the text, when it is no tape that this suite can play.
pub fn clause_of(json: &str) -> Result<&'static Clause, String> {
    let tape = Tape::from_json(json)?;
    registry::by_id(&tape.clause).ok_or_else(|| format!("this suite has no clause {}", tape.clause))
}

/// Plays a tape on a fresh site, as the clause that it belongs to would. One that fails is not made shorter.
#[must_use]
pub fn replay(harness: Arc<dyn Harness>, json: &str, settings: Settings) -> Finding {
    match clause_of(json) {
        Ok(clause) => runner::find(harness, clause, Settings { tape: Some(Arc::from(json)), ..settings }),
        Err(wrong) => Finding::of(Verdict::Error(wrong)),
    }
}
