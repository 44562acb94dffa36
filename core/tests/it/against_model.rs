//! The rules against the plain model, over random histories.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use turnkeep_core::ErrorKind;
use turnkeep_core::digest::to_hex;

use crate::bench::{Bench, Tally};

/// One step: a move of the clock, a death, a purge, a commit or a repeat of one.
struct Step(Vec<u8>);

impl fmt::Debug for Step {
    /// In short: zeros at the end say nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        f.write_str(&to_hex(&self.0[..len]))
    }
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    vec(vec(any::<u8>(), 96).prop_map(Step), 1..64)
}

fn play(steps: &[Step]) -> Tally {
    let mut bench = Bench::new();
    steps.iter().for_each(|step| bench.step(&step.0));
    std::mem::take(&mut bench.tally)
}

proptest! {
    #![proptest_config(Config { cases: 500, failure_persistence: None, ..Config::default() })]

    #[test]
    fn decide_does_what_the_plain_model_does(steps in history()) {
        play(&steps);
    }
}

/// Without this the test above could agree on refusing everything.
#[test]
fn the_histories_reach_every_op_and_every_refusal() {
    let mut runner = TestRunner::deterministic();
    let mut sum = Tally::default();
    for _ in 0..200 {
        let tally = play(&history().new_tree(&mut runner).unwrap().current());
        tally.done.into_iter().for_each(|(op, times)| *sum.done.entry(op).or_default() += times);
        tally.refused.into_iter().for_each(|(kind, times)| *sum.refused.entry(kind).or_default() += times);
        sum.replayed += tally.replayed;
        sum.recreated += tally.recreated;
    }
    // Everything but CopyEntries, and `skipped` for ops whose condition did not hold.
    assert_eq!(sum.done.len(), 22, "{sum:?}");
    assert!(sum.done.values().all(|times| *times >= 5), "{sum:?}");
    for kind in [
        ErrorKind::NotFound,
        ErrorKind::AlreadyExists,
        ErrorKind::StaleLeaf,
        ErrorKind::RunState,
        ErrorKind::ActiveRun,
        ErrorKind::TurnNotOpen,
        ErrorKind::LeaseHeld,
        ErrorKind::LeaseLost,
        ErrorKind::RequestConflict,
        ErrorKind::RequestExpired,
        ErrorKind::VersionConflict,
        ErrorKind::Invalid,
    ] {
        assert!(sum.refused.get(&kind).is_some_and(|times| *times >= 5), "{kind} in {sum:?}");
    }
    assert!(sum.replayed >= 20 && sum.recreated >= 20, "{sum:?}");
}
