//! Reports for tests, made by hand.

use std::time::Duration;

use serde_json::json;
use turnkeep_conformance::report::{Report, Run};
use turnkeep_conformance::{Backend, Finding, Manifest, Policies, StoreFacts, Tier, Verdict};
use turnkeep_core::limits::Limits;
use turnkeep_core::{Capabilities, Durability, Timestamp};

/// A backend that offers everything.
pub(crate) fn backend() -> Backend {
    let mut capabilities = Capabilities::NONE;
    capabilities.search = true;
    capabilities.multi_process = true;
    capabilities.persistent = true;
    capabilities.owner_liveness = true;
    capabilities.backup = true;
    let manifest = Manifest {
        name: "made",
        capabilities,
        limits: Limits::default(),
        durability: Durability::D3,
        policies: Policies { clock: true },
    };
    let store = StoreFacts {
        version: "1.2.3".to_owned(),
        engine: "engine 4 <of> \"tests\" & more".to_owned(),
        format: 1,
        location: "file".to_owned(),
    };
    Backend { store: Some(store), ..Backend::declared(&manifest) }
}

pub(crate) fn run() -> Run {
    Run {
        tier: Tier::Full,
        seed: 17,
        budget_s: None,
        only: Vec::new(),
        jobs: 2,
        program: Some("turnkeep certify made:".to_owned()),
        command: "turnkeep certify made: --tier full --seed 17".to_owned(),
        began: Timestamp::from_millis(1_700_000_000_000),
        ended: Timestamp::from_millis(1_700_000_042_500),
    }
}

pub(crate) fn finding(verdict: Verdict) -> Finding {
    let mut finding = Finding { elapsed: Duration::from_millis(120), ..Finding::of(verdict) };
    finding.counted.insert("images".to_owned(), 600);
    finding
}

/// A report in which every clause passed.
pub(crate) fn passed() -> Report {
    let mut report = Report::blank(backend(), run());
    for entry in &mut report.clauses {
        entry.add(&finding(Verdict::Pass), 17);
    }
    report
}

/// The same, with another answer of one clause.
pub(crate) fn with(id: &str, verdict: Verdict) -> Report {
    let mut report = passed();
    let entry = report.clauses.iter_mut().find(|entry| entry.promise.id == id).unwrap();
    entry.verdict = verdict;
    report
}

/// The same, with a broken clause and the tape that shows it. Its words try to get out of every form.
pub(crate) fn broken() -> Report {
    let detail = "expected <b>3</b> & \"more\", saw ]]> '2' \u{1b}[31m\u{0}\u{fffe}\nsecond line </script>";
    let mut report = with("ORD-005", Verdict::Fail(detail.to_owned()));
    let entry = report.clauses.iter_mut().find(|entry| entry.promise.id == "ORD-005").unwrap();
    entry.tape = Some(json!({ "version": 1, "clause": "ORD-005", "steps": [
        { "act": { "commit": { "ops": [{ "create": { "session": "a.1" } }] } } },
        { "client": 1, "act": "reopen" },
        { "act": { "commit": { "ops": [{ "append": { "session": "a.1", "lines": [{ "text": "</details><script>" }] } }] } } },
    ] }));
    report
}
