//! For each capability one deliberate break of the code, which its test notices.

use turnkeep_core::mutant::{Break, doubts};

const fn of(row: &'static str, mutant: &'static str, test: &'static str) -> Break {
    Break { row, mutant, test }
}

/// By row of the map.
const BREAKS: &[Break] = &[
    of("B11", "lists/sub-agents-shown", "sessions::memory::sub_agents_are_hidden_from_default_lists"),
    of("B18", "fork/any-boundary-is-the-same", "fork::memory::a_request_id_is_needed_and_means_one_fork"),
    of("B18", "fork/between-call-and-result", "fork::memory::a_fork_never_splits_a_call_from_its_result"),
    of("B18", "fork/inside-a-turn", "fork::memory::a_fork_is_cut_at_the_end_of_a_turn_or_at_its_last_words"),
    of("B18", "fork/parent-not-recorded", "fork::memory::a_fork_says_where_it_came_from"),
];

#[test]
fn every_break_is_noticed_by_the_test_of_its_row() {
    let doubts = doubts(BREAKS, include_str!("../../../docs/parity.md"));
    assert!(doubts.is_empty(), "{}", doubts.join("\n"));
}
