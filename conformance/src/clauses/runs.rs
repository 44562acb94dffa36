//! Runs and events: one active run, only the transitions of the table, contiguous events.

mod written;

use turnkeep_core::commit::{Commit, NewEntry, NewRun, OnKey, Op, Parent, RunPatch};
use turnkeep_core::model::{RunState, RunStates};
use turnkeep_core::query::RunQuery;
use turnkeep_core::{ErrorKind, RunId, SessionRef};

use crate::clause::{Kind, Running};
use crate::context::Context;
use crate::kit::{Kit, gather, keyed, name, no, note, payload, put, run, spawn, user};
use crate::peer;
use crate::verdict::{Outcome, Stop};
use written::{
    sta_006_admission_and_closing_are_one_atom_each,
    sta_007_events_are_contiguous_and_a_cursor_gives_the_tail,
};

clauses! { ($) runs_tests;
    "STA-001" sta_001_only_the_transitions_of_the_table {
        title: "A run moves only along the transitions of the table; each other one answers RunState and changes nothing.",
        why: "A run that is completed and failed at once cannot be recovered.",
        catches: "a backend that writes any state it is told",
    }
    "STA-002" sta_002_a_transition_outside_from_refuses_the_commit {
        title: "A transition whose run is in none of the states it names refuses the whole commit: completing twice appends nothing twice.",
        kind: Kind::Stochastic,
        why: "A retried completion would add the answer again.",
        catches: "a backend that skips a transition that does not fit",
    }
    "STA-003" sta_003_a_finished_run_comes_back_only_by_reopening {
        title: "A finished run becomes active only by an explicit reopen, and a completed one never.",
        why: "A late event of a dead worker must not bring its run back to life.",
        catches: "a backend that treats every state alike",
    }
    "STA-004" sta_004_a_second_active_run_is_refused {
        title: "A second active run in a session is refused, also in the same instant, through another handle and from another process.",
        kind: Kind::Stochastic,
        why: "Two agents in one conversation answer over each other.",
        catches: "a backend that looks for an active run before the transaction",
        peer: Some(start_elsewhere),
    }
    "STA-005" sta_005_starting_a_run_never_overwrites_one {
        title: "Starting a run under a used id answers AlreadyExists and leaves the first untouched; attempts at an intent are numbered, and one behind the newest is refused.",
        why: "A run that is overwritten takes its error and usage along.",
        catches: "a backend that starts runs with an upsert",
    }
    "STA-006" sta_006_admission_and_closing_are_one_atom_each {
        title: "Admission (lease, intent, run, user entry, turn start, started event) is one atom, and so is closing (entries, run, turn end, terminal event, lease release).",
        why: "Between the parts lies every state that recovery cannot explain.",
        catches: "a backend that takes the lease outside the commit",
    }
    "STA-007" sta_007_events_are_contiguous_and_a_cursor_gives_the_tail {
        title: "Events of a stream are numbered without gaps from 1; a read after a number gives exactly what is missing, also after the beginning was dropped.",
        why: "A client that reconnects must neither miss nor repeat an event.",
        catches: "a backend that numbers events over all streams",
    }
    "STA-008" sta_008_a_host_key_is_used_once {
        title: "A host key used twice in a session is refused, also within one commit, and the first entry is untouched; other sessions may use it.",
        why: "Hosts mark turns and imports by keys, and rely on each being there once.",
        catches: "a backend whose key index is not unique, or not per session",
    }
}

use RunState::{
    Cancelled, Cancelling, Completed, Failed, Interrupted, Pending, Running as Working, WaitingApproval,
    WaitingInput,
};

/// What may follow what, as the specification writes it. Not the table that the rules use: the two must agree.
const TABLE: [(RunState, &[RunState]); 9] = [
    (Pending, &[Working, Completed, Failed, Cancelled, Interrupted]),
    (Working, &[WaitingApproval, WaitingInput, Cancelling, Completed, Failed, Cancelled, Interrupted]),
    (WaitingApproval, &[Working, Completed, Failed, Cancelled, Interrupted]),
    (WaitingInput, &[Working, Completed, Failed, Cancelled, Interrupted]),
    (Cancelling, &[Completed, Failed, Cancelled, Interrupted]),
    (Completed, &[]),
    (Failed, &[]),
    (Cancelled, &[]),
    (Interrupted, &[]),
];

/// Brings a run into a state along the table.
async fn reach(kit: &Kit, session: &SessionRef, id: &str, state: RunState) -> Outcome<RunId> {
    let start = if state == RunState::Pending { RunState::Pending } else { RunState::Running };
    kit.start(session, NewRun { state: start, ..run(id) }).await?;
    if state != start {
        let error = state.is_terminal().then(|| payload("{\"code\":\"timeout\"}"));
        let from = RunStates::ACTIVE;
        let op = Op::TransitionRun { session: session.clone(), run: name(id), from, to: state, error };
        kit.apply(kit.commit().op(op)).await?;
    }
    Ok(name(id))
}

async fn sta_001_only_the_transitions_of_the_table(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    for (from, allowed) in TABLE {
        for to in RunState::ALL {
            let session = kit.create(&format!("{} {}", from.as_str(), to.as_str())).await?;
            let id = reach(&kit, &session, "r", from).await?;
            let before = (kit.row(&session).await?, kit.rows(kit.rows_of(&session)).await?);
            let mut commit = kit.appending(&session, vec![user("words")]);
            commit = commit.op(Op::TransitionRun {
                session: session.clone(),
                run: id,
                from: RunStates::ALL,
                to,
                error: Some(payload("{\"code\":1}")),
            });
            if allowed.contains(&to) {
                kit.apply(commit).await?;
                let run = kit.find_run(&session, "r").await?.ok_or_else(|| Stop::fail("the run is gone"))?;
                ensure_eq!(run.state, to, "the state after {} to {}", from.as_str(), to.as_str());
                ensure_eq!(run.finished_at.is_some(), to.is_terminal(), "finished_at in {}", to.as_str());
                ensure_eq!(run.error, Some(payload("{\"code\":1}")), "the error in {}", to.as_str());
                let active = kit.row(&session).await?.active_run.is_some();
                ensure_eq!(active, !to.is_terminal(), "the session has an active run in {}", to.as_str());
            } else {
                kit.refused(commit, ErrorKind::RunState).await?;
                let after = (kit.row(&session).await?, kit.rows(kit.rows_of(&session)).await?);
                ensure_eq!(after, before, "a session after {} to {} was refused", from.as_str(), to.as_str());
            }
        }
    }
    for state in RunState::ALL {
        let session = kit.create(&format!("begin {}", state.as_str())).await?;
        let start =
            kit.commit().op(Op::StartRun { session: session.clone(), run: NewRun { state, ..run("r") } });
        if matches!(state, RunState::Pending | RunState::Running) {
            kit.apply(start).await?;
        } else {
            kit.refused(start, ErrorKind::Invalid).await?;
        }
    }
    Ok(())
}

fn complete(kit: &Kit, session: &SessionRef, from: RunStates) -> Commit {
    kit.appending(session, vec![user("the answer")]).op(Op::TransitionRun {
        session: session.clone(),
        run: name("r"),
        from,
        to: RunState::Completed,
        error: None,
    })
}

async fn sta_002_a_transition_outside_from_refuses_the_commit(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    reach(&kit, &session, "r", WaitingInput).await?;
    let before = kit.snapshot().await?;
    // The table allows each of these; only the caller's own set forbids them.
    for from in [&[Working] as &[_], &[Pending, Working, Cancelling], &[WaitingApproval, Completed], &[]] {
        kit.refused(complete(&kit, &session, RunStates::of(from)), ErrorKind::RunState).await?;
        kit.unchanged(&before, "completing from a state that the run is not in").await?;
    }
    kit.apply(complete(&kit, &session, RunStates::of(&[Working, WaitingInput]))).await?;
    let before = kit.snapshot().await?;
    kit.refused(complete(&kit, &session, RunStates::ACTIVE), ErrorKind::RunState).await?;
    kit.refused(complete(&kit, &session, RunStates::ALL), ErrorKind::RunState).await?;
    kit.unchanged(&before, "completing twice").await?;
    let unknown = kit.commit().op(kit.moving(&session, &name("q"), RunState::Failed));
    kit.refused(unknown, ErrorKind::NotFound).await?;
    ensure_eq!(kit.texts(&session).await?, ["the answer"], "answers");
    for round in 0..6 {
        let session = kit.create(&format!("race {round}")).await?;
        kit.start(&session, run("r")).await?;
        let mut racers = Vec::new();
        for racer in cx.kits(5).await? {
            let commit = complete(&racer, &session, RunStates::of(&[Working]));
            racers.push(spawn(async move {
                match racer.store.commit(commit).await {
                    Ok(_) => Ok(true),
                    Err(error) => {
                        ensure_refused!(Err::<(), _>(error), ErrorKind::RunState, "a second completion");
                        Ok(false)
                    }
                }
            }));
        }
        let won = gather(racers).await?.into_iter().filter(|won| *won).count();
        ensure_eq!(won, 1, "completions that happened in round {round}");
        ensure_eq!(kit.texts(&session).await?, ["the answer"], "answers of round {round}");
    }
    Ok(())
}

async fn sta_003_a_finished_run_comes_back_only_by_reopening(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    for state in RunState::ALL {
        let session = kit.create(state.as_str()).await?;
        let id = reach(&kit, &session, "r", state).await?;
        let before = kit.snapshot().await?;
        if state.is_terminal() {
            for to in RunStates::ACTIVE.iter() {
                let back = Op::TransitionRun {
                    session: session.clone(),
                    run: id.clone(),
                    from: RunStates::ALL,
                    to,
                    error: None,
                };
                kit.refused(kit.commit().op(back), ErrorKind::RunState).await?;
            }
            kit.unchanged(&before, "transitions of a finished run").await?;
        }
        let reopen = kit.commit().op(Op::ReopenRun { session: session.clone(), run: id.clone() });
        if matches!(state, Failed | Cancelled | Interrupted) {
            kit.apply(reopen).await?;
            let run = kit.find_run(&session, "r").await?;
            let seen = run.map(|run| (run.state, run.finished_at, run.error, run.number, run.attempt));
            ensure_eq!(seen, Some((Working, None, None, 1, 1)), "a run reopened from {}", state.as_str());
            let second = Op::StartRun { session: session.clone(), run: crate::kit::run("second") };
            kit.refused(kit.commit().op(second), ErrorKind::ActiveRun).await?;
            ensure_eq!(kit.row(&session).await?.active_run, Some(id), "the active run after reopening");
        } else {
            kit.refused(reopen, ErrorKind::RunState).await?;
            kit.unchanged(&before, "reopening a run that cannot be").await?;
        }
    }
    let session = kit.create("busy").await?;
    let old = reach(&kit, &session, "old", RunState::Failed).await?;
    kit.start(&session, run("new")).await?;
    let before = kit.snapshot().await?;
    kit.refused(kit.commit().op(Op::ReopenRun { session: session.clone(), run: old }), ErrorKind::ActiveRun)
        .await?;
    kit.unchanged(&before, "reopening a run while another one is active").await
}

/// Waits for the sign, then tries to start a run.
fn start_elsewhere<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let kit = cx.kit().await?;
        let row = kit.find("s").await?.ok_or_else(|| Stop::fail("the session is not there"))?;
        peer::tell("ready")?;
        for _ in 0..20_000 {
            if kit.record("c", "go").await?.is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        if try_start(&kit, &row.session_ref(), role).await? { peer::tell("won") } else { peer::tell("lost") }
    })
}

async fn try_start(kit: &Kit, session: &SessionRef, id: &str) -> Outcome<bool> {
    let start =
        kit.appending(session, vec![user(id)]).op(Op::StartRun { session: session.clone(), run: run(id) });
    match kit.store.commit(start).await {
        Ok(_) => Ok(true),
        Err(error) => {
            ensure_refused!(Err::<(), _>(error), ErrorKind::ActiveRun, "a second active run");
            Ok(false)
        }
    }
}

async fn sta_004_a_second_active_run_is_refused(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    for round in 0..10 {
        let mut racers = Vec::new();
        for racer in 0..6 {
            let (kit, session) = (cx.kit().await?, session.clone());
            racers.push(spawn(async move { try_start(&kit, &session, &format!("r{round} {racer}")).await }));
        }
        let won = gather(racers).await?.into_iter().filter(|won| *won).count();
        ensure_eq!(won, 1, "runs started in round {round}");
        let active = RunQuery { states: RunStates::ACTIVE, ..kit.runs_of(&session) };
        let active = kit.runs(active).await?;
        ensure_eq!(active.len(), 1, "active runs in round {round}");
        kit.apply(kit.commit().op(kit.moving(&session, &active[0].id, RunState::Completed))).await?;
    }
    if cx.manifest.capabilities.multi_process {
        let peers = ["peer 1", "peer 2", "peer 3"].map(|role| cx.start_peer(role));
        // They wait for the sign once they are there; the sign may as well come first.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        kit.put(put("c", "go", "1")).await?;
        let mut won = usize::from(try_start(&kit, &session, "here").await?);
        for peer in peers {
            won += peer?.ended().await?.iter().filter(|line| *line == "won").count();
        }
        ensure_eq!(won, 1, "runs started over all processes");
    }
    ensure_eq!(
        kit.texts(&session).await?.len() as u32,
        kit.row(&session).await?.runs,
        "one entry per run that started"
    );
    Ok(())
}

async fn sta_005_starting_a_run_never_overwrites_one(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let attempt =
        |id: &str, after: Option<&str>| NewRun { intent: Some(name("i")), after: after.map(name), ..run(id) };
    let starting = |run: NewRun| kit.commit().op(Op::StartRun { session: session.clone(), run });
    let fail = |id: &str| kit.commit().op(kit.moving(&session, &name(id), RunState::Failed));
    let first = NewRun { model: Some("m".to_owned()), ..attempt("r1", None) };
    kit.apply(starting(first)).await?;
    let patch = RunPatch { progress: Some(Some(payload("{\"at\":1}"))), ..RunPatch::default() };
    kit.apply(kit.commit().op(Op::PatchRun { session: session.clone(), run: name("r1"), patch })).await?;
    kit.apply(fail("r1")).await?;
    let before = kit.snapshot().await?;
    kit.refused(starting(run("r1")), ErrorKind::AlreadyExists).await?;
    let twice = starting(run("new"))
        .op(kit.moving(&session, &name("new"), Failed))
        .op(Op::StartRun { session: session.clone(), run: run("new") });
    kit.refused(twice, ErrorKind::AlreadyExists).await?;
    kit.refused(starting(attempt("r2", None)), ErrorKind::VersionConflict).await?;
    kit.refused(starting(attempt("r2", Some("r0"))), ErrorKind::VersionConflict).await?;
    kit.unchanged(&before, "runs that were refused").await?;
    kit.apply(starting(attempt("r2", Some("r1")))).await?;
    kit.apply(fail("r2")).await?;
    kit.refused(starting(attempt("r3", Some("r1"))), ErrorKind::VersionConflict).await?;
    kit.apply(starting(attempt("r3", Some("r2")))).await?;
    let attempts = kit.runs(RunQuery { intent: Some(name("i")), ..kit.runs_of(&session) }).await?;
    let seen: Vec<_> = attempts
        .iter()
        .map(|run| (run.id.as_str(), run.attempt, run.retry_of.as_ref().map(RunId::as_str)))
        .collect();
    ensure_eq!(seen, [("r1", 1, None), ("r2", 2, Some("r1")), ("r3", 3, Some("r2"))], "attempts");
    ensure_eq!(attempts[0].model.as_deref(), Some("m"), "the model of the first attempt");
    let before = kit.snapshot().await?;
    kit.refused(starting(run("r3")), ErrorKind::AlreadyExists).await?;
    kit.unchanged(&before, "starting an active run again").await?;
    let other = kit.create("other").await?;
    kit.start(&other, attempt("r1", None)).await?;
    let same_id = RunQuery { id: Some(name("r1")), ..RunQuery::new(kit.workspace.clone()) };
    let states: Vec<_> = kit.runs(same_id).await?.into_iter().map(|run| (run.session, run.state)).collect();
    ensure_eq!(states, [(other, Working), (session, Failed)], "runs with one id in two sessions");
    Ok(())
}

async fn sta_008_a_host_key_is_used_once(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let (session, other) = (kit.create("s").await?, kit.create("other").await?);
    kit.append(&session, vec![keyed("k", "first")]).await?;
    let before = kit.snapshot().await?;
    let again = [
        ("the same key", keyed("k", "second")),
        ("the same entry", keyed("k", "first")),
        ("the key on a label", NewEntry { key: Some(name("k")), ..note("second") }),
        ("the key on another branch", NewEntry { parent: Parent::Root, ..keyed("k", "second") }),
    ];
    for (what, entry) in again {
        kit.refused(kit.appending(&session, vec![user("x"), entry]), ErrorKind::AlreadyExists).await?;
        kit.unchanged(&before, what).await?;
    }
    let twice = kit.appending(&session, vec![keyed("new", "x"), keyed("new", "y")]);
    kit.refused(twice, ErrorKind::AlreadyExists).await?;
    let over_ops = kit
        .appending(&session, vec![keyed("new", "x")])
        .op(Op::Append { session: session.clone(), entries: vec![keyed("new", "y")] });
    kit.refused(over_ops, ErrorKind::AlreadyExists).await?;
    kit.unchanged(&before, "keys used twice").await?;
    kit.append(&other, vec![keyed("k", "elsewhere")]).await?;
    let when = |key: &str| Op::WhenKey {
        session: session.clone(),
        key: name(key),
        then: Box::new(Op::Append { session: session.clone(), entries: vec![user(key)] }),
    };
    let receipt = kit.apply(kit.commit().op(when("k")).op(when("missing"))).await?;
    ensure_eq!(receipt.outcomes.get(1), Some(&turnkeep_core::Outcome::Skipped), "an op whose key is missing");
    ensure_eq!(kit.texts(&session).await?, ["first", "k"], "the session after conditional ops");
    let skipping = |key: &str| NewEntry { on_key: OnKey::Skip, ..keyed(key, "other words") };
    kit.append(&session, vec![NewEntry { key: Some(name("beside")), ..note("a label") }]).await?;
    let numbers = kit.append(&session, ["k", "new", "new", "beside"].map(skipping).to_vec()).await?;
    ensure_eq!(numbers, [no(1), no(4), no(4), no(3)], "the numbers of skipped keys");
    ensure_eq!(
        kit.texts(&session).await?,
        ["first", "k", "a label", "other words"],
        "the session after skipped keys"
    );
    let mut racers = Vec::new();
    for racer in 0..6 {
        let (kit, session) = (cx.kit().await?, session.clone());
        racers.push(spawn(async move {
            match kit.store.commit(kit.appending(&session, vec![keyed("race", &format!("{racer}"))])).await {
                Ok(_) => Ok(true),
                Err(error) => {
                    ensure_refused!(Err::<(), _>(error), ErrorKind::AlreadyExists, "a key that was taken");
                    Ok(false)
                }
            }
        }));
    }
    ensure_eq!(gather(racers).await?.into_iter().filter(|won| *won).count(), 1, "racers that got the key");
    Ok(())
}
