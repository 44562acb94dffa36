//! Deliberate breaks of the group committer; see `docs/parity.md`.

use turnkeep_core::mutant::{Break, doubts};

/// By row of the map.
const BREAKS: &[Break] = &[Break {
    row: "X2",
    mutant: "committer/each-syncs-alone",
    test: "committer::commits_that_wait_together_share_one_engine_commit",
}];

#[test]
fn every_break_is_noticed_by_the_test_of_its_row() {
    let doubts = doubts(BREAKS, include_str!("../../../docs/parity.md"));
    assert!(doubts.is_empty(), "{}", doubts.join("\n"));
}
