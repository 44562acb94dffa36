//! More than one commit can name, or than a field can hold: many notes and claims, long ids, titles and texts.

use std::sync::Arc;

use turnkeep_core::id::TurnId;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{RunState, TitleSource};
use turnkeep_core::{ErrorKind, RunId, WorkspaceId};
use turnkeep_memory::MemoryOptions;
use turnkeep_sessions::state::NoteStatus;
use turnkeep_sessions::testing::{Call, Fault, FaultStore, abandon};
use turnkeep_sessions::{
    ClaimState, Draft, Message, Run, RunError, Session, TurnStatus, WaitingFor, Workspace, session_lease,
};

use crate::runs::{json, no};
use crate::site::{Site, on_each};

on_each!(
    many_notes_are_consumed_in_one_call,
    notes_that_were_taken_are_answered_though_a_later_commit_fails,
    a_run_with_many_claims_ends_however_it_ends,
    a_refused_end_interrupts_no_claim,
    the_many_claims_of_a_dead_process_are_interrupted,
    many_claims_are_given_up_at_once,
    ids_may_be_as_long_as_ids_are,
    the_title_of_a_fork_fits_where_that_of_its_source_did,
    ten_thousand_entries_are_one_append_and_read_in_pages,
);

/// More than one commit changes.
const MANY: usize = 70;

async fn notes(session: &Session, count: usize) {
    for number in 0..count {
        session.guidance().post(format!("note {number}")).await.unwrap();
    }
}

async fn many_notes_are_consumed_in_one_call(site: Site) {
    let session = site.session().await;
    notes(&session, 300).await;
    let first = session.guidance().consume().by("agent").await.unwrap();
    assert_eq!(first.len(), 100, "as many as one asks for by default");
    let second = session.guidance().consume().limit(usize::MAX).await.unwrap();
    assert_eq!(second.len(), 200);
    let texts: Vec<_> = first.iter().chain(&second).map(|note| note.text.clone()).collect();
    let expected: Vec<_> = (0..300).map(|number| format!("note {number}")).collect();
    assert_eq!(texts, expected, "each once, the oldest first");
    assert!(session.guidance().consume().await.unwrap().is_empty());
    assert!(session.guidance().consume().limit(0).await.unwrap().is_empty());
}

async fn notes_that_were_taken_are_answered_though_a_later_commit_fails(site: Site) {
    let store = Arc::new(FaultStore::new(site.store().await));
    let ws = site.options().open(store.clone(), WorkspaceId::new("w").unwrap()).await.unwrap();
    let session = ws.sessions().create().await.unwrap();
    notes(&session, MANY).await;
    let mut commits = 0;
    store.when(move |call| {
        commits += usize::from(matches!(call, Call::Commit(_)));
        if commits > 1 { Fault::Before(ErrorKind::Full) } else { Fault::Pass }
    });
    let taken = session.guidance().consume().await.unwrap();
    let refused = session.guidance().consume().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full, "with nothing in hand the error is told");
    store.heal();
    assert!(!taken.is_empty() && taken.len() < MANY);
    let rest = session.guidance().consume().await.unwrap();
    assert_eq!(taken.len() + rest.len(), MANY, "none is lost, none comes twice");
    let pending = session.guidance().list().status(NoteStatus::Pending).await.unwrap().items;
    assert!(pending.is_empty());
}

async fn claims(run: &Run, what: &str, count: usize) {
    for number in 0..count {
        run.claim(format!("{what}/{number}")).await.unwrap().won().unwrap();
    }
}

async fn count(session: &Session, state: ClaimState) -> usize {
    session.claims().list().state(state).limit(1_000).await.unwrap().items.len()
}

async fn a_run_with_many_claims_ends_however_it_ends(site: Site) {
    let session = site.session().await;
    for (at, end) in ["completed", "failed", "waiting", "dropped"].into_iter().enumerate() {
        let run = session.begin_run(Message::user("q")).await.unwrap();
        claims(&run, end, MANY).await;
        match end {
            "completed" => run.complete([Message::assistant("a")]).await.unwrap(),
            "failed" => run.fail(RunError::host("stopped")).await.unwrap(),
            "waiting" => {
                run.wait_for(WaitingFor::Approval).await.unwrap();
                run.cancel().await.unwrap();
            }
            _ => {
                drop(run);
                session.workspace().settle().await;
            }
        }
        assert_eq!(session.runs().active().await.unwrap(), None, "{end}");
        assert_eq!(count(&session, ClaimState::Running).await, 0, "{end}");
        assert_eq!(count(&session, ClaimState::Interrupted).await, (at + 1) * MANY, "{end}");
    }
}

async fn a_refused_end_interrupts_no_claim(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    claims(&run, "tool", MANY).await;
    let label = Draft::from(Message::assistant("a")).key(format!("turn/{}/start", run.turn()));
    assert_eq!(run.complete([label]).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(count(&session, ClaimState::Running).await, MANY);
    run.complete([Message::assistant("a")]).await.unwrap();
    assert_eq!(count(&session, ClaimState::Running).await, 0);
}

async fn the_many_claims_of_a_dead_process_are_interrupted(site: Site) {
    let (ids, ws) = {
        let ws = site.workspace().await;
        let mut ids = Vec::new();
        for name in ["one", "two"] {
            let session = ws.sessions().create().await.unwrap();
            let run = session.begin_run(Message::user("q")).await.unwrap();
            claims(&run, name, MANY).await;
            ids.push(session.id().clone());
            abandon(run);
        }
        ws.close().await.unwrap();
        (ids, site.workspace().await)
    };
    let report = ws.recovered();
    assert_eq!((report.interrupted.len(), report.claims.len()), (2, 2 * MANY));
    assert!(report.failed.is_empty());
    for id in ids {
        let session = ws.sessions().open(&id).await.unwrap();
        assert_eq!(count(&session, ClaimState::Interrupted).await, MANY);
        let state = session.runs().list().await.unwrap().items[0].state;
        assert_eq!(state, RunState::Interrupted);
    }
    assert!(ws.recover().await.unwrap().is_empty());
}

async fn many_claims_are_given_up_at_once(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    let names = [session_lease(session.session_ref())];
    let lease = ws.leases().try_acquire(names, turnkeep_core::model::LeasePurpose::Mutation).await.unwrap();
    session.write_under(&lease).unwrap();
    for number in 0..MANY {
        session.claims().claim(format!("{number}")).await.unwrap().won().unwrap();
    }
    assert_eq!(session.claims().abandon_interrupted(None).await.unwrap(), 0, "they are at work");
    lease.release().await.unwrap();
    // Nobody has recovered anything: that their holder is gone is enough.
    assert_eq!(session.claims().abandon_interrupted(None).await.unwrap() as usize, MANY);
    assert_eq!(count(&session, ClaimState::Abandoned).await, MANY);
}

async fn ids_may_be_as_long_as_ids_are(site: Site) {
    let session = site.session().await;
    let long = RunId::new("r".repeat(256)).unwrap();
    let run = session.begin_run(Message::user("q")).id(long.clone()).await.unwrap();
    run.stream("half an ans").await.unwrap();
    run.fail(RunError::provider("timeout")).await.unwrap();
    assert_eq!(session.runs().get(&long).await.unwrap().state, RunState::Failed);
    let turn = session.turns(10, None).await.unwrap().items.remove(0);
    assert_eq!((turn.run, turn.end.unwrap().status), (Some(long), TurnStatus::Failed));
    let fits = TurnId::new("t".repeat(245)).unwrap();
    let run = session.begin_run(Message::user("q")).turn(fits.clone()).await.unwrap();
    run.stream("half an ans").await.unwrap();
    run.cancel().await.unwrap();
    let long = TurnId::new("t".repeat(246)).unwrap();
    let refused = session.begin_run(Message::user("q")).turn(long.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert!(refused.to_string().contains("turn id has 246 bytes"), "{refused}");
    assert_eq!(session.start_turn(&long).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(session.turns(10, None).await.unwrap().items.len(), 2);
}

async fn the_title_of_a_fork_fits_where_that_of_its_source_did(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
    let long = "é".repeat(2_048);
    session.rename(long.clone()).await.unwrap();
    assert_eq!(session.rename(format!("{long}x")).await.unwrap_err().kind(), ErrorKind::TooLarge);
    let child = session.fork("f").await.unwrap().session.info().await.unwrap();
    let title = child.profile.title.unwrap();
    assert_eq!(title.text, format!("{} (fork)", "é".repeat(2_044)), "whole letters only");
    assert_eq!(title.source, TitleSource::Auto);
}

async fn ten_thousand_entries_are_one_append_and_read_in_pages(site: Site) {
    let session = site.session().await;
    let made = session.append((0..10_000).map(|at| Message::user(format!("{at}")))).await.unwrap();
    assert_eq!((made.numbers.len(), made.numbers[9_999]), (10_000, no(10_000)));
    let mut cursor = None;
    let mut seen = 0;
    loop {
        let mut list = session.messages().limit(3_000);
        if let Some(next) = cursor.take() {
            list = list.cursor(next);
        }
        let page = list.await.unwrap();
        for message in &page.items {
            assert_eq!(message.message.text(), seen.to_string());
            seen += 1;
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, 10_000);
    assert_eq!(session.messages().latest(1).await.unwrap().items[0].message.text(), "9999");
    assert_eq!(session.replay().await.unwrap().messages.len(), 10_000);
    assert_eq!(session.append([Message::user("one more")]).await.unwrap().numbers, [no(10_001)]);
}

/// Where payloads are small, what streamed must not keep its run from being closed.
#[tokio::test]
async fn a_run_that_streamed_more_than_a_payload_holds_can_be_closed() {
    let limits = Limits::default().with_payload_bytes(64 * 1024);
    let store = Arc::new(MemoryOptions::new().limits(limits).build());
    let ws = Workspace::open(store, WorkspaceId::new("w").unwrap()).await.unwrap();
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("q")).await.unwrap();
    for _ in 0..20 {
        // Each takes six bytes in JSON.
        run.stream(&"\u{1}".repeat(10_000)).await.unwrap();
    }
    run.fail(RunError::provider("timeout")).await.unwrap();
    let shown = session.history().await.unwrap().items;
    assert!(shown[1].is_partial());
    assert_eq!(shown[1].entry.text.as_ref().unwrap().len(), 8 * 1024, "the beginning is kept");
    let run = session.begin_run(Message::user("again")).request(json("{}")).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
}
