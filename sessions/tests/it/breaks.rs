//! For each capability one deliberate break of the code, which its test notices.

use turnkeep_core::mutant::{Break, doubts};

const fn of(row: &'static str, mutant: &'static str, test: &'static str) -> Break {
    Break { row, mutant, test }
}

/// By row of the map.
const BREAKS: &[Break] = &[
    of("B7", "writes/a-rename-hides-others", "entries::memory::a_rename_by_a_stale_handle_leaves_it_stale"),
    of("B11", "lists/sub-agents-shown", "sessions::memory::sub_agents_are_hidden_from_default_lists"),
    of("B18", "fork/any-boundary-is-the-same", "fork::memory::a_request_id_is_needed_and_means_one_fork"),
    of("B18", "fork/between-call-and-result", "fork::memory::a_fork_never_splits_a_call_from_its_result"),
    of("B18", "fork/inside-a-turn", "fork::memory::a_fork_is_cut_at_the_end_of_a_turn_or_at_its_last_words"),
    of("B18", "fork/parent-not-recorded", "fork::memory::a_fork_says_where_it_came_from"),
    of(
        "B20",
        "bindings/all-rooms-are-one",
        "bindings::memory::the_lock_of_a_channel_has_one_holder_and_leaves_other_channels_free",
    ),
    of(
        "B24",
        "bindings/channel-taken-away",
        "bindings::memory::a_channel_has_one_session_and_the_refusal_names_it",
    ),
    of(
        "B24",
        "bindings/unguarded-session",
        "bindings::memory::a_session_bound_to_two_channels_at_once_gets_one",
    ),
    of(
        "B25",
        "projects/deleted-one-still-shows",
        "projects::memory::a_deleted_project_reads_as_none_at_once_in_lists_filters_and_sessions",
    ),
    of("B25", "projects/last-name-wins", "projects::memory::a_stale_rename_or_delete_is_refused"),
    of(
        "B26",
        "capabilities/change-without-event",
        "capabilities::memory::a_change_of_capabilities_is_state_and_log_in_one_commit",
    ),
    of(
        "B26",
        "channel-tools/generation-stays",
        "capabilities::memory::channel_tools_are_replaced_as_a_whole_and_the_generation_goes_up_by_one",
    ),
    of("B27", "inbox/consumed-twice", "inbox::memory::each_note_goes_to_exactly_one_of_many_consumers"),
];

#[test]
fn every_break_is_noticed_by_the_test_of_its_row() {
    let doubts = doubts(BREAKS, include_str!("../../../docs/parity.md"));
    assert!(doubts.is_empty(), "{}", doubts.join("\n"));
}
