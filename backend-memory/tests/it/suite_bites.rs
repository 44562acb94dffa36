//! The suite is tested too: stores that break one promise each are caught by the clause that promises it, and stores
//! that break none pass.

mod commits;
mod model;
mod reads;
mod twist;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use turnkeep_conformance::certify::{self, Options};
use turnkeep_conformance::report::Shortfall;
use turnkeep_conformance::{Harness, Need, Tier, Verdict, registry, runner};

use turnkeep_harnesses::MemoryHarness;
use twist::{Twist, TwistedHarness};

/// Which clauses have to catch which broken store.
const BROKEN: &[(Twist, &[&str])] = &[
    (Twist::DropsTheLastOfABatch, &["ORD-008", "ORD-005", "LIM-006", "RUN-004"]),
    (Twist::CommitsEachOpAlone, &["RUN-004", "RUN-005", "REK-003", "LEA-005", "STA-006", "STA-002"]),
    (Twist::CommitsEachEntryAlone, &["RUN-002", "RUN-003", "RUN-007"]),
    (Twist::CommitsTwice, &["CON-001", "CON-002", "GRP-001", "RES-004", "ISO-004"]),
    (Twist::IgnoresGuards, &["RUN-010", "CON-003", "CON-007", "BRA-003", "MOD-001", "MOD-002", "MOD-004"]),
    (Twist::IgnoresExpectations, &["RST-006", "REK-001", "REK-002", "REK-004"]),
    (Twist::IgnoresFences, &["LEA-003"]),
    (Twist::ForgetsRequests, &["RES-009", "IDM-001", "IDM-002"]),
    (Twist::ScopesEveryRequestToTheWorkspace, &["IDM-005"]),
    (Twist::ForgetsKeys, &["STA-008", "PAR-002", "ID-002", "MIG-004"]),
    (Twist::ForgetsParents, &["BRA-001", "BRA-002", "BRA-004"]),
    (Twist::ForgetsMeta, &["LIM-001", "LIM-002"]),
    (Twist::ForgetsExpectedNext, &["PAR-004"]),
    (Twist::ForgetsOwners, &["RUN-011", "QRY-003", "DEL-003", "REK-005"]),
    (Twist::KnowsFewKinds, &["LIM-007", "QRY-001"]),
    (Twist::PartialsAreMessages, &["PAR-001", "QRY-005"]),
    (Twist::TrimsPayloads, &["LIM-001", "IDM-002"]),
    (Twist::CutsTexts, &["LIM-003"]),
    (Twist::EmptyTextIsNone, &["LIM-002"]),
    (Twist::RoundsTimes, &["RES-006", "LIM-004"]),
    (Twist::CountsIn32Bits, &["LIM-004"]),
    (
        Twist::DeletesByArchiving,
        &["SEA-003", "DEL-006", "DEL-001", "DEL-002", "DEL-003", "ID-004", "FRK-004"],
    ),
    (Twist::ForcesDeletes, &["DEL-005", "LEA-004"]),
    (Twist::ForcesEveryTakeover, &["LEA-001", "LEA-002", "REC-006"]),
    (Twist::NeverExpires, &["CON-006", "REC-006", "LEA-004", "LEA-006"]),
    (Twist::MovesNoLeaf, &["BRA-001", "BRA-003"]),
    (Twist::DropsNoEvents, &["STA-007", "PAG-003", "ORD-003"]),
    (Twist::MixesStreams, &["PAR-007"]),
    (Twist::CopiesOneLess, &["FRK-001", "FRK-007"]),
    (Twist::ChildFollowsParent, &["FRK-001", "FRK-002"]),
    (Twist::SaysBusyAndWrites, &["IDM-006"]),
    (Twist::BusyAtOnce, &["CON-001", "CON-009"]),
    (Twist::LowersIds, &["ID-002"]),
    (Twist::TouchesNeighbours, &["ISO-005", "ISO-002", "FRK-003"]),
    (Twist::SharesRefusals, &["GRP-001"]),
    (Twist::CreatesOverOthers, &["ID-001"]),
    (Twist::SaysYesToStaleRuns, &["STA-001", "STA-002", "STA-003"]),
    (Twist::SaysYesToSecondRuns, &["STA-004", "STA-003", "DEL-005"]),
    (Twist::SaysYesToTooLarge, &["LIM-008", "RUN-009", "LIM-003"]),
    (Twist::SaysYesToInvalid, &["LIM-001", "BRA-002", "RUN-003", "FRK-008", "RST-007"]),
    (Twist::SaysYesToUnknown, &["ID-004", "BRA-002", "ISO-001", "ID-003"]),
    (Twist::SaysYesToLatePieces, &["PAR-003"]),
    (Twist::SaysYesToLostLeases, &["LEA-003", "LEA-006", "DEL-003", "RST-001", "RST-004"]),
    (Twist::SaysYesToHeldSessions, &["LEA-001", "LEA-004", "LEA-005", "PAR-007"]),
    (Twist::SaysYesToUsedRequests, &["IDM-007", "IDM-002"]),
    (Twist::SaysYesToTakenKeys, &["STA-005", "STA-008", "PAR-002"]),
    (Twist::SaysYesToCorruptSeals, &["RST-005", "RST-001"]),
    (Twist::OrdersByTime, &["ORD-002"]),
    (Twist::OrdersByText, &["ORD-001", "ID-006"]),
    (Twist::OrdersNumbersAsText, &["ORD-004"]),
    (Twist::LatestIsNewestFirst, &["ORD-005", "BRA-004"]),
    (Twist::LatestIsOldest, &["ORD-005"]),
    (Twist::TiesTheSameBothWays, &["ORD-006"]),
    (Twist::MissesOneInTheMiddle, &["ORD-007", "ISO-004"]),
    (Twist::LosesTheFirstOfAPage, &["PAG-001", "PAG-002", "PAG-003", "QRY-004"]),
    (Twist::FillsEveryPage, &["PAG-001", "PAG-005", "ORD-005"]),
    (Twist::LimitZeroIsAll, &["PAG-005"]),
    (Twist::TrustsCursors, &["PAG-004"]),
    (Twist::EmptyForUnknown, &["ID-004", "DEL-001"]),
    (Twist::ListsById, &["PAG-006", "ORD-002", "ID-006", "QRY-002"]),
    (Twist::TakesWildcards, &["ID-005"]),
    (Twist::ForgetsEntryFilters, &["QRY-001"]),
    (Twist::ForgetsSessionFilters, &["QRY-002"]),
    (Twist::ForgetsStatusFilters, &["QRY-003", "REK-003"]),
    (Twist::CountsThePageOnly, &["QRY-002", "PAG-001"]),
    (Twist::CachesSessions, &["ISO-003", "ISO-004", "QRY-005"]),
    (Twist::ShowsWhatIsBuilt, &["RST-001", "FRK-006"]),
    (Twist::RevisionStandsStill, &["ISO-002"]),
    (Twist::MarksStandStill, &["ISO-002", "DEL-001"]),
    (Twist::HidesStreams, &["PAR-006", "MIG-004"]),
    (Twist::HidesLeases, &["CON-006", "LEA-002", "REC-006"]),
    (Twist::ForgetsTheWorkspaceOfRecords, &["ID-003", "REK-001"]),
    (Twist::SearchFindsNothing, &["CAP-001", "SEA-002"]),
    (Twist::SearchStripsSigns, &["SEA-001"]),
    (Twist::SearchForgetsFilters, &["SEA-004"]),
    (Twist::SearchRanksByAge, &["SEA-005"]),
];

/// What a wrapper around a good store cannot break, or what needs a store that outlives its handles.
const OUT_OF_REACH: &[&str] = &[
    "RUN-001", "REC-005", "REC-007", "ISO-006", "CON-005", "CON-008", "CON-010", "IDM-003", "LIM-005",
    "DUR-002", "DUR-003", "DUR-004", "DUR-005", "DUR-006", "DUR-007", "DUR-008", "DUR-009", "GRP-002",
    "MIG-001", "MIG-002", "MIG-003", "MIG-005", "RES-001", "RES-002", "RES-003", "RES-005", "RES-007",
    "RES-008", "LEA-007", "RST-002", "CAP-002", "CAP-003",
    // What is killed is a process, and a memory store is gone with it.
    "RUN-008", "PAR-005", "REC-001", "REC-002", "REC-003", "REC-004", "DUR-001", "CON-004", "IDM-004",
    "FRK-005", "DEL-004", "RST-003", "MOD-003",
    // Other processes do not reach a memory store.
    "CON-011", "CON-012",
];

fn verdict(twist: Twist, id: &str) -> Verdict {
    let clause = registry::by_id(id).unwrap();
    runner::run(Arc::new(TwistedHarness { inner: MemoryHarness, twist }), clause)
}

#[test]
fn every_broken_promise_is_caught_by_its_clauses() {
    let mut escaped = Vec::new();
    for (twist, clauses) in BROKEN {
        for id in *clauses {
            let verdict = verdict(*twist, id);
            if !matches!(verdict, Verdict::Fail(_)) {
                escaped.push(format!("{id} does not catch {twist:?}: {verdict}"));
            }
        }
    }
    assert!(escaped.is_empty(), "{escaped:#?}");
}

#[test]
fn every_clause_within_reach_catches_a_broken_store() {
    let caught: BTreeSet<&str> = BROKEN.iter().flat_map(|(_, clauses)| *clauses).copied().collect();
    let idle: Vec<_> = registry::all()
        .map(|clause| clause.id)
        .filter(|id| !caught.contains(id) && !OUT_OF_REACH.contains(id))
        .collect();
    assert!(idle.is_empty(), "clauses without a broken store that they catch: {idle:?}");
}

/// Nothing is promised by a store that keeps nothing: not one clause may pass.
#[test]
fn a_store_that_keeps_nothing_passes_no_clause() {
    let harness: Arc<dyn Harness> = Arc::new(TwistedHarness { inner: MemoryHarness, twist: Twist::Null });
    let report = certify::run(
        &harness,
        &Options { tier: Tier::Smoke, ..Options::default() },
        &AtomicBool::new(false),
        &|_| {},
    );
    let passed: Vec<_> = report
        .clauses
        .iter()
        .filter(|entry| entry.verdict == Verdict::Pass)
        .map(|entry| &entry.promise.id)
        .collect();
    assert!(passed.is_empty(), "clauses that a store without content passes: {passed:?}");
    assert!(report.shortfalls().contains(&Shortfall::NothingPassed), "it would be certified");
}

/// Neither a store that hangs nor one that panics takes the runner along: both end in an error, the site is removed.
#[test]
fn a_store_that_hangs_or_panics_ends_in_an_error() {
    let clause = registry::by_id("ORD-001").unwrap();
    for twist in [Twist::Hangs, Twist::Panics] {
        let harness = Arc::new(TwistedHarness { inner: MemoryHarness, twist });
        let verdict = runner::run_within(harness, clause, Duration::from_millis(500));
        assert!(matches!(verdict, Verdict::Error(_)), "{twist:?}: {verdict}");
    }
}

/// Slow is not broken.
#[test]
fn a_slow_store_passes() {
    passes(Twist::Slow);
}

/// Neither is waiting for somebody else, as long as the caller's patience lasts; answering Busy at once is.
#[test]
fn a_store_that_is_busy_for_a_while_passes() {
    passes(Twist::BusyForAWhile);
}

fn passes(harmless: Twist) {
    for group in ["ID", "ORD", "RUN", "PAR", "ISO", "CON", "IDM", "PAG", "LEA", "STA"] {
        for clause in registry::all().filter(|clause| clause.group() == group) {
            let verdict = verdict(harmless, clause.id);
            let starts_processes =
                matches!(verdict, Verdict::NotRun(_)) && clause.needs.contains(&Need::MultiProcess);
            assert!(verdict.is_acceptable() || starts_processes, "{}: {verdict}", clause.id);
        }
    }
}
