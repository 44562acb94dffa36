//! The remote lineage of a session.

use turnkeep_core::ErrorKind;
use turnkeep_sessions::Message;
use turnkeep_sessions::state::{LineageState, REPLAY_MODE};

use crate::site::{Site, on_each};

on_each!(
    a_missing_lineage_is_the_default_and_it_moves_by_compare_and_swap,
    of_many_turns_that_advance_one_state_one_wins,
    only_who_executes_the_run_moves_the_lineage,
);

async fn a_missing_lineage_is_the_default_and_it_moves_by_compare_and_swap(site: Site) {
    let session = site.session().await;
    let none = session.lineage().get().await.unwrap();
    assert_eq!(none, LineageState::default());
    assert_eq!((none.mode.as_str(), none.version), (REPLAY_MODE, None));
    let first = session
        .lineage()
        .advance(LineageState {
            mode: "previous_response".into(),
            previous_response: Some("r1".into()),
            conversation: Some("c".into()),
            provider: Some("acme".into()),
            api: Some("responses".into()),
            model: Some("m".into()),
            ..none.clone()
        })
        .await
        .unwrap();
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    assert_eq!(other.lineage().get().await.unwrap(), first, "what was answered is what is stored");
    let next = |known: &LineageState, id: &str| LineageState {
        previous_response: Some(id.to_owned()),
        ..known.clone()
    };
    let second = other.lineage().advance(next(&first, "r2")).await.unwrap();
    assert_eq!(second.conversation.as_deref(), Some("c"));
    // Whoever read an older state, or none, is refused.
    for stale in [next(&first, "r3"), next(&none, "r4")] {
        let refused = session.lineage().advance(stale).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::VersionConflict);
    }
    assert_eq!(session.lineage().get().await.unwrap(), second);
}

async fn of_many_turns_that_advance_one_state_one_wins(site: Site) {
    let session = site.session().await;
    for round in 0..5 {
        let known = session.lineage().get().await.unwrap();
        let mut turns = Vec::new();
        for turn in 0..5 {
            let (ws, known, id) = (site.workspace().await, known.clone(), session.id().clone());
            turns.push(tokio::spawn(async move {
                let session = ws.sessions().open(&id).await.unwrap();
                let next = LineageState { previous_response: Some(format!("{round}/{turn}")), ..known };
                session.lineage().advance(next).await
            }));
        }
        let mut won = Vec::new();
        for turn in turns {
            match turn.await.unwrap() {
                Ok(state) => won.push(state),
                Err(error) => assert_eq!(error.kind(), ErrorKind::VersionConflict, "{error}"),
            }
        }
        assert_eq!(won.len(), 1, "two turns never go on from one response");
        assert_eq!(session.lineage().get().await.unwrap(), won[0]);
    }
}

async fn only_who_executes_the_run_moves_the_lineage(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("work")).await.unwrap();
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let refused = other.lineage().advance(LineageState::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LeaseHeld);
    let mine = session.lineage().advance(LineageState::default()).await.unwrap();
    run.complete([Message::assistant("done")]).await.unwrap();
    other.lineage().advance(mine).await.unwrap();
}
