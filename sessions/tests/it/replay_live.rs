//! Replay of what a host does in any order: turns that end in every way, branches, compactions.

use proptest::prelude::*;
use turnkeep_core::EntryNo;
use turnkeep_core::model::RunState;
use turnkeep_sessions::blocking::block_on;
use turnkeep_sessions::message::{Message, ToolCall, ToolResult};
use turnkeep_sessions::replay::provider_valid;
use turnkeep_sessions::{Compaction, RunError, Session};

use crate::site::Site;

#[derive(Clone, Copy, Debug)]
enum End {
    Complete,
    /// With a call that nobody answers.
    OpenCall,
    /// With an answer that says nothing.
    Empty,
    Fail,
    Cancel,
    Reject,
    Drop,
}

#[derive(Clone, Debug)]
enum Step {
    Say,
    Turn { rounds: u8, answered: bool, streamed: bool, end: End },
    MoveLeaf(prop::sample::Index),
    Compact(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop::sample::select(vec![
        End::Complete,
        End::Complete,
        End::OpenCall,
        End::Empty,
        End::Fail,
        End::Cancel,
        End::Reject,
        End::Drop,
    ]);
    prop_oneof![
        1 => Just(Step::Say),
        6 => (0_u8..3, prop::bool::weighted(0.8), any::<bool>(), end)
            .prop_map(|(rounds, answered, streamed, end)| Step::Turn { rounds, answered, streamed, end }),
        2 => any::<prop::sample::Index>().prop_map(Step::MoveLeaf),
        1 => any::<prop::sample::Index>().prop_map(Step::Compact),
    ]
}

fn call(number: usize) -> ToolCall {
    ToolCall::new(format!("call_{number}"), "look", turnkeep_core::Payload::empty())
}

async fn turn(session: &Session, at: usize, rounds: u8, answered: bool, streamed: bool, end: End) {
    let run = session.begin_run(Message::user(format!("question {at}"))).await.unwrap();
    for round in 0..usize::from(rounds) {
        // Ids come again in later turns, as those of some providers do.
        run.append([Message::assistant_with_calls("", [call(round)])]).await.unwrap();
        if answered {
            run.append([Message::tool_results([ToolResult::new(format!("call_{round}"), "seen", false)])])
                .await
                .unwrap();
        }
    }
    if streamed {
        run.stream("so far").await.unwrap();
    }
    match end {
        End::Complete => run.complete([Message::assistant(format!("answer {at}"))]).await.unwrap(),
        End::OpenCall => run.complete([Message::assistant_with_calls("one more", [call(9)])]).await.unwrap(),
        End::Empty => run.complete([Message::assistant("")]).await.unwrap(),
        End::Fail => run.fail(RunError::provider("timeout")).await.unwrap(),
        End::Cancel => run.cancel().await.unwrap(),
        End::Reject => run.reject(RunError::new("guardrail", "no")).await.unwrap(),
        End::Drop => drop(run),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn case_20_whatever_a_host_did_the_next_turn_is_shown_a_valid_history(
        steps in prop::collection::vec(step(), 1..25),
    ) {
        block_on(async {
            let session = Site::memory().session().await;
            for (at, step) in steps.into_iter().enumerate() {
                let head = session.info().await.unwrap().head.map_or(1, EntryNo::get);
                let any = |index: prop::sample::Index| {
                    EntryNo::new(u32::try_from(index.index(head as usize)).unwrap() + 1).unwrap()
                };
                match step {
                    Step::Say => drop(session.append([Message::user("by the way")]).await.unwrap()),
                    Step::Turn { rounds, answered, streamed, end } => {
                        turn(&session, at, rounds, answered, streamed, end).await;
                    }
                    // What lies beside the path is no place to go on from.
                    Step::MoveLeaf(to) => drop(session.move_leaf(Some(any(to))).await),
                    // There is nothing to keep in an empty session.
                    Step::Compact(_) if session.leaf().is_none() => {}
                    Step::Compact(kept) => {
                        drop(session.append([Compaction::new("so far", any(kept))]).await.unwrap());
                    }
                }
                session.workspace().settle().await;
                session.reload().await.unwrap();
                let replay = session.replay().await.unwrap();
                if let Err(error) = provider_valid(&replay.to_messages()) {
                    prop_assert!(false, "{error}: {:?}", replay.to_messages());
                }
                // Nothing of a run that failed, was cancelled or was left behind; a rejected one is completed.
                for number in replay.messages.iter().filter_map(|shown| shown.entry) {
                    if let Some(run) = session.entry(number).await.unwrap().run {
                        let state = session.runs().get(&run).await.unwrap().state;
                        prop_assert_eq!(state, RunState::Completed, "{} is shown", number);
                    }
                }
            }
            // Whatever it ended with, it goes on.
            let run = session.begin_run(Message::user("and now?")).await.unwrap();
            let shown = session.replay().await.unwrap().to_messages();
            prop_assert!(provider_valid(&shown).is_ok());
            prop_assert_eq!(shown.last().unwrap().text(), "and now?");
            run.complete([Message::assistant("done")]).await.unwrap();
            Ok(())
        })?;
    }
}
