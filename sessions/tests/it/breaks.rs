//! For each capability one deliberate break of the code, which its test notices.

use turnkeep_core::mutant::{Break, doubts};

const fn of(row: &'static str, mutant: &'static str, test: &'static str) -> Break {
    Break { row, mutant, test }
}

/// By row of the map.
const BREAKS: &[Break] =
    &[of("B11", "lists/sub-agents-shown", "sessions::memory::sub_agents_are_hidden_from_default_lists")];

#[test]
fn every_break_is_noticed_by_the_test_of_its_row() {
    let doubts = doubts(BREAKS, include_str!("../../../docs/parity.md"));
    assert!(doubts.is_empty(), "{}", doubts.join("\n"));
}
