//! For each capability one deliberate break of the code, which its test notices.

use turnkeep_core::mutant::{Break, doubts};

const fn of(row: &'static str, mutant: &'static str, test: &'static str) -> Break {
    Break { row, mutant, test }
}

/// By row of the map.
const BREAKS: &[Break] = &[
    of("A1", "runs/not-listed", "sessions::memory::everything_is_there_after_reopening"),
    of("A2", "workspaces/all-are-one", "sessions::memory::workspaces_do_not_see_each_other"),
    of("A3", "recovery/takes-from-the-living", "recovery::memory::the_run_of_a_living_owner_is_left_alone"),
    of(
        "A3",
        "recovery/the-dead-left-alone",
        "recovery::memory::a_dead_owners_run_is_closed_at_once_when_the_workspace_is_opened",
    ),
    of("A5", "blocking/asks-for-a-runtime", "blocking::on_memory::works_without_a_runtime"),
    of("A6", "compactions/begin-anew", "entries::memory::a_compaction_deletes_nothing"),
    of(
        "A7",
        "identity/state-beside-the-marker",
        "identity::only_the_marker_is_in_the_workspace_and_state_is_private",
    ),
    of(
        "A8",
        "identity/a-copy-is-the-original",
        "identity::a_copy_whose_original_exists_gets_an_id_of_its_own_once",
    ),
    of(
        "A9",
        "runs/begun-without-input",
        "runs::memory::input_and_pending_run_are_durable_before_the_model_is_called",
    ),
    of(
        "A10",
        "replay/failed-runs-shown",
        "runs::memory::a_failed_run_keeps_its_input_and_replays_nothing_of_it",
    ),
    of(
        "A11",
        "replay/rejected-turn-as-failed",
        "cases::memory::case_14_a_rejected_turn_is_absent_next_turn_and_its_tool_records_stay",
    ),
    of(
        "A11",
        "replay/results-not-found",
        "runs::memory::tool_rounds_are_replayed_as_pairs_within_the_run_and_after",
    ),
    of(
        "A12",
        "messages/summaries-of-the-model",
        "message::custom_messages_and_summaries_become_user_messages",
    ),
    of(
        "A13",
        "identity/root-inside-passes",
        "identity::a_state_root_inside_the_workspace_is_refused_and_nothing_is_made",
    ),
    of(
        "A14",
        "audit/codes-as-they-come",
        "audit::memory::the_log_holds_no_secret_of_twenty_kinds_and_nobodys_words",
    ),
    of(
        "A14",
        "audit/nothing-written",
        "audit::memory::the_log_tells_the_life_of_a_run_its_phases_errors_and_tokens",
    ),
    of("A14", "audit/tail-not-repaired", "audit::a_cut_tail_stays_by_itself_and_the_next_line_is_whole"),
    of("A16", "history/only-the-first", "blocking::on_memory::works_without_a_runtime"),
    of(
        "A17",
        "runs/compact-by-themselves",
        "runs::memory::nothing_is_compacted_or_remembered_unless_the_host_says_so",
    ),
    of("B1", "drafts/unknown-kind-is-custom", "entries::memory::unknown_kinds_and_bytes_survive"),
    of("B2", "sessions/channel-not-kept", "sessions::memory::what_is_said_of_a_new_session_is_kept"),
    of("B2", "sessions/directory-not-kept", "sessions::memory::what_is_said_of_a_new_session_is_kept"),
    of("B2", "sessions/fork-not-kept", "sessions::memory::what_is_said_of_a_new_session_is_kept"),
    of("B2", "sessions/parent-not-kept", "sessions::memory::what_is_said_of_a_new_session_is_kept"),
    of(
        "B3",
        "sessions/created-over-another",
        "sessions::memory::a_taken_id_is_refused_and_the_first_session_untouched",
    ),
    of(
        "B4",
        "find/first-of-several",
        "sessions::memory::a_prefix_opens_the_only_one_and_names_candidates_else",
    ),
    of(
        "B5",
        "drafts/label-moves-the-leaf",
        "entries::memory::every_kind_comes_back_with_number_parent_and_time",
    ),
    of(
        "B5",
        "drafts/references-dropped",
        "entries::memory::every_kind_comes_back_with_number_parent_and_time",
    ),
    of("B6", "latest/of-any-branch", "entries::memory::the_latest_of_each_kind_is_that_of_the_branch"),
    of("B7", "guards/leaf-not-compared", "entries::memory::a_stale_leaf_is_refused_and_works_after_reload"),
    of("B7", "writes/a-rename-hides-others", "entries::memory::a_rename_by_a_stale_handle_leaves_it_stale"),
    of("B8", "replay/all-branches", "entries::memory::replay_goes_along_the_branch_of_the_leaf"),
    of("B9", "messages/bounds-included", "entries::memory::messages_are_read_by_number"),
    of("B10", "lists/empty-ones-too", "sessions::memory::lists_filter_count_and_page"),
    of("B10", "search/phrases-not-preferred", "search::memory::a_search_ranks_what_was_said_and_marks_it"),
    of("B11", "lists/sub-agents-shown", "sessions::memory::sub_agents_are_hidden_from_default_lists"),
    of(
        "B12",
        "sessions/delete-puts-away",
        "sessions::memory::deleting_takes_everything_and_the_id_starts_anew",
    ),
    of(
        "B12",
        "sessions/former-life-passes",
        "sessions::memory::deleting_takes_everything_and_the_id_starts_anew",
    ),
    of("B13", "intents/request-not-kept", "attempts::memory::the_request_behind_a_run_is_kept_byte_for_byte"),
    of(
        "B14",
        "runs/begun-without-input",
        "runs::memory::input_and_pending_run_are_durable_before_the_model_is_called",
    ),
    of("B15", "runs/attempt-after-any", "attempts::memory::a_retry_of_an_older_attempt_is_refused"),
    of("B16", "runs/note-of-no-run", "runs::memory::a_host_notes_what_happens_in_a_run_and_gets_the_number"),
    of("B17", "turns/ended-twice", "attempts::memory::a_turn_outside_of_a_run_is_ended_once"),
    of("B18", "fork/any-boundary-is-the-same", "fork::memory::a_request_id_is_needed_and_means_one_fork"),
    of("B18", "fork/between-call-and-result", "fork::memory::a_fork_never_splits_a_call_from_its_result"),
    of("B18", "fork/inside-a-turn", "fork::memory::a_fork_is_cut_at_the_end_of_a_turn_or_at_its_last_words"),
    of("B18", "fork/parent-not-recorded", "fork::memory::a_fork_says_where_it_came_from"),
    of("B19", "leases/two-holders", "leases::memory::a_lease_has_one_holder_and_the_busy_answer_says_who"),
    of(
        "B20",
        "bindings/all-rooms-are-one",
        "bindings::memory::the_lock_of_a_channel_has_one_holder_and_leaves_other_channels_free",
    ),
    of("B21", "claims/completed-can-be-given-up", "claims::memory::a_completed_claim_is_never_changed"),
    of("B21", "claims/left-running", "claims::memory::recovery_interrupts_the_claims_of_the_dead"),
    of(
        "B21",
        "claims/side-effect-tried-again",
        "claims::memory::a_side_effect_that_was_interrupted_waits_for_a_person",
    ),
    of(
        "B21",
        "claims/taken-from-the-living",
        "claims::memory::a_claim_has_one_winner_and_the_others_read_its_result",
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
    of("B22", "lineage/last-turn-wins", "lineage::memory::of_many_turns_that_advance_one_state_one_wins"),
    of(
        "B23",
        "responses/open-turns-replayed",
        "responses::memory::items_are_replayed_by_turn_in_order_and_of_completed_turns_only",
    ),
    of(
        "B28",
        "usage/counted-without-event",
        "usage::memory::a_request_is_an_event_and_counted_for_run_and_session_in_one_commit",
    ),
    of(
        "B29",
        "directories/only-the-first-counts",
        "sessions::memory::directories_are_read_by_the_id_of_the_session",
    ),
    of(
        "B4",
        "titles/the-first-one-will-do",
        "sessions::memory::case_64_a_name_survives_10000_appends_and_an_ambiguous_one_lists_candidates",
    ),
    of("B27", "inbox/consumed-twice", "inbox::memory::two_who_consume_at_the_same_moment_share_nothing"),
    of(
        "B31",
        "memory/stores-share-rows",
        "sessions::a_memory_store_is_new_empty_and_gone_with_its_last_handle",
    ),
    of("X3", "requests/forgotten", "faults::memory::an_unknown_commit_is_repeated_and_lands_once"),
    of("X4", "copy/events-left-out", "copy::memory::a_chain_of_copies_over_every_backend_ends_with_the_same"),
    of("X4", "copy/overwrites-what-went-on", "copy::memory::a_copy_that_went_on_is_never_overwritten"),
    of("X4", "copy/proof-passes-all", "copy::memory::a_target_that_loses_a_row_on_its_way_is_caught_by_name"),
    of(
        "X4",
        "copy/sub-agents-left-out",
        "copy::memory::a_chain_of_copies_over_every_backend_ends_with_the_same",
    ),
    of(
        "X6",
        "salvage/does-not-say",
        "salvage::case_59_what_a_damaged_row_takes_away_is_named_and_the_rest_is_saved",
    ),
    of(
        "X6",
        "salvage/ends-at-the-first-damage",
        "salvage::case_59_a_damaged_value_of_redb_is_named_and_the_rest_is_saved",
    ),
    of(
        "X6",
        "permit/damaged-is-written",
        "damaged::a_sqlite_store_opened_as_damaged_is_only_read_and_keeps_its_log",
    ),
    of("X6", "permit/damaged-is-written", "damaged::a_redb_store_opened_as_damaged_is_only_read"),
];

#[test]
fn every_break_is_noticed_by_the_test_of_its_row() {
    let doubts = doubts(BREAKS, include_str!("../../../docs/parity.md"));
    assert!(doubts.is_empty(), "{}", doubts.join("\n"));
}
