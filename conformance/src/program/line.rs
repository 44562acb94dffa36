//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::clause::Clause;
use crate::registry;
use crate::tier::Tier;

/// What follows the program and its backend.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = false)]
pub struct Line {
    /// How to certify.
    #[command(flatten)]
    pub asking: Asking,
    /// What to do instead of certifying.
    #[command(subcommand)]
    pub action: Option<Action>,
}

/// How to certify.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Certifying")]
pub struct Asking {
    /// How much to ask: smoke (a sample, no certificate), full (what a certificate needs), soak (the same, and
    /// then what rests on samples again and again, until the budget is used up)
    #[arg(long, value_name = "TIER", default_value = "full")]
    pub tier: Tier,
    /// How long all of it may take, such as 90s, 10m or 2h; clauses that are left then are not run. A soak takes 10m
    /// by default
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub budget: Option<Duration>,
    /// What everything that is drawn follows from; a new one by default
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Ask only this clause or group, such as ORD-001 or ORD; may be given several times. No certificate then
    #[arg(long, value_name = "GROUP|ID", value_parser = group_or_id)]
    pub only: Vec<String>,
    /// Do not ask this clause, for a reason; may be given several times. No certificate then
    #[arg(long, value_name = "ID=REASON", value_parser = waiver)]
    pub waive: Vec<(String, String)>,
    /// Write report.json, report.html, junit.xml and certificate.json to this folder; `turnkeep-report/BACKEND` by
    /// default
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// How many clauses to ask at the same time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: u32,
}

/// What there is besides certifying.
#[derive(Clone, Debug, Subcommand)]
pub enum Action {
    /// List the clauses; opens nothing
    List {
        /// Only this group, such as ORD
        #[arg(value_name = "GROUP", value_parser = group_or_id)]
        group: Option<String>,
    },
    /// Explain a clause: what it promises, why, and what it catches
    Explain {
        /// The clause, such as ORD-001
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Play a tape of a failure again
    Replay {
        /// The tape, from the folder `tapes` of a report
        #[arg(value_name = "TAPE")]
        tape: PathBuf,
    },
    /// Make the page, the junit file and the certificate anew: from a report, or from what tests left in
    /// TURNKEEP_CONFORMANCE_FRAGMENTS
    Report {
        /// A folder with a report.json, or with fragments
        #[arg(value_name = "DIR")]
        from: PathBuf,
        /// The folder to write to; the same by default
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
    /// Check a certificate against its report
    Verify {
        /// The folder of both
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Ask one clause, for the process that started this one
    #[command(hide = true)]
    Peer {
        /// The clause
        id: String,
    },
}

/// `90s`, `10m`, `2h`, or seconds.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write 90s, 10m or 2h");
    let (digits, unit) = match text.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        Some((at, _)) => text.split_at(at),
        None => (text, "s"),
    };
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    match number.checked_mul(seconds) {
        Some(0) | None => Err(wrong()),
        Some(seconds) => Ok(Duration::from_secs(seconds)),
    }
}

/// The clause with this id, in small letters or large ones.
pub(super) fn clause(id: &str) -> Result<&'static Clause, String> {
    registry::by_id(&id.to_ascii_uppercase())
        .ok_or_else(|| format!("there is no clause `{id}`; `list` shows them all"))
}

fn group_or_id(text: &str) -> Result<String, String> {
    let name = text.to_ascii_uppercase();
    if registry::by_id(&name).is_some() || registry::all().any(|clause| clause.group() == name) {
        Ok(name)
    } else {
        Err(format!("there is no clause or group `{text}`; `list` shows them all"))
    }
}

fn waiver(text: &str) -> Result<(String, String), String> {
    let (id, reason) = text.split_once('=').unwrap_or((text, ""));
    if reason.trim().is_empty() {
        return Err("a waiver needs a reason: ID=REASON".to_owned());
    }
    Ok((clause(id)?.id.to_owned(), reason.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_or_refused() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(time("45"), Ok(Duration::from_secs(45)));
        for wrong in ["", "m", "10 m", "-1s", "0", "0m", "1.5h", "10d", "99999999999999999999s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn clauses_groups_and_waivers_must_exist() {
        assert_eq!(group_or_id("ord"), Ok("ORD".to_owned()));
        assert_eq!(group_or_id("ord-001"), Ok("ORD-001".to_owned()));
        assert!(group_or_id("or").is_err() && group_or_id("ORD-999").is_err() && group_or_id("").is_err());
        assert_eq!(waiver("ord-001=no clock"), Ok(("ORD-001".to_owned(), "no clock".to_owned())));
        assert!(waiver("ORD-001").is_err() && waiver("ORD-001= ").is_err() && waiver("X=y").is_err());
    }
}
