//! RUN-011: one commit that works on several sessions keeps them apart.

use turnkeep_core::SessionRef;
use turnkeep_core::commit::{Op, Put};
use turnkeep_core::model::{RunState, RunStates};

use crate::context::Context;
use crate::kit::{event, keyed, name, put, run};
use crate::verdict::Outcome;

pub(super) async fn run_011_one_commit_on_several_sessions_keeps_them_apart(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let sessions = [kit.create("a").await?, kit.create("b").await?, kit.life("c")];
    let mut commit = kit.commit().op(Op::CreateSession(kit.new_session(&sessions[2])));
    // Everything has the same names in each session, and comes in turns.
    for session in &sessions {
        commit = commit.op(Op::StartRun { session: session.clone(), run: run("r") });
    }
    for round in 1..=2 {
        for session in &sessions {
            let entry = keyed(&format!("k{round}"), &format!("{} {round}", session.id));
            commit = commit.op(Op::Append { session: session.clone(), entries: vec![entry] });
            let owned =
                Put { owner: Some(session.clone()), ..put("c", session.id.as_str(), &round.to_string()) };
            commit = commit.op(Op::PutRecord(owned));
        }
        // One stream of all sessions after the other, so that neighbours differ in the session alone; then all streams
        // of one session after the other, so that they differ in the stream alone.
        let mut streams: Vec<_> = ["log", "other"]
            .into_iter()
            .flat_map(|stream| sessions.iter().map(move |of| (of, stream)))
            .collect();
        if round == 2 {
            streams.sort_by_key(|(session, _)| session.id.clone());
        }
        for (session, stream) in streams {
            let number = round * 10 + u64::from(stream == "other");
            commit = commit.op(Op::AppendEvents {
                session: session.clone(),
                stream: name(stream),
                expect_next: Some(round),
                events: vec![event(session.id.as_str(), number)],
            });
        }
    }
    let ended = |session: &SessionRef, to| Op::TransitionRun {
        session: session.clone(),
        run: name("r"),
        from: RunStates::ACTIVE,
        to,
        error: None,
    };
    commit = commit.op(ended(&sessions[0], RunState::Completed)).op(ended(&sessions[1], RunState::Failed));
    kit.apply(commit).await?;

    let reader = cx.kit().await?;
    let states = [RunState::Completed, RunState::Failed, RunState::Running];
    for (session, state) in sessions.iter().zip(states) {
        let id = session.id.as_str();
        ensure_eq!(reader.texts(session).await?, [format!("{id} 1"), format!("{id} 2")], "entries of {id}");
        let seen = reader.find_run(session, "r").await?.map(|run| run.state);
        ensure_eq!(seen, Some(state), "the run of {id}");
        for stream in ["log", "other"] {
            let events = reader.events(reader.stream(session, stream)).await?;
            let last = u64::from(stream == "other");
            let seen: Vec<_> = events
                .iter()
                .map(|event| {
                    (event.number, event.kind.as_str().to_owned(), event.payload.as_str().to_owned())
                })
                .collect();
            let expected: Vec<_> = (1..=2)
                .map(|round| (round, id.to_owned(), format!("{{\"n\":{}}}", round * 10 + last)))
                .collect();
            ensure_eq!(seen, expected, "events of {stream} in {id}");
        }
        let record = reader.record("c", id).await?;
        let record =
            record.map(|record| (record.owner, record.version.count, record.payload.as_str().to_owned()));
        ensure_eq!(record, Some((Some(session.clone()), 2, "2".to_owned())), "the record of {id}");
    }
    Ok(())
}
