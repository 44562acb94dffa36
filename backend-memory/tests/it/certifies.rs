//! Who gets a certificate, and who does not: whole runs of the suite in this process, and tests that leave fragments.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use turnkeep_conformance::certify::{self, Options, Progress};
use turnkeep_conformance::report::{Certificate, MergeError, Report, Shortfall, merge};
use turnkeep_conformance::{Harness, Tier, Verdict, registry};
use turnkeep_harnesses::MemoryHarness;

fn harness() -> Arc<dyn Harness> {
    Arc::new(MemoryHarness)
}

fn run(options: &Options) -> Report {
    certify::run(&harness(), options, &AtomicBool::new(false), &|_| {})
}

fn refused(report: &Report) -> Vec<Shortfall> {
    Certificate::issue(report, report.to_json().unwrap().as_bytes()).unwrap_err()
}

fn only(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_run_that_waives_everything_is_not_certified() {
    let waive: BTreeMap<String, String> =
        registry::all().map(|clause| (clause.id.to_owned(), "no time".to_owned())).collect();
    let report = run(&Options { waive, ..Options::default() });
    assert_eq!(report.counts().waived as usize, registry::all().count());
    let why = refused(&report);
    assert!(why.contains(&Shortfall::NothingPassed) && why.contains(&Shortfall::NoStore), "{why:?}");
    assert!(!report.is_clean());
}

#[test]
fn a_run_that_asks_nothing_is_not_certified() {
    let stopped = certify::run(&harness(), &Options::default(), &AtomicBool::new(true), &|_| {});
    assert!(stopped.clauses.iter().all(|entry| entry.verdict == Verdict::NotRun("interrupted".to_owned())));
    let no_time = run(&Options { budget: Some(Duration::ZERO), ..Options::default() });
    assert!(
        no_time.clauses.iter().all(|entry| entry.verdict == Verdict::NotRun("the budget ran out".to_owned()))
    );
    let nothing = run(&Options { only: only(&["NONE"]), ..Options::default() });
    for report in [stopped, no_time, nothing] {
        assert!(refused(&report).contains(&Shortfall::NothingPassed));
        assert!(!report.is_clean(), "a run without one answer passes for a good one");
    }
}

#[test]
fn a_part_is_asked_in_full_and_the_rest_is_said_to_be_left_out() {
    let report = run(&Options { only: only(&["id", "ORD-001"]), ..Options::default() });
    for entry in &report.clauses {
        let asked = entry.promise.group() == "ID" || entry.promise.id == "ORD-001";
        assert_eq!(entry.verdict == Verdict::Pass, asked, "{}: {:?}", entry.promise.id, entry.verdict);
        assert_eq!(entry.rounds, u32::from(asked));
    }
    assert_eq!(refused(&report), [Shortfall::Part]);
    assert!(report.is_clean());
    let store = report.backend.store.unwrap();
    assert_eq!((store.version.as_str(), store.location.as_str()), (env!("CARGO_PKG_VERSION"), "name"));
}

#[test]
fn a_clause_that_needs_another_process_is_not_run_where_there_is_none() {
    let report = run(&Options { only: only(&["CON-008"]), ..Options::default() });
    assert!(matches!(report.entry("CON-008").unwrap().verdict, Verdict::NotRun(_)));
    assert!(!report.is_clean());
}

#[test]
fn a_soak_asks_again_with_new_seeds_until_it_is_stopped() {
    let stop = AtomicBool::new(false);
    let rounds = Mutex::new(Vec::new());
    let options = Options {
        tier: Tier::Soak,
        budget: Some(Duration::from_secs(3600)),
        // The first depends on timing, the second does not.
        only: only(&["REK-004", "ID-001"]),
        ..Options::default()
    };
    let report = certify::run(&harness(), &options, &stop, &|progress| {
        if let Progress::Round { round, clauses } = progress {
            rounds.lock().unwrap().push(clauses);
            stop.store(round == 3, Ordering::Relaxed);
        }
    });
    assert_eq!(*rounds.lock().unwrap(), [2, 1, 1]);
    assert_eq!(report.entry("ID-001").unwrap().rounds, 1);
    let again = report.entry("REK-004").unwrap();
    assert_eq!((again.rounds, again.seed, &again.verdict), (2, options.seed + 1, &Verdict::Pass));
}

/// Runs tests of this program in a process of their own, as a process-per-test runner does.
fn test(names: &[&str], folder: &Path, run: &str) {
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--test-threads=1"])
        .args(names.iter().map(|name| format!("conformance::{name}")))
        .env("TURNKEEP_CONFORMANCE_FRAGMENTS", folder)
        .env("TURNKEEP_CONFORMANCE_RUN", run)
        .env("TURNKEEP_CONFORMANCE_TIER", "full")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && out.contains(&format!("{} passed", names.len())), "{out}");
}

fn name_of(id: &str) -> &'static str {
    registry::by_id(id).unwrap().name
}

#[test]
fn fragments_of_single_tests_make_one_report() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("fragments");
    test(&[name_of("ID-001")], &at, "one");
    test(&[name_of("ORD-001"), name_of("ID-002")], &at, "one");
    // One that is started once more, in a process of its own: the fragment is that process's, and there is one.
    test(&[name_of("RES-001")], &at, "one");
    let report = merge(&at).unwrap();
    let passed: Vec<&str> = report
        .clauses
        .iter()
        .filter(|entry| entry.verdict.is_acceptable())
        .map(|entry| entry.promise.id.as_str())
        .collect();
    assert_eq!(passed, ["ID-001", "ID-002", "ORD-001", "RES-001"]);
    let missing = report.entry("ID-003").unwrap();
    assert_eq!(missing.verdict, Verdict::NotRun("no test of it left a fragment".to_owned()));
    assert!(
        refused(&report).iter().all(|why| matches!(why, Shortfall::Unanswered { verdict: "not-run", .. }))
    );
    assert_eq!((report.run.tier, report.backend.name.as_str()), (Tier::Full, "memory"));
    assert!(report.run.command.contains("cargo test"), "{}", report.run.command);

    test(&[name_of("ID-001")], &at, "one");
    assert!(matches!(merge(&at), Err(MergeError::Twice { id, .. }) if id == "ID-001"));
}

#[test]
fn fragments_of_two_runs_are_not_mixed() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(merge(folder.path()), Err(MergeError::Empty { .. })));
    test(&[name_of("ID-001")], folder.path(), "one");
    test(&[name_of("ID-002")], folder.path(), "two");
    assert!(matches!(merge(folder.path()), Err(MergeError::Mixed { what: "run", .. })));
}
