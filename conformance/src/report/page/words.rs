//! How a report speaks to people. The terminal uses the same words.

use std::collections::BTreeMap;

use turnkeep_core::Durability;

use super::super::data::{Entry, Report};
use super::super::shortfall::Shortfall;
use crate::clause::Level;
use crate::registry;
use crate::verdict::Verdict;

/// How an answer is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Fail,
    Error,
    Inconclusive,
    NotRun,
    Waived,
    ShouldFail,
    Unsupported,
    Pass,
}

/// All of them, what needs a person first.
pub(crate) const SHOWN: [Shown; 8] = [
    Shown::Fail,
    Shown::Error,
    Shown::Inconclusive,
    Shown::NotRun,
    Shown::Waived,
    Shown::ShouldFail,
    Shown::Unsupported,
    Shown::Pass,
];

impl Shown {
    pub(crate) fn of(entry: &Entry) -> Self {
        match (&entry.verdict, entry.promise.level) {
            (Verdict::Pass, _) => Self::Pass,
            (Verdict::Fail(_), Level::Must) => Self::Fail,
            (Verdict::Fail(_), Level::Should) => Self::ShouldFail,
            (Verdict::Error(_), _) => Self::Error,
            (Verdict::Unsupported(_), _) => Self::Unsupported,
            (Verdict::Waived(_), _) => Self::Waived,
            (Verdict::NotRun(_), _) => Self::NotRun,
            (Verdict::Inconclusive(_), _) => Self::Inconclusive,
        }
    }

    /// For style sheets and scripts.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Error => "error",
            Self::Inconclusive => "inconclusive",
            Self::NotRun => "not-run",
            Self::Waived => "waived",
            Self::ShouldFail => "should-fail",
            Self::Unsupported => "unsupported",
            Self::Pass => "pass",
        }
    }

    /// For people.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Fail => "broken",
            Self::Error => "error",
            Self::Inconclusive => "inconclusive",
            Self::NotRun => "not run",
            Self::Waived => "waived",
            Self::ShouldFail => "not met",
            Self::Unsupported => "not offered",
            Self::Pass => "kept",
        }
    }

    /// What the word means.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Fail => "The promise was broken.",
            Self::Error => "The clause could not be carried out.",
            Self::Inconclusive => "The chance that the clause depends on did not come up.",
            Self::NotRun => "Nobody asked.",
            Self::Waived => "Somebody decided not to ask.",
            Self::ShouldFail => "A promise that should hold, but need not, was broken.",
            Self::Unsupported => "The backend declares that it does not offer this, and it was confirmed.",
            Self::Pass => "The promise was kept.",
        }
    }

    pub(crate) const fn glyph(self) -> &'static str {
        match self {
            Self::Fail => "✕",
            Self::Error => "!",
            Self::Inconclusive => "?",
            Self::NotRun => "○",
            Self::Waived => "⊘",
            Self::ShouldFail => "△",
            Self::Unsupported => "–",
            Self::Pass => "✓",
        }
    }

    /// Whether a person has to look at it.
    pub(crate) const fn needs_a_look(self) -> bool {
        !matches!(self, Self::Unsupported | Self::Pass)
    }
}

/// What came out, in words.
#[derive(Debug)]
pub(crate) struct Standing {
    /// For style sheets.
    pub(crate) class: &'static str,
    /// One or two words.
    pub(crate) headline: &'static str,
    /// A sentence or two.
    pub(crate) sentence: String,
    /// Why there is no certificate.
    pub(crate) shortfalls: Vec<Shortfall>,
}

impl Standing {
    pub(crate) fn of(report: &Report) -> Self {
        let shortfalls = report.shortfalls();
        let counts = report.counts();
        let open = counts.error + counts.waived + counts.inconclusive + counts.not_run;
        let asked = counts.clauses - counts.not_run;
        let lacks = match counts.unsupported {
            0 => String::new(),
            n => {
                format!(" {} it declares not to offer, which was confirmed.", number(u64::from(n), "promise"))
            }
        };
        let (class, headline, sentence) = if shortfalls.is_empty() {
            let kept = number(u64::from(counts.pass), "promise");
            ("certified", "Certified", format!("Every promise that binds it was kept: {kept}.{lacks}"))
        } else if counts.fail > 0 {
            let broken = number(u64::from(counts.fail), "promise");
            let verb = if counts.fail == 1 { "is" } else { "are" };
            ("broken", "Not certified", format!("{broken} {verb} broken."))
        } else if shortfalls.iter().all(Shortfall::is_by_choice) {
            let sentence = format!(
                "Everything that was asked was answered well ({asked} of {}), but a certificate needs more.",
                number(u64::from(counts.clauses), "clause")
            );
            ("partial", "No certificate", sentence)
        } else {
            let sentence = match open {
                0 => "The report falls short of a certificate.".to_owned(),
                1 => "No promise was seen broken, but 1 clause has no answer.".to_owned(),
                n => format!("No promise was seen broken, but {n} clauses have no answer."),
            };
            ("open", "Not certified", sentence)
        };
        Self { class, headline, sentence, shortfalls }
    }
}

/// `1 clause`, `2 clauses`, `12,345 clauses`.
pub(crate) fn number(n: u64, what: &str) -> String {
    format!("{} {what}{}", thousands(n), if n == 1 { "" } else { "s" })
}

/// `12,345`.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `40 ms`, `1.4 s`, `12 s`, `3 min 20 s`.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        10_000..120_000 => format!("{} s", ms / 1000),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// What answers rest on, the most first: `1,204 images`. What did not come up is left out.
pub(crate) fn evidence(counted: &BTreeMap<String, u64>) -> Vec<String> {
    let mut counted: Vec<(&String, &u64)> = counted.iter().filter(|(_, count)| **count > 0).collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    counted.into_iter().map(|(what, count)| format!("{} {what}", thousands(*count))).collect()
}

/// What the clauses of a group are about.
pub(crate) fn group(short: &str) -> &str {
    registry::group_name(short).unwrap_or(short)
}

/// What a durability class promises.
pub(crate) const fn durability(class: Durability) -> &'static str {
    match class {
        Durability::D0 => "nothing survives the process",
        Durability::D1 => "an acknowledged commit survives a killed process",
        Durability::D2 => "after power loss: an atomic prefix of the acknowledged commits",
        Durability::D3 => "after power loss: every acknowledged commit",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_begins_with_the_most_and_leaves_out_what_did_not_come_up() {
        let counted = [("images", 1204), ("busy", 0), ("steps", 5000)];
        let counted = counted.map(|(what, count)| (what.to_owned(), count)).into();
        assert_eq!(evidence(&counted), ["5,000 steps", "1,204 images"]);
    }

    #[test]
    fn numbers_and_times_are_written_for_people() {
        assert_eq!(number(1, "clause"), "1 clause");
        assert_eq!(number(1_234_567, "clause"), "1,234,567 clauses");
        assert_eq!(thousands(100), "100");
        let times: Vec<String> = [3, 1450, 12_999, 200_000].map(duration).into();
        assert_eq!(times, ["3 ms", "1.4 s", "12 s", "3 min 20 s"]);
    }
}
