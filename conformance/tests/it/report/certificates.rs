//! There is a certificate if and only if every promise that binds was kept.

use turnkeep_conformance::report::{Certificate, Refused, Report, Shortfall, verify};
use turnkeep_conformance::{Level, Need, Tier, Verdict, registry};
use turnkeep_core::Durability;

use super::made::{passed, with};

fn issue(report: &Report) -> Result<Certificate, Vec<Shortfall>> {
    Certificate::issue(report, report.to_json().unwrap().as_bytes())
}

fn words() -> String {
    "because".to_owned()
}

/// A clause of this level, and what an answer to it may be besides a pass.
fn id_of(level: Level) -> &'static str {
    registry::all().find(|clause| clause.level == level).unwrap().id
}

#[test]
fn a_report_in_which_everything_passed_is_certified() {
    let report = passed();
    let certificate = issue(&report).unwrap();
    assert_eq!(certificate.counts.pass as usize, registry::all().count());
    assert_eq!(certificate.counted["images"], 600 * registry::all().count() as u64);
    assert_eq!(certificate.run.command, report.run.command);
    assert!(certificate.statement.contains("made 1.2.3") && certificate.statement.contains("D3"));
}

#[test]
fn no_answer_at_all_of_any_clause_is_no_certificate() {
    for level in [Level::Must, Level::Should] {
        let id = id_of(level);
        for verdict in [
            Verdict::Error(words()),
            Verdict::Waived(words()),
            Verdict::NotRun(words()),
            Verdict::Inconclusive(words()),
        ] {
            let shortfalls = issue(&with(id, verdict.clone())).unwrap_err();
            assert_eq!(shortfalls, [Shortfall::Unanswered { id: id.to_owned(), verdict: verdict.as_str() }]);
        }
    }
}

#[test]
fn a_broken_promise_blocks_if_it_must_hold_and_is_said_if_it_should() {
    let (must, should) = (id_of(Level::Must), id_of(Level::Should));
    let shortfalls = issue(&with(must, Verdict::Fail(words()))).unwrap_err();
    assert_eq!(shortfalls, [Shortfall::Broken { id: must.to_owned() }]);
    let certificate = issue(&with(should, Verdict::Fail(words()))).unwrap();
    assert_eq!((certificate.counts.fail, certificate.counts.should_fail), (0, 1));
}

#[test]
fn unsupported_counts_only_where_the_manifest_lacks_what_the_clause_needs() {
    let needing = registry::all().find(|clause| clause.needs.contains(&Need::MultiProcess)).unwrap().id;
    let mut report = with(needing, Verdict::Unsupported(words()));
    assert_eq!(issue(&report).unwrap_err(), [Shortfall::Unearned { id: needing.to_owned() }]);
    report.backend.capabilities.multi_process = false;
    assert_eq!(issue(&report).unwrap().counts.unsupported, 1);

    let needless =
        registry::all().find(|clause| clause.needs.is_empty() && clause.durability == Durability::D0);
    let needless = needless.unwrap().id;
    let mut report = with(needless, Verdict::Unsupported(words()));
    report.backend.capabilities = turnkeep_core::Capabilities::NONE;
    assert_eq!(issue(&report).unwrap_err(), [Shortfall::Unearned { id: needless.to_owned() }]);
}

#[test]
fn a_part_a_sample_or_an_unseen_store_is_no_certificate() {
    let mut report = passed();
    report.run.only = vec!["ORD".to_owned()];
    assert_eq!(issue(&report).unwrap_err(), [Shortfall::Part]);
    assert!(report.is_clean(), "what was asked was answered well");

    let mut report = passed();
    report.run.tier = Tier::Smoke;
    assert_eq!(issue(&report).unwrap_err(), [Shortfall::Tier(Tier::Smoke)]);
    report.run.tier = Tier::Soak;
    assert!(issue(&report).is_ok());

    let mut report = passed();
    report.backend.store = None;
    assert_eq!(issue(&report).unwrap_err(), [Shortfall::NoStore]);
}

#[test]
fn nothing_passed_and_clauses_taken_out_are_no_certificate() {
    let mut report = passed();
    report.backend.capabilities = turnkeep_core::Capabilities::NONE;
    report.backend.durability = Durability::D0;
    for entry in &mut report.clauses {
        entry.verdict = Verdict::Unsupported(words());
    }
    assert!(issue(&report).unwrap_err().contains(&Shortfall::NothingPassed));

    let mut report = passed();
    report.clauses.remove(3);
    assert_eq!(issue(&report).unwrap_err(), [Shortfall::OtherClauses]);
    report.clauses.clear();
    assert!(issue(&report).unwrap_err().contains(&Shortfall::NothingPassed));

    let mut report = passed();
    report.clauses[0].promise.level = Level::Should;
    assert_eq!(issue(&report).unwrap_err(), [Shortfall::OtherClauses]);

    let mut report = passed();
    report.format += 1;
    assert!(matches!(issue(&report).unwrap_err()[..], [Shortfall::OtherFormat(_)]));
}

#[test]
fn a_certificate_is_recomputed_from_its_report() {
    let report = passed().to_json().unwrap();
    let certificate = issue(&passed()).unwrap().to_json().unwrap();
    let verified = verify(certificate.as_bytes(), report.as_bytes()).unwrap();
    assert!(verified.is_current);

    // The report was touched.
    let touched = report.replacen("\"seed\": 17", "\"seed\": 18", 1);
    assert_ne!(touched, report);
    assert!(matches!(verify(certificate.as_bytes(), touched.as_bytes()), Err(Refused::OtherReport { .. })));

    // The certificate was touched: each of its parts is recomputed.
    for (from, to) in [
        ("\"tier\": \"full\"", "\"tier\": \"soak\""),
        ("\"version\": \"1.2.3\"", "\"version\": \"1.2.4\""),
        ("\"durability\": \"D3\"", "\"durability\": \"D2\""),
        ("\"spec\": \"", "\"spec\": \"9"),
        ("\"images\": ", "\"images\": 9"),
        ("\"fail\": 0", "\"fail\": 1"),
        ("keeps every promise", "keeps each promise"),
    ] {
        let touched = certificate.replacen(from, to, 1);
        assert_ne!(touched, certificate, "{from} is not there");
        let answer = verify(touched.as_bytes(), report.as_bytes());
        assert!(matches!(answer, Err(Refused::Contradiction)), "{from}: {answer:?}");
    }

    assert!(matches!(verify(b"{}", report.as_bytes()), Err(Refused::Unreadable { what: "certificate", .. })));
}

/// Whoever writes the right digest over a bad report still has no certificate.
#[test]
fn a_digest_does_not_help_a_report_that_falls_short() {
    let bad = with(id_of(Level::Must), Verdict::Fail(words()));
    let bad_json = bad.to_json().unwrap();
    let mut forged = issue(&passed()).unwrap();
    let named = verify(forged.to_json().unwrap().as_bytes(), bad_json.as_bytes()).unwrap_err();
    let Refused::OtherReport { seen, .. } = named else { panic!("{named}") };
    forged.report_sha256 = seen;
    let answer = verify(forged.to_json().unwrap().as_bytes(), bad_json.as_bytes());
    assert!(matches!(&answer, Err(Refused::Undeserved(why)) if why.len() == 1), "{answer:?}");
}
