//! False claims about power losses are caught.

use std::sync::Arc;

use turnkeep_conformance::runner::{Settings, find};
use turnkeep_conformance::{Finding, Harness, Tier, Verdict, registry};
use turnkeep_core::Durability;
use turnkeep_sqlite::Synchronous;

use crate::liars::{Device, RedbLiar, SqliteLiar};

fn found<H: Harness>(harness: H, id: &str, tier: Tier) -> Finding {
    let clause = registry::by_id(id).unwrap();
    let mut settings = Settings::of(clause);
    settings.tier = tier;
    find(Arc::new(harness), clause, settings)
}

/// The clause must fail, and say this. The first image that is wrong ends it, so that many cost no more than few.
fn caught<H: Harness>(harness: H, id: &str, says: &str) {
    let finding = found(harness, id, Tier::Full);
    let Verdict::Fail(text) = &finding.verdict else { panic!("{id} does not see it: {}", finding.verdict) };
    assert!(text.contains(says), "{id} says {text:?}, not {says:?}");
}

const LOST: &str = "an acknowledged commit is lost";

#[test]
fn sqlite_that_claims_d3_with_normal_syncs_is_caught_and_keeps_d2() {
    let liar = |claims| SqliteLiar { really: Synchronous::Normal, claims };
    caught(liar(Durability::D3), "DUR-003", LOST);
    assert_eq!(found(liar(Durability::D3), "DUR-002", Tier::Smoke).verdict, Verdict::Pass);
    let honest = found(liar(Durability::D2), "DUR-003", Tier::Smoke).verdict;
    assert!(matches!(&honest, Verdict::Unsupported(text) if text.contains("D2")), "{honest}");
}

#[test]
fn sqlite_that_claims_d2_without_syncs_is_caught() {
    caught(SqliteLiar { really: Synchronous::Off, claims: Durability::D2 }, "DUR-002", "after ");
}

#[test]
fn redb_that_claims_d3_on_a_device_without_syncs_is_caught() {
    caught(RedbLiar(Device::NeverSyncs), "DUR-003", "after ");
}

#[test]
fn redb_that_claims_d3_on_a_device_that_syncs_late_is_caught() {
    // Which image is the first to be wrong hangs on the threads: one that lost a commit, or one that does not open.
    caught(RedbLiar(Device::SyncsLate), "DUR-003", "after ");
}

#[test]
fn redb_whose_folder_is_never_synced_is_caught() {
    caught(RedbLiar(Device::ForgetsNames), "DUR-006", LOST);
    caught(RedbLiar(Device::ForgetsNames), "DUR-007", "after ");
}
