//! The model finds what is broken by itself, and says it with a short tape that fails again.

use std::sync::Arc;

use async_trait::async_trait;
use turnkeep_conformance::runner::{self, Settings};
use turnkeep_conformance::{Clause, Finding, Harness, Manifest, OpenWith, Site, Verdict, registry, tape};
use turnkeep_core::{Durability, Result, Store};
use turnkeep_harnesses::{MemoryHarness, NamedMemoryHarness};

use super::twist::{Twist, TwistedHarness};

/// Stores that break something, from every corner of the contract.
const BROKEN: &[Twist] = &[
    Twist::DropsTheLastOfABatch,
    Twist::CommitsTwice,
    Twist::ForgetsRequests,
    Twist::ForgetsKeys,
    Twist::ForgetsParents,
    Twist::ForgetsExpectedNext,
    Twist::PartialsAreMessages,
    Twist::DeletesByArchiving,
    Twist::ForcesEveryTakeover,
    Twist::DropsNoEvents,
    Twist::MixesStreams,
    Twist::SaysYesToSecondRuns,
    Twist::SaysYesToHeldSessions,
    Twist::SaysYesToCorruptSeals,
    Twist::OrdersNumbersAsText,
    Twist::MissesOneInTheMiddle,
    Twist::FillsEveryPage,
    Twist::ListsById,
    Twist::CachesSessions,
    Twist::HidesLeases,
];

fn clause() -> &'static Clause {
    registry::by_id("MOD-001").unwrap()
}

fn twisted(twist: Twist) -> Arc<TwistedHarness> {
    Arc::new(TwistedHarness { inner: MemoryHarness, twist })
}

fn find(twist: Twist) -> Finding {
    runner::find(twisted(twist), clause(), Settings::of(clause()))
}

#[test]
fn the_model_catches_each_broken_store_with_at_most_eight_steps() {
    let mut escaped = Vec::new();
    for twist in BROKEN {
        let finding = find(*twist);
        let steps = finding.tape.as_ref().map(|tape| tape.matches("\"act\":").count());
        if !matches!(finding.verdict, Verdict::Fail(_))
            || !steps.is_some_and(|steps| (1..=8).contains(&steps))
        {
            escaped.push(format!("{twist:?}: {} with {steps:?} steps: {:?}", finding.verdict, finding.tape));
        }
    }
    assert!(escaped.is_empty(), "{escaped:#?}");
}

#[test]
fn a_short_tape_fails_again_and_a_good_store_plays_it() {
    for twist in [Twist::ForgetsParents, Twist::CommitsTwice] {
        let short = find(twist).tape.unwrap();
        assert_eq!(tape::clause_of(&short).unwrap().id, "MOD-001");
        let again = tape::replay(twisted(twist), &short, Settings::of(clause()));
        assert!(matches!(again.verdict, Verdict::Fail(_)), "{twist:?}: {}", again.verdict);
        assert!(again.tape.is_some());
        let good = tape::replay(Arc::new(MemoryHarness), &short, Settings::of(clause()));
        assert_eq!(good.verdict, Verdict::Pass);
        assert_eq!(good.counted["tapes"], 1);
    }
    let wrong = tape::replay(Arc::new(MemoryHarness), "{\"steps\":[]}", Settings::of(clause()));
    assert!(matches!(wrong.verdict, Verdict::Error(_)), "{}", wrong.verdict);
}

#[test]
fn shrinking_comes_to_the_same_tape_every_time() {
    let twist = Twist::DropsTheLastOfABatch;
    assert_eq!(find(twist).tape, find(twist).tape);
}

/// A store that says it outlives its process, and does not.
#[derive(Debug, Default)]
struct SaysItPersists;

#[async_trait]
impl Harness for SaysItPersists {
    fn manifest(&self) -> Manifest {
        let mut manifest = NamedMemoryHarness.manifest();
        manifest.durability = Durability::D1;
        manifest
    }

    async fn provision(&self) -> Result<Site> {
        NamedMemoryHarness.provision().await
    }

    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        NamedMemoryHarness.open(site, with).await
    }

    async fn destroy(&self, site: &Site) -> Result<()> {
        NamedMemoryHarness.destroy(site).await
    }
}

/// The process that is killed runs this very test, in its role.
#[test]
#[should_panic(expected = "fail: a record of notes")]
fn a_kill_shows_a_store_that_only_says_it_persists() {
    let clause = registry::by_id("MOD-003").unwrap();
    let path = concat!(module_path!(), "::a_kill_shows_a_store_that_only_says_it_persists");
    turnkeep_conformance::testing::run::<SaysItPersists>(clause.name, path);
}
