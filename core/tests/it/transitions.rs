//! The life of runs, cell by cell.

use turnkeep_core::commit::Op;
use turnkeep_core::model::{RunState, RunStates};
use turnkeep_core::rules::{REOPENABLE, TRANSITIONS, may_follow, validate};
use turnkeep_core::{ErrorKind, SessionRef};

use crate::kit::{append, at, commit, create, json, message, new_run, no, run_id, session, stamp};
use crate::model::allowed;
use crate::naive::Naive;

fn transition(session: &SessionRef, from: RunStates, to: RunState) -> Op {
    Op::TransitionRun { session: session.clone(), run: run_id("r"), from, to, error: None }
}

/// A session whose run `r` is in a state.
fn with_run_in(state: RunState) -> (Naive, SessionRef) {
    let (mut store, s) = (Naive::default(), session("s", 1));
    let first = if state == RunState::Pending { RunState::Pending } else { RunState::Running };
    let run = turnkeep_core::commit::NewRun { state: first, ..new_run("r") };
    let ops = commit().op(create(&s, Default::default())).op(Op::StartRun { session: s.clone(), run });
    store.commit(&ops, &stamp(1)).unwrap();
    if state != first {
        store.commit(&commit().op(transition(&s, RunStates::ALL, state)), &stamp(2)).unwrap();
    }
    assert_eq!(store.life(&s).runs[0].state, state);
    (store, s)
}

#[test]
fn every_cell_of_the_table_holds_and_a_refused_one_changes_nothing() {
    assert_eq!(TRANSITIONS.map(|(from, _)| from), RunState::ALL, "one row a state");
    for from in RunState::ALL {
        for to in RunState::ALL {
            assert_eq!(may_follow(from, to), allowed(from, to), "{from:?} to {to:?}");
            let (mut store, s) = with_run_in(from);
            let before = store.clone();
            let closing =
                commit().op(append(&s, vec![message("answer")])).op(transition(&s, RunStates::ALL, to));
            match store.commit(&closing, &stamp(9)) {
                Ok(_) => {
                    assert!(allowed(from, to), "{from:?} to {to:?}");
                    let row = store.row(&s).unwrap();
                    let run = &store.life(&s).runs[0];
                    assert_eq!((run.state, row.head), (to, Some(no(1))));
                    assert_eq!(row.active_run.is_some(), !to.is_terminal());
                    assert_eq!(run.finished_at, to.is_terminal().then_some(at(0)));
                }
                Err(error) => {
                    assert!(!allowed(from, to), "{from:?} to {to:?}: {error}");
                    assert_eq!(error.kind(), ErrorKind::RunState);
                    assert_eq!(store, before, "nothing was appended");
                }
            }
        }
    }
}

#[test]
fn a_transition_outside_its_from_set_refuses_the_whole_commit() {
    for state in RunState::ALL {
        for to in RunState::ALL.into_iter().filter(|to| allowed(state, *to)) {
            let (mut store, s) = with_run_in(state);
            let others: Vec<RunState> = RunState::ALL.into_iter().filter(|other| *other != state).collect();
            let before = store.clone();
            let closing =
                |from| commit().op(append(&s, vec![message("answer")])).op(transition(&s, from, to));
            let error = store.commit(&closing(RunStates::of(&others)), &stamp(9)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::RunState);
            assert_eq!(store, before);
            store.commit(&closing(RunStates::of(&[state])), &stamp(9)).unwrap();
        }
    }
}

#[test]
fn completing_twice_appends_nothing_twice() {
    let (mut store, s) = with_run_in(RunState::Running);
    let closing = commit().op(append(&s, vec![message("answer")])).op(transition(
        &s,
        RunStates::ACTIVE,
        RunState::Completed,
    ));
    store.commit(&closing, &stamp(8)).unwrap();
    let before = store.clone();
    assert_eq!(store.commit(&closing, &stamp(9)).unwrap_err().kind(), ErrorKind::RunState);
    assert_eq!(store, before);
}

#[test]
fn only_failed_cancelled_and_interrupted_runs_are_reopened() {
    for state in RunState::ALL {
        let (mut store, s) = with_run_in(state);
        let before = store.clone();
        let reopen = commit().op(Op::ReopenRun { session: s.clone(), run: run_id("r") });
        let answer = store.commit(&reopen, &stamp(9));
        let expected = matches!(state, RunState::Failed | RunState::Cancelled | RunState::Interrupted);
        assert_eq!(REOPENABLE.contains(state), expected);
        match answer {
            Ok(_) => {
                assert!(expected, "{state:?}");
                assert_eq!(store.row(&s).unwrap().active_run, Some(run_id("r")));
                assert_eq!(store.life(&s).runs[0].finished_at, None);
            }
            Err(error) => {
                assert!(!expected, "{state:?}: {error}");
                assert_eq!(error.kind(), ErrorKind::RunState);
                assert_eq!(store, before);
            }
        }
    }
}

#[test]
fn a_second_active_run_is_refused_whatever_the_first_one_waits_for() {
    for state in RunStates::ACTIVE.iter() {
        let (mut store, s) = with_run_in(state);
        let before = store.clone();
        let second = commit().op(crate::kit::start(&s, "second"));
        assert_eq!(store.commit(&second, &stamp(9)).unwrap_err().kind(), ErrorKind::ActiveRun);
        assert_eq!(store, before);
    }
}

#[test]
fn a_run_starts_as_pending_or_running() {
    for state in RunState::ALL {
        let run = turnkeep_core::commit::NewRun { state, ..new_run("r") };
        let commit = commit().op(Op::StartRun { session: session("s", 1), run });
        let expected = matches!(state, RunState::Pending | RunState::Running);
        assert_eq!(validate(&commit, &Default::default()).is_ok(), expected, "{state:?}");
    }
}

#[test]
fn a_retry_must_know_the_newest_attempt() {
    let (mut store, s) = (Naive::default(), session("s", 1));
    store.commit(&commit().op(create(&s, Default::default())), &stamp(1)).unwrap();
    let mut attempt = |run: &str, after: Option<&str>| {
        let run = turnkeep_core::commit::NewRun {
            intent: Some(crate::kit::name("intent")),
            after: after.map(run_id),
            ..new_run(run)
        };
        let id = run.id.clone();
        let ops = commit().op(Op::StartRun { session: s.clone(), run }).op(Op::TransitionRun {
            session: s.clone(),
            run: id,
            from: RunStates::ACTIVE,
            to: RunState::Failed,
            error: Some(json("{}")),
        });
        let answer = store.commit(&ops, &stamp(2)).map(drop).map_err(|error| error.kind());
        (answer, store.life(&s).runs.last().map(|run| run.attempt))
    };
    assert_eq!(attempt("r1", Some("r0")), (Err(ErrorKind::VersionConflict), None));
    assert_eq!(attempt("r1", None), (Ok(()), Some(1)));
    assert_eq!(attempt("r2", None), (Err(ErrorKind::VersionConflict), Some(1)));
    assert_eq!(attempt("r2", Some("r1")), (Ok(()), Some(2)));
    assert_eq!(attempt("r3", Some("r1")), (Err(ErrorKind::VersionConflict), Some(2)));
    assert_eq!(attempt("r3", Some("r2")), (Ok(()), Some(3)));
}
