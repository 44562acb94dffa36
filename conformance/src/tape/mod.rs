//! Tapes: whole runs against a store as text, played by the clauses of the group `MOD` and held against a plain model.
//!
//! One form for all: `script` and `ops` are its words, `generate` draws tapes, `model` is the second opinion,
//! `stage` says a tape's words to a store, `play` has the players, `judge` holds one against the other, and
//! `shrink` makes a failing tape short. A finding has the short tape as JSON; [`replay`] plays it again.
//!
//! A tape reads like this: `a.1` is the first life of the session `a`, `e1` what a later step calls the entry.
//!
//! ```
//! let tape = r#"{"version":1,"clause":"MOD-001","seed":0,"player":"sequential","clients":2,"steps":[
//!   {"act":{"commit":{"ops":[{"create":{"session":"a.1"}}]}}},
//!   {"act":{"commit":{"ops":[{"append":{"session":"a.1","lines":[{"label":"e1","text":"hello"}]}}]}}},
//!   {"client":1,"act":{"commit":{"ops":[{"move_leaf":{"session":"a.1","to":"e1"}}]}}},
//!   {"act":"reopen"},
//!   {"act":{"look":{"at":{"entries":{"session":"a.1","path":"leaf"}},"limit":10}}}
//! ]}"#;
//! assert_eq!(turnkeep_conformance::tape::clause_of(tape).unwrap().id, "MOD-001");
//! ```
//!
//! The model is written anew, from the specification: were it the rules of core, both could be wrong together. Core's own
//! tests have another one, over commits instead of tapes, because core depends on none of our crates.

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
