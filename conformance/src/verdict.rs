//! What a clause found out.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::StoreFacts;

/// The answer of one clause on one backend. A certificate needs every required clause to pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", content = "detail", rename_all = "snake_case")]
pub enum Verdict {
    /// The promise held.
    Pass,
    /// The promise was broken; the text says what was expected and what was seen.
    Fail(String),
    /// The clause could not be carried out: the harness failed or the time ran out.
    Error(String),
    /// The backend declares that it lacks what the clause needs, and a negative probe confirmed it.
    Unsupported(String),
    /// Somebody decided not to ask; the text says who and why.
    Waived(String),
    /// The harness offers no way to ask.
    NotRun(String),
    /// The chance that the clause depends on did not come up.
    Inconclusive(String),
}

impl Verdict {
    /// The name of the verdict in reports.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail(_) => "fail",
            Self::Error(_) => "error",
            Self::Unsupported(_) => "unsupported",
            Self::Waived(_) => "waived",
            Self::NotRun(_) => "not-run",
            Self::Inconclusive(_) => "inconclusive",
        }
    }

    /// What there is to say about it.
    #[must_use]
    pub fn detail(&self) -> &str {
        match self {
            Self::Pass => "",
            Self::Fail(text)
            | Self::Error(text)
            | Self::Unsupported(text)
            | Self::Waived(text)
            | Self::NotRun(text)
            | Self::Inconclusive(text) => text,
        }
    }

    /// Whether a test of the clause may be green: it passed, or the lack was declared and confirmed.
    #[must_use]
    pub const fn is_acceptable(&self) -> bool {
        matches!(self, Self::Pass | Self::Unsupported(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        if !self.detail().is_empty() {
            write!(f, ": {}", self.detail())?;
        }
        Ok(())
    }
}

/// What one run of a clause found: the verdict, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The answer.
    pub verdict: Verdict,
    /// The shortest tape that shows a failure, as JSON, where the clause plays tapes.
    pub tape: Option<String>,
    /// How long it took.
    pub elapsed: Duration,
    /// What was looked at, by name: images, tapes, kills. A pass over 12 is not a pass over 1,200.
    pub counted: BTreeMap<String, u64>,
    /// What the first store that it opened said of itself.
    pub store: Option<StoreFacts>,
}

impl Finding {
    /// A verdict that rests on nothing yet.
    #[must_use]
    pub fn of(verdict: Verdict) -> Self {
        Self { verdict, tape: None, elapsed: Duration::ZERO, counted: BTreeMap::new(), store: None }
    }
}

/// Why a clause stopped before its end.
#[derive(Debug)]
pub struct Stop {
    verdict: Verdict,
    tape: Option<String>,
    at: &'static Location<'static>,
}

impl Stop {
    #[track_caller]
    fn of(verdict: Verdict) -> Self {
        Self { verdict, tape: None, at: Location::caller() }
    }

    /// The promise was broken.
    #[must_use]
    #[track_caller]
    pub fn fail(what: impl Into<String>) -> Self {
        Self::of(Verdict::Fail(what.into()))
    }

    /// The clause could not be carried out.
    #[must_use]
    #[track_caller]
    pub fn error(what: impl Into<String>) -> Self {
        Self::of(Verdict::Error(what.into()))
    }

    /// The harness offers no way to ask.
    #[must_use]
    #[track_caller]
    pub fn not_run(what: impl Into<String>) -> Self {
        Self::of(Verdict::NotRun(what.into()))
    }

    /// The chance that the clause depends on did not come up.
    #[must_use]
    #[track_caller]
    pub fn inconclusive(what: impl Into<String>) -> Self {
        Self::of(Verdict::Inconclusive(what.into()))
    }

    /// Says what it is about, before the text.
    #[must_use]
    pub fn about(mut self, what: &str) -> Self {
        if let Verdict::Fail(text) | Verdict::Error(text) = &mut self.verdict {
            text.insert_str(0, &format!("{what}: "));
        }
        self
    }

    /// Adds the tape that shows it, as JSON.
    #[must_use]
    pub fn with_tape(mut self, tape: impl Into<String>) -> Self {
        self.tape = Some(tape.into());
        self
    }

    /// The verdict, with the place in the suite where it was found, and the tape that shows it.
    #[must_use]
    pub fn into_finding(self) -> Finding {
        let tape = self.tape.clone();
        Finding { tape, ..Finding::of(self.into_verdict()) }
    }

    /// The verdict, with the place in the suite where it was found.
    #[must_use]
    pub fn into_verdict(self) -> Verdict {
        let place = |text: String| format!("{text} ({}:{})", self.at.file(), self.at.line());
        match self.verdict {
            Verdict::Fail(text) => Verdict::Fail(place(text)),
            Verdict::Error(text) => Verdict::Error(place(text)),
            other => other,
        }
    }
}

impl From<turnkeep_core::Error> for Stop {
    /// A refusal of something that the contract allows is a broken promise.
    #[track_caller]
    fn from(error: turnkeep_core::Error) -> Self {
        Self::fail(format!("the store answered: {error}"))
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.verdict, self.at.file(), self.at.line())
    }
}

/// What a clause answers: nothing when the promise held.
pub type Outcome<T = ()> = Result<T, Stop>;
