//! For each capability of the program one deliberate break of the code, which its test notices.

use turnkeep::core::mutant::{Break, doubts};

const fn of(row: &'static str, mutant: &'static str, test: &'static str) -> Break {
    Break { row, mutant, test }
}

/// By row of the map.
const BREAKS: &[Break] =
    &[of("A15", "chat/resume-begins-another", "talk::a_session_is_continued_by_the_beginning_of_its_id")];

#[test]
fn every_break_is_noticed_by_the_test_of_its_row() {
    let doubts = doubts(BREAKS, include_str!("../../../docs/parity.md"));
    assert!(doubts.is_empty(), "{}", doubts.join("\n"));
}
