//! The group committer on an engine that fails on demand.

use std::time::Duration;

use turnkeep_core::commit::{Guard, Request, RequestId};
use turnkeep_core::limits::Limits;
use turnkeep_core::local::{CommitterOptions, GroupCommitter};
use turnkeep_core::{Commit, ErrorKind, Receipt, Result};

use crate::fake_engine::{Call, Control, End, FakeEngine, Flight, nth, poll_once, queue, say, wait};
use crate::kit::{append, commit, json, message, name, no};

/// Queues commits behind one that stands at the gate, so that they become one group; then lets go. The one at the gate
/// is refused, so the calls that are noted begin with its rollback.
pub(crate) fn as_one_group<'c>(
    control: &Control,
    committer: &'c GroupCommitter<FakeEngine>,
    commits: Vec<Commit>,
) -> Vec<Flight<'c>> {
    control.close_gate();
    let mut first = queue(committer, stale(9));
    control.wait_at_gate();
    control.script().calls.clear();
    let flights = commits.into_iter().map(|commit| queue(committer, commit)).collect();
    control.open_gate();
    assert_eq!(wait(&mut first).unwrap_err().kind(), ErrorKind::StaleLeaf);
    flights
}

pub(crate) fn answers(flights: Vec<Flight<'_>>) -> Vec<Result<Receipt, ErrorKind>> {
    flights.into_iter().map(|flight| wait(flight).map_err(|error| error.kind())).collect()
}

fn stale(place: u8) -> Commit {
    say(place, "stale").guard(Guard::Head { session: nth(place), head: Some(no(77)) })
}

#[test]
fn commits_that_wait_together_share_one_engine_commit() {
    let control = Control::new();
    let committer = control.committer();
    let commits = (0..8).map(|place| say(place % 4, &format!("m{place}"))).collect();
    let flights = as_one_group(&control, &committer, commits);
    for (place, answer) in answers(flights).into_iter().enumerate() {
        let numbers: Vec<_> = answer.unwrap().entries(0).collect();
        assert_eq!(numbers, [no(if place < 4 { 1 } else { 2 })], "a session's commits keep their order");
    }
    assert_eq!(control.count(&Call::Begin), 1);
    assert_eq!(control.count(&Call::Commit), 1);
    for place in 0..4 {
        assert_eq!(control.texts(&nth(place)), [format!("m{place}"), format!("m{}", place + 4)]);
    }
}

#[test]
fn with_a_group_size_of_one_every_commit_is_durable_on_its_own() {
    let control = Control::new();
    let committer = control.start(CommitterOptions { group: 1, ..CommitterOptions::new("alone") });
    let flights = as_one_group(&control, &committer, (0..4).map(|place| say(place, "x")).collect());
    assert!(answers(flights).iter().all(Result::is_ok));
    assert_eq!(control.count(&Call::Commit), 4);
}

#[test]
fn one_bad_commit_of_a_group_is_refused_alone_and_the_others_land_once_in_order() {
    let control = Control::new();
    control.script().full_at = Some("bad");
    let committer = control.committer();
    let texts = ["a", "bad", "b", "c"];
    let flights = as_one_group(&control, &committer, texts.iter().map(|text| say(0, text)).collect());
    let kinds: Vec<_> = answers(flights).into_iter().map(|answer| answer.map(drop)).collect();
    assert_eq!(kinds, [Ok(()), Err(ErrorKind::Full), Ok(()), Ok(())]);
    assert_eq!(control.texts(&nth(0)), ["a", "b", "c"]);
    assert_eq!(control.count(&Call::Commit), 3, "the group as a whole was never committed");
    wait(committer.commit(say(0, "later"))).unwrap();
}

#[test]
fn a_refusal_by_the_rules_does_not_disturb_the_group() {
    let control = Control::new();
    let committer = control.committer();
    let flights = as_one_group(&control, &committer, vec![say(0, "a"), stale(0), say(1, "b")]);
    let kinds: Vec<_> = answers(flights).into_iter().map(|answer| answer.map(drop)).collect();
    assert_eq!(kinds, [Ok(()), Err(ErrorKind::StaleLeaf), Ok(())]);
    assert_eq!(control.count(&Call::Commit), 1);
    assert_eq!(control.count(&Call::Rollback), 1, "that of the one at the gate");
}

#[test]
fn what_writes_nothing_needs_no_engine_commit() {
    let control = Control::new();
    let committer = control.committer();
    let request = Request::in_session(RequestId::host("q").unwrap(), nth(0));
    let once = say(0, "a").request(request);
    wait(committer.commit(once.clone())).unwrap();
    let flights = as_one_group(&control, &committer, vec![once, stale(1)]);
    let answers = answers(flights);
    assert!(answers[0].as_ref().unwrap().replayed);
    assert_eq!(answers[1], Err(ErrorKind::StaleLeaf));
    assert_eq!(control.calls(), [Call::Rollback, Call::Begin, Call::Rollback]);
}

#[test]
fn a_group_of_which_nothing_was_applied_is_tried_again_one_by_one() {
    let control = Control::new();
    control.script().ends = [End::NothingApplied].into();
    let committer = control.committer();
    let flights = as_one_group(&control, &committer, (0..3).map(|place| say(place, "x")).collect());
    assert!(answers(flights).iter().all(Result::is_ok));
    for place in 0..3 {
        assert_eq!(control.texts(&nth(place)), ["x"], "landed once");
    }
    assert_eq!(control.count(&Call::Commit), 1 + 3);

    control.script().ends = [End::NothingApplied, End::NothingApplied].into();
    let flights = as_one_group(&control, &committer, (0..3).map(|place| say(place, "y")).collect());
    let kinds: Vec<_> = answers(flights).into_iter().map(|answer| answer.map(drop)).collect();
    assert_eq!(kinds, [Err(ErrorKind::Full), Ok(()), Ok(())]);
    assert_eq!(control.texts(&nth(0)), ["x"]);
    assert_eq!(control.texts(&nth(2)), ["x", "y"]);
}

#[test]
fn after_an_unknown_end_writers_are_unknown_and_all_later_ones_poisoned() {
    for end in [End::UnknownButLanded, End::UnknownAndLost] {
        let control = Control::new();
        let committer = control.committer();
        control.close_gate();
        let mut first = queue(&committer, stale(9));
        control.wait_at_gate();
        control.script().ends = [end].into();
        let request = Request::in_session(RequestId::host("q").unwrap(), nth(0));
        let once = say(0, "a").request(request);
        let flights = vec![queue(&committer, once.clone()), queue(&committer, stale(1))];
        control.open_gate();
        assert_eq!(wait(&mut first).unwrap_err().kind(), ErrorKind::StaleLeaf);
        assert_eq!(answers(flights), [Err(ErrorKind::CommitUnknown), Err(ErrorKind::Poisoned)]);
        let begun = control.count(&Call::Begin);
        assert_eq!(wait(committer.commit(say(2, "later"))).unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(control.count(&Call::Begin), begun, "nothing is tried through a poisoned handle");
        wait(committer.close()).unwrap();

        // Opened again, a repeat by its request lands exactly once.
        let again = control.committer();
        let landed = matches!(end, End::UnknownButLanded);
        assert_eq!(wait(again.commit(once)).unwrap().replayed, landed);
        assert_eq!(control.texts(&nth(0)), ["a"]);
    }
}

#[test]
fn a_transaction_that_cannot_be_undone_poisons_too() {
    let control = Control::new();
    {
        let mut script = control.script();
        script.full_at = Some("bad");
        script.rollback_fails = true;
    }
    let committer = control.committer();
    assert_eq!(wait(committer.commit(say(0, "bad"))).unwrap_err().kind(), ErrorKind::CommitUnknown);
    assert_eq!(wait(committer.commit(say(0, "later"))).unwrap_err().kind(), ErrorKind::Poisoned);
}

#[test]
fn a_commit_of_which_nothing_was_applied_is_refused_with_the_engine_s_error() {
    let control = Control::new();
    let committer = control.committer();
    control.script().ends = [End::NothingApplied].into();
    let error = wait(committer.commit(say(3, "alone"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "a single one is its own culprit");
    wait(committer.commit(say(3, "again"))).unwrap();
    assert_eq!(control.texts(&nth(3)), ["again"]);
}

#[test]
fn a_store_that_is_busy_refuses_the_group_and_goes_on_later() {
    let control = Control::new();
    let committer = control.committer();
    control.script().begin_fails = true;
    assert_eq!(wait(committer.commit(say(0, "x"))).unwrap_err().kind(), ErrorKind::Busy);
    control.script().begin_fails = false;
    wait(committer.commit(say(0, "y"))).unwrap();
    assert_eq!(control.texts(&nth(0)), ["y"]);
}

#[test]
fn damage_in_one_place_refuses_only_who_looks_there() {
    let control = Control::new();
    control.script().damaged = Some(name("damaged"));
    let committer = control.committer();
    let hurt = Commit { workspace: name("damaged"), ..say(1, "hurt") };
    let flights = as_one_group(&control, &committer, vec![say(0, "a"), hurt, say(2, "b")]);
    let kinds: Vec<_> = answers(flights).into_iter().map(|answer| answer.map(drop)).collect();
    assert_eq!(kinds, [Ok(()), Err(ErrorKind::Corrupt), Ok(())]);
}

#[test]
fn a_commit_dropped_in_the_queue_is_withdrawn_and_one_dropped_later_lands_whole() {
    let control = Control::new();
    let committer = control.committer();
    control.close_gate();
    let taken = queue(&committer, say(0, "taken"));
    control.wait_at_gate();
    let waiting = queue(&committer, say(1, "waiting"));
    drop((taken, waiting));
    control.open_gate();
    wait(committer.commit(say(2, "next"))).unwrap();
    assert_eq!(control.texts(&nth(0)), ["taken"]);
    assert!(control.texts(&nth(1)).is_empty());
}

#[test]
fn a_close_answers_what_came_before_and_refuses_what_comes_after() {
    let control = Control::new();
    let committer = control.committer();
    control.close_gate();
    let first = queue(&committer, say(0, "first"));
    control.wait_at_gate();
    let before = queue(&committer, say(1, "before"));
    let mut closing = Box::pin(committer.close());
    assert!(poll_once(&mut closing).is_pending());
    let after = queue(&committer, say(2, "after"));
    let mut twice = Box::pin(committer.close());
    assert!(poll_once(&mut twice).is_pending());
    control.open_gate();
    assert!(wait(first).is_ok() && wait(before).is_ok());
    wait(closing).unwrap();
    assert_eq!(wait(after).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(wait(twice).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(wait(committer.commit(say(3, "late"))).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(wait(committer.run(|_| ())).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(wait(committer.close()).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(control.calls().last(), Some(&Call::Close));
    assert_eq!(control.count(&Call::Close), 1);
    assert!(control.texts(&nth(2)).is_empty());
}

#[test]
fn a_committer_dropped_with_a_full_queue_neither_hangs_nor_panics() {
    let control = Control::new();
    let committer = control.committer();
    control.close_gate();
    let mut flights = vec![queue(&committer, say(0, "taken"))];
    control.wait_at_gate();
    flights.extend((0..100).map(|place| queue(&committer, say(place % 9, "queued"))));
    drop(flights);
    drop(committer);
    control.open_gate();
    control.wait_for(|script| script.calls.last() == Some(&Call::Close));
    assert_eq!(control.texts(&nth(0)), ["taken"]);
}

#[test]
fn a_queue_that_is_full_lets_callers_wait_and_serves_them_all() {
    let control = Control::new();
    let committer = control.committer();
    control.close_gate();
    let mut flights = vec![queue(&committer, say(9, "taken"))];
    control.wait_at_gate();
    let many = turnkeep_core::limits::QUEUE_COMMITS + 50;
    flights.extend((0..many).map(|place| queue(&committer, say(u8::try_from(place % 9).unwrap(), "x"))));
    control.open_gate();
    // Polled in turn, as tasks of a runtime would be: the last ones still have to get into the queue.
    let mut landed = 0;
    for mut flight in flights.into_iter().rev() {
        wait(&mut flight).unwrap();
        landed += 1;
    }
    assert_eq!(landed, many + 1);
}

#[test]
fn chores_of_a_full_queue_do_not_keep_a_dropped_committer_alive() {
    let control = Control::new();
    control.script().chores = None;
    let committer = control.committer();
    wait(committer.commit(say(0, "served amid endless chores"))).unwrap();
    wait(committer.commit(say(0, "again"))).unwrap();
    drop(committer);
    control.wait_for(|script| script.calls.last() == Some(&Call::Close));
}

#[test]
fn an_engine_rests_when_nobody_comes_and_serves_whoever_comes_then() {
    let control = Control::new();
    control.script().rests = 3;
    let committer = control.committer();
    control.wait_for(|script| script.rests == 0);
    wait(committer.commit(say(0, "after the rest"))).unwrap();
    control.script().rests = 2;
    wait(committer.commit(say(0, "before the next"))).unwrap();
    control.wait_for(|script| script.rests == 0);
    wait(committer.close()).unwrap();
}

#[test]
fn chores_go_on_while_nobody_waits_until_none_is_left() {
    let control = Control::new();
    control.script().chores = Some(20);
    let committer = control.committer();
    wait(committer.commit(say(0, "x"))).unwrap();
    control.wait_for(|script| script.chores == Some(0));
}

#[test]
fn a_chore_of_the_caller_sees_what_came_before_it_and_nothing_later() {
    let control = Control::new();
    let committer = control.committer();
    control.close_gate();
    let first = queue(&committer, say(9, "first"));
    control.wait_at_gate();
    let a = queue(&committer, say(0, "a"));
    let look = |engine: &mut FakeEngine| engine.control().texts(&nth(0));
    let mut seen = Box::pin(committer.run(look));
    assert!(poll_once(&mut seen).is_pending());
    let b = queue(&committer, say(0, "b"));
    control.open_gate();
    assert!(wait(first).is_ok() && wait(a).is_ok() && wait(b).is_ok());
    assert_eq!(wait(seen).unwrap(), ["a"]);
    assert_eq!(control.texts(&nth(0)), ["a", "b"]);
}

#[test]
fn a_panic_of_a_chore_is_no_hang_either() {
    let control = Control::new();
    let committer = control.committer();
    let answer = wait(committer.run(|_| -> () { panic!("ordered by the test") }));
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(wait(committer.commit(say(0, "later"))).unwrap_err().kind(), ErrorKind::Poisoned);
}

#[test]
fn whoever_is_willing_to_wait_for_ever_is_served_like_all_others() {
    let control = Control::new();
    let committer = control.committer();
    wait(committer.commit(say(0, "x").wait(Duration::MAX))).unwrap();
    assert_eq!(control.texts(&nth(0)), ["x"]);
}

#[test]
fn a_commit_over_the_limits_never_reaches_the_engine() {
    let control = Control::new();
    let limits = Limits::default().with_payload_bytes(10);
    let committer = control.start(CommitterOptions { limits, ..CommitterOptions::new("small") });
    let mut entry = message("x");
    entry.payload = json("\"longer than ten bytes\"");
    let large = commit().op(append(&nth(0), vec![entry]));
    assert_eq!(wait(committer.commit(large)).unwrap_err().kind(), ErrorKind::TooLarge);
    assert!(control.calls().is_empty());
}

#[test]
fn many_threads_lose_nothing_and_double_nothing() {
    let control = Control::new();
    let committer = control.committer();
    std::thread::scope(|scope| {
        for place in 0..8 {
            let committer = &committer;
            scope.spawn(move || {
                for round in 1..=50 {
                    let receipt = wait(committer.commit(say(place, &format!("m{round}")))).unwrap();
                    assert_eq!(receipt.entries(0).collect::<Vec<_>>(), [no(round)]);
                }
            });
        }
    });
    for place in 0..8 {
        let texts: Vec<_> = (1..=50).map(|round| format!("m{round}")).collect();
        assert_eq!(control.texts(&nth(place)), texts);
    }
    assert!(control.count(&Call::Commit) <= 400);
}

/// Threads that repeat with their request until they are told, over an engine that fails every third time.
#[test]
fn repeats_through_failing_groups_land_every_commit_exactly_once_and_in_order() {
    const ROUNDS: u32 = 40;
    let control = Control::new();
    {
        let mut script = control.script();
        script.fail_every = 3;
        script.full_at = Some("never fits");
    }
    let committer = control.committer();
    let hopeless =
        || assert_eq!(wait(committer.commit(say(9, "never fits"))).unwrap_err().kind(), ErrorKind::Full);
    std::thread::scope(|scope| {
        for place in 0..6 {
            let committer = &committer;
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    let id = RequestId::host(format!("{place}/{round}")).unwrap();
                    let commit =
                        say(place, &format!("m{round}")).request(Request::in_session(id, nth(place)));
                    let mut tries = 0;
                    let receipt = loop {
                        match wait(committer.commit(commit.clone())) {
                            Ok(receipt) => break receipt,
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Full),
                        }
                        tries += 1;
                        assert!(tries < 1000, "a commit never lands");
                    };
                    assert_eq!(receipt.entries(0).collect::<Vec<_>>(), [no(round)]);
                }
            });
        }
        (0..10).for_each(|_| hopeless());
    });
    for place in 0..6 {
        let texts: Vec<_> = (1..=ROUNDS).map(|round| format!("m{round}")).collect();
        assert_eq!(control.texts(&nth(place)), texts);
    }
    assert!(control.texts(&nth(9)).is_empty());
}
