//! What people write to a run at work: guidance, approvals, requests to cancel.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use turnkeep_core::{ErrorKind, Order, Payload, RunId, WorkspaceId};
use turnkeep_sessions::Message;
use turnkeep_sessions::blocking::Wait;
use turnkeep_sessions::state::NoteStatus;
use turnkeep_sessions::testing::{Call, Fault, FaultStore};

use crate::site::{Site, on_each};

on_each!(
    guidance_is_written_while_a_run_executes_and_consumed_by_it,
    guidance_is_listed_by_status_and_kept_when_it_was_consumed,
    each_note_goes_to_exactly_one_of_many_consumers,
    two_who_consume_at_the_same_moment_share_nothing,
    notes_are_consumed_by_id_and_only_once,
    a_note_for_one_run_goes_to_no_other,
    the_inboxes_of_a_session_and_of_others_are_apart,
    a_note_with_a_used_id_is_refused,
);

fn texts(notes: &[turnkeep_sessions::state::Note]) -> Vec<&str> {
    notes.iter().map(|note| note.text.as_str()).collect()
}

async fn guidance_is_written_while_a_run_executes_and_consumed_by_it(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("work")).await.unwrap();
    let person = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let data = Payload::new(r#"{"objective":"v2"}"#).unwrap();
    person.guidance().post("use tabs").from("ann").data(data.clone()).await.unwrap();
    person.guidance().post("be brief").await.unwrap();
    let taken = session.guidance().consume().by("agent").await.unwrap();
    assert_eq!(texts(&taken), ["use tabs", "be brief"], "the oldest first");
    assert_eq!((taken[0].from.as_deref(), taken[0].data.as_ref()), (Some("ann"), Some(&data)));
    assert_eq!((taken[0].status, taken[0].consumed_by.as_deref()), (NoteStatus::Consumed, Some("agent")));
    assert!(session.guidance().consume().await.unwrap().is_empty());
    run.append([Message::assistant("done")]).await.unwrap();
    run.complete([Message::assistant("done")]).await.unwrap();
}

async fn guidance_is_listed_by_status_and_kept_when_it_was_consumed(site: Site) {
    let session = site.session().await;
    for number in 0..6 {
        session.guidance().post(format!("note {number}")).await.unwrap();
    }
    session.guidance().consume().limit(2).await.unwrap();
    let list = |status| session.guidance().list().status(status);
    let pending = list(NoteStatus::Pending).await.unwrap().items;
    assert_eq!(texts(&pending), ["note 2", "note 3", "note 4", "note 5"]);
    let consumed = list(NoteStatus::Consumed).await.unwrap().items;
    assert_eq!(texts(&consumed), ["note 0", "note 1"]);
    assert!(consumed.iter().all(|note| note.consumed_at.is_some()));
    let newest = session.guidance().list().order(Order::Descending).limit(1).await.unwrap().items;
    assert_eq!(texts(&newest), ["note 5"]);
    let first = session.guidance().list().limit(4).await.unwrap();
    let rest = session.guidance().list().limit(4).cursor(first.next.unwrap()).await.unwrap();
    assert_eq!((first.items.len(), rest.items.len()), (4, 2));
}

async fn each_note_goes_to_exactly_one_of_many_consumers(site: Site) {
    const NOTES: usize = 60;
    let session = site.session().await;
    for number in 0..NOTES {
        session.guidance().post(format!("{number}")).await.unwrap();
    }
    let mut consumers = Vec::new();
    for consumer in 0..5 {
        let ws = site.workspace().await;
        let id = session.id().clone();
        consumers.push(tokio::spawn(async move {
            let session = ws.sessions().open(&id).await.unwrap();
            let mut got = Vec::new();
            loop {
                let name = format!("consumer {consumer}");
                let notes = session.guidance().consume().limit(3).by(name).await.unwrap();
                if notes.is_empty() {
                    return got;
                }
                got.extend(notes.into_iter().map(|note| note.text));
            }
        }));
    }
    let mut owners: HashMap<String, usize> = HashMap::new();
    for (consumer, got) in consumers.into_iter().enumerate() {
        for text in got.await.unwrap() {
            assert_eq!(owners.insert(text.clone(), consumer), None, "note {text} was consumed twice");
        }
    }
    assert_eq!(owners.len(), NOTES, "none was lost");
    let kept = session.guidance().list().status(NoteStatus::Consumed).await.unwrap().items;
    for note in kept {
        assert_eq!(note.consumed_by, Some(format!("consumer {}", owners[&note.text])), "the note says who");
    }
}

async fn two_who_consume_at_the_same_moment_share_nothing(site: Site) {
    let store = Arc::new(FaultStore::new(site.store().await));
    let ws = site.options().open(store.clone(), WorkspaceId::new("w").unwrap()).await.unwrap();
    let session = ws.sessions().create().await.unwrap();
    for text in ["first", "second"] {
        session.guidance().post(text).await.unwrap();
    }
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let theirs = Arc::new(Mutex::new(Vec::new()));
    // After one has looked and before it writes, another one takes the first note.
    let (taken, mut came) = (Arc::clone(&theirs), false);
    store.when(move |call| {
        if matches!(call, Call::Commit(_)) && !std::mem::replace(&mut came, true) {
            taken.lock().unwrap().extend(other.guidance().consume().limit(1).wait().unwrap());
        }
        Fault::Pass
    });
    let mine = session.guidance().consume().await.unwrap();
    store.heal();
    assert_eq!(texts(&theirs.lock().unwrap()), ["first"]);
    assert_eq!(texts(&mine), ["second"]);
}

async fn notes_are_consumed_by_id_and_only_once(site: Site) {
    let session = site.session().await;
    for id in ["a", "b", "c"] {
        session.approvals().post("yes").id(id).await.unwrap();
    }
    let taken = session.approvals().consume().ids(["c", "a"]).await.unwrap();
    assert_eq!(taken.iter().map(|note| note.id.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    let rest = session.approvals().consume().ids(["a", "b", "unknown"]).await.unwrap();
    assert_eq!(rest.iter().map(|note| note.id.as_str()).collect::<Vec<_>>(), ["b"]);
}

async fn a_note_for_one_run_goes_to_no_other(site: Site) {
    let session = site.session().await;
    let (first, second) = (RunId::new("r1").unwrap(), RunId::new("r2").unwrap());
    session.cancel_requests().post("stop").run(first.clone()).await.unwrap();
    session.cancel_requests().post("whoever").await.unwrap();
    let taken = session.cancel_requests().consume().run(second).await.unwrap();
    assert_eq!(texts(&taken), ["whoever"]);
    assert!(session.cancel_requests().consume().await.unwrap().is_empty());
    let taken = session.cancel_requests().consume().run(first.clone()).await.unwrap();
    assert_eq!((texts(&taken), taken[0].run.as_ref()), (vec!["stop"], Some(&first)));
}

async fn the_inboxes_of_a_session_and_of_others_are_apart(site: Site) {
    let ws = site.workspace().await;
    let (one, two) = (ws.sessions().create().await.unwrap(), ws.sessions().create().await.unwrap());
    for session in [&one, &two] {
        session.guidance().post("the same id").id("g").await.unwrap();
        session.approvals().post("the same id").id("g").await.unwrap();
    }
    assert_eq!(one.guidance().consume().await.unwrap().len(), 1);
    assert_eq!(one.approvals().list().status(NoteStatus::Pending).await.unwrap().items.len(), 1);
    assert_eq!(two.guidance().list().status(NoteStatus::Pending).await.unwrap().items.len(), 1);
    assert!(one.cancel_requests().list().await.unwrap().items.is_empty());
    let lazy = ws.sessions().create().lazy().await.unwrap();
    assert!(lazy.guidance().consume().await.unwrap().is_empty());
    lazy.guidance().post("first words").await.unwrap();
    assert!(lazy.is_stored());
}

async fn a_note_with_a_used_id_is_refused(site: Site) {
    let session = site.session().await;
    session.guidance().post("first").id("g").await.unwrap();
    session.guidance().consume().await.unwrap();
    let refused = session.guidance().post("second").id("g").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    let kept = session.guidance().list().await.unwrap().items;
    assert_eq!((texts(&kept), kept[0].status), (vec!["first"], NoteStatus::Consumed));
    assert_eq!(session.guidance().post("x").id("").await.unwrap_err().kind(), ErrorKind::Invalid);
}
