//! Deliberate breaks of what only this backend does; see `docs/parity.md`.

use turnkeep_core::mutant::{Break, doubts};

/// By row of the map.
const BREAKS: &[Break] = &[
    Break {
        row: "B30",
        mutant: "sqlite/auditors-write-anything",
        test: "audit::an_auditor_cannot_break_the_contract",
    },
    Break {
        row: "B30",
        mutant: "sqlite/auditors-tie-rows",
        test: "audit::an_auditor_cannot_break_the_contract",
    },
];

#[test]
fn every_break_is_noticed_by_the_test_of_its_row() {
    let doubts = doubts(BREAKS, include_str!("../../../docs/parity.md"));
    assert!(doubts.is_empty(), "{}", doubts.join("\n"));
}
