//! Bindings of channel identities to sessions, and the lock of such an identity.

use std::collections::HashSet;
use std::time::Duration;

use turnkeep_core::commit::SessionPatch;
use turnkeep_core::model::{Channel, LeasePurpose};
use turnkeep_core::{ErrorKind, SessionId};
use turnkeep_sessions::{Message, Session, channel_lease};

use crate::site::{Site, on_each};

on_each!(
    a_bound_session_is_made_in_one_commit_and_found_by_its_channel,
    a_channel_has_one_session_and_the_refusal_names_it,
    a_session_has_one_channel,
    a_session_of_another_workspace_is_refused,
    of_eight_who_bind_a_channel_at_once_one_wins_and_the_others_are_told_who,
    a_session_bound_to_two_channels_at_once_gets_one,
    a_transfer_moves_the_channel_in_one_commit_and_only_from_whom_it_names,
    of_many_transfers_from_one_session_one_lands,
    a_rotation_makes_the_new_session_and_clears_the_old_one_in_one_commit,
    a_repeated_rotation_makes_one_session,
    unbinding_keeps_the_history,
    the_channel_of_a_bound_session_changes_with_its_binding_only,
    a_deleted_session_frees_its_channel,
    bindings_are_listed_in_pages,
    the_lock_of_a_channel_has_one_holder_and_leaves_other_channels_free,
);

fn room(id: &str) -> Channel {
    Channel { kind: "room".into(), id: id.into() }
}

async fn channel_of(session: &Session) -> Option<Channel> {
    session.info().await.unwrap().profile.channel
}

/// The value that an error gives for a name.
fn named(error: &turnkeep_core::Error, name: &str) -> Option<String> {
    error.context().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

async fn a_bound_session_is_made_in_one_commit_and_found_by_its_channel(site: Site) {
    let ws = site.workspace().await;
    // Longer than an id may be, and with a character that an id may not have.
    let channel = Channel { kind: "mail/thread".into(), id: format!("a\tb{}", "x".repeat(400)) };
    assert_eq!(ws.bindings().of_channel(&channel).await.unwrap(), None);
    let session = ws.bindings().create_bound(&channel, ws.sessions().create().title("mail")).await.unwrap();
    let info = session.info().await.unwrap();
    assert_eq!(info.revision, 1, "session and binding are one commit");
    assert_eq!(info.profile.channel.as_ref(), Some(&channel));
    let other = site.workspace().await;
    let binding = other.bindings().of_channel(&channel).await.unwrap().unwrap();
    assert_eq!((&binding.session, &binding.channel), (session.session_ref(), &channel));
    assert_eq!(other.bindings().of_session(session.id()).await.unwrap(), Some(binding));
    // Where kind ends and id begins is a part of the identity.
    let shifted = Channel { kind: "mail".into(), id: format!("/thread{}", channel.id) };
    assert_eq!(other.bindings().of_channel(&shifted).await.unwrap(), None);
    // A lazy session is stored with its binding.
    let lazy = ws.sessions().create().lazy().await.unwrap();
    ws.bindings().bind(&room("lazy"), &lazy).await.unwrap();
    assert_eq!(lazy.info().await.unwrap().revision, 1);
}

async fn a_channel_has_one_session_and_the_refusal_names_it(site: Site) {
    let ws = site.workspace().await;
    let first = ws.bindings().create_bound(&room("7"), ws.sessions().create()).await.unwrap();
    let second = ws.sessions().create().await.unwrap();
    let refused = site.workspace().await.bindings().bind(&room("7"), &second).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(named(&refused, "session"), Some(first.id().to_string()));
    assert_eq!(channel_of(&second).await, None, "a refusal changes nothing");
    let create = ws.sessions().create().id(SessionId::new("never").unwrap());
    let refused = ws.bindings().create_bound(&room("7"), create).await.unwrap_err();
    assert_eq!(named(&refused, "session"), Some(first.id().to_string()));
    let made = ws.sessions().open(&SessionId::new("never").unwrap()).await.unwrap_err();
    assert_eq!(made.kind(), ErrorKind::NotFound, "no session is made without its binding");
    let again = ws.bindings().bind(&room("7"), &first).await.unwrap();
    assert_eq!(again.session, *first.session_ref(), "doing it again is fine");
    // Another workspace has channels of its own.
    let other = site.workspace_named("other").await;
    other.bindings().create_bound(&room("7"), other.sessions().create()).await.unwrap();
}

async fn a_session_has_one_channel(site: Site) {
    let ws = site.workspace().await;
    let session = ws.bindings().create_bound(&room("7"), ws.sessions().create()).await.unwrap();
    let refused = ws.bindings().bind(&room("8"), &session).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(named(&refused, "bound"), Some(session.id().to_string()));
    assert_eq!(ws.bindings().of_channel(&room("8")).await.unwrap(), None);
    assert_eq!(channel_of(&session).await, Some(room("7")));
}

async fn a_session_of_another_workspace_is_refused(site: Site) {
    let (ours, theirs) = (site.workspace().await, site.workspace_named("theirs").await);
    let session = ours.sessions().create().await.unwrap();
    let room = room("7");
    ours.bindings().bind(&room, &session).await.unwrap();
    let stranger = theirs.sessions().create().await.unwrap();
    let lazy = theirs.sessions().create().lazy().await.unwrap();
    let other = self::room("8");
    for refused in [
        ours.bindings().bind(&other, &stranger).await.map(drop),
        ours.bindings().bind(&other, &lazy).await.map(drop),
        ours.bindings().create_bound(&other, theirs.sessions().create()).await.map(drop),
        ours.bindings().transfer(&room, session.id(), &stranger).await.map(drop),
        ours.bindings().rotate(&room, session.id(), theirs.sessions().create()).await.map(drop),
    ] {
        assert!(matches!(refused.unwrap_err().kind(), ErrorKind::Invalid | ErrorKind::NotFound));
    }
    assert_eq!(theirs.bindings().list(10, None).await.unwrap().items, []);
    assert_eq!(theirs.sessions().list().count().await.unwrap(), 1, "nothing was made");
    assert_eq!(ours.bindings().list(10, None).await.unwrap().items.len(), 1);
}

async fn of_eight_who_bind_a_channel_at_once_one_wins_and_the_others_are_told_who(site: Site) {
    for round in 0..5 {
        let channel = room(&format!("busy {round}"));
        let mut tries = Vec::new();
        for _ in 0..8 {
            let (ws, channel) = (site.workspace().await, channel.clone());
            tries.push(tokio::spawn(async move {
                let made = ws.bindings().create_bound(&channel, ws.sessions().create()).await;
                made.map(|session| session.id().clone())
            }));
        }
        let (mut winners, mut told) = (Vec::new(), Vec::new());
        for one in tries {
            match one.await.unwrap() {
                Ok(id) => winners.push(id.to_string()),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
                    told.push(named(&error, "session").unwrap());
                }
            }
        }
        assert_eq!((winners.len(), told.len()), (1, 7));
        assert!(told.iter().all(|who| *who == winners[0]), "{told:?} but {winners:?} won");
    }
    let ws = site.workspace().await;
    assert_eq!(ws.sessions().list().await.unwrap().items.len(), 5, "the losers made no session");
}

async fn a_session_bound_to_two_channels_at_once_gets_one(site: Site) {
    let ws = site.workspace().await;
    for round in 0..10 {
        let session = ws.sessions().create().await.unwrap();
        let mut tries = Vec::new();
        for way in 0..4 {
            let other = site.workspace().await;
            let id = session.id().clone();
            tries.push(tokio::spawn(async move {
                let session = other.sessions().open(&id).await.unwrap();
                other.bindings().bind(&room(&format!("{round}/{way}")), &session).await
            }));
        }
        let mut bound = Vec::new();
        for one in tries {
            match one.await.unwrap() {
                Ok(binding) => bound.push(binding.channel),
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            }
        }
        assert_eq!(bound.len(), 1);
        assert_eq!(channel_of(&session).await.as_ref(), bound.first());
        let found = ws.bindings().of_session(session.id()).await.unwrap().unwrap();
        assert_eq!(Some(&found.channel), bound.first());
    }
    assert_eq!(ws.bindings().list(100, None).await.unwrap().items.len(), 10, "no channel is held by a loser");
}

async fn a_transfer_moves_the_channel_in_one_commit_and_only_from_whom_it_names(site: Site) {
    let ws = site.workspace().await;
    let from = ws.bindings().create_bound(&room("7"), ws.sessions().create()).await.unwrap();
    let to = ws.sessions().create().await.unwrap();
    let bystander = ws.sessions().create().await.unwrap();
    let before = (from.info().await.unwrap().revision, to.info().await.unwrap().revision);
    let moved = ws.bindings().transfer(&room("7"), from.id(), &to).await.unwrap();
    assert_eq!(moved.session, *to.session_ref());
    let after = (from.info().await.unwrap().revision, to.info().await.unwrap().revision);
    assert_eq!(after, (before.0 + 1, before.1 + 1));
    assert_eq!(channel_of(&from).await, None);
    assert_eq!(channel_of(&to).await, Some(room("7")));
    assert_eq!(ws.bindings().of_session(from.id()).await.unwrap(), None);
    // Whoever still believes that `from` has it is refused.
    let stale = ws.bindings().transfer(&room("7"), from.id(), &bystander).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::AlreadyExists);
    assert_eq!(named(&stale, "session"), Some(to.id().to_string()));
    assert_eq!(channel_of(&bystander).await, None);
    // To one that has a channel, it cannot be moved.
    ws.bindings().bind(&room("8"), &from).await.unwrap();
    let full = ws.bindings().transfer(&room("7"), to.id(), &from).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::AlreadyExists);
    let unbound = ws.bindings().transfer(&room("9"), from.id(), &bystander).await.unwrap_err();
    assert_eq!(unbound.kind(), ErrorKind::NotFound);
    let same = ws.bindings().transfer(&room("7"), to.id(), &to).await.unwrap_err();
    assert_eq!(same.kind(), ErrorKind::Invalid);
}

async fn of_many_transfers_from_one_session_one_lands(site: Site) {
    let ws = site.workspace().await;
    let from = ws.bindings().create_bound(&room("7"), ws.sessions().create()).await.unwrap();
    let mut tries = Vec::new();
    for _ in 0..6 {
        let (other, from) = (site.workspace().await, from.id().clone());
        tries.push(tokio::spawn(async move {
            let to = other.sessions().create().await.unwrap();
            let moved = other.bindings().transfer(&room("7"), &from, &to).await;
            moved.map(|binding| binding.session.id)
        }));
    }
    let mut landed = Vec::new();
    for one in tries {
        match one.await.unwrap() {
            Ok(id) => landed.push(id),
            Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
        }
    }
    assert_eq!(landed.len(), 1);
    let found = ws.bindings().of_channel(&room("7")).await.unwrap().unwrap();
    assert_eq!(found.session.id, landed[0]);
    let mut with_channel = 0;
    for row in ws.sessions().list().await.unwrap().items {
        with_channel += usize::from(row.profile.channel.is_some());
    }
    assert_eq!(with_channel, 1, "profiles agree with the binding");
}

async fn a_rotation_makes_the_new_session_and_clears_the_old_one_in_one_commit(site: Site) {
    let ws = site.workspace().await;
    let old = ws.bindings().create_bound(&room("7"), ws.sessions().create()).await.unwrap();
    old.append([Message::user("hello")]).await.unwrap();
    let revision = old.info().await.unwrap().revision;
    let create = ws.sessions().create().title("second");
    let new = ws.bindings().rotate(&room("7"), old.id(), create).await.unwrap();
    let info = new.info().await.unwrap();
    assert_eq!((info.revision, info.profile.channel), (1, Some(room("7"))));
    assert_eq!(old.info().await.unwrap().revision, revision + 1);
    assert_eq!(channel_of(&old).await, None);
    assert_eq!(old.messages().await.unwrap().items.len(), 1, "it keeps its history");
    assert_eq!(ws.bindings().of_channel(&room("7")).await.unwrap().unwrap().session, *new.session_ref());
    // A second one that still believes in the old session makes nothing.
    let count = ws.sessions().list().count().await.unwrap();
    let stale = ws.bindings().rotate(&room("7"), old.id(), ws.sessions().create()).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::AlreadyExists);
    assert_eq!(named(&stale, "session"), Some(new.id().to_string()));
    assert_eq!(ws.sessions().list().count().await.unwrap(), count);
    // The old one may be bound again.
    ws.bindings().bind(&room("8"), &old).await.unwrap();
}

async fn a_repeated_rotation_makes_one_session(site: Site) {
    let ws = site.workspace().await;
    let old = ws.bindings().create_bound(&room("7"), ws.sessions().create()).await.unwrap();
    let create = || ws.sessions().create().title("second").request_id("rotate-1");
    let first = ws.bindings().rotate(&room("7"), old.id(), create()).await.unwrap();
    let again = ws.bindings().rotate(&room("7"), old.id(), create()).await.unwrap();
    assert_eq!(first.session_ref(), again.session_ref());
    assert_eq!(ws.sessions().list().count().await.unwrap(), 2);
    let other = ws.sessions().create().title("third").request_id("rotate-1");
    let conflict = ws.bindings().rotate(&room("7"), old.id(), other).await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::RequestConflict);
    let create = || ws.sessions().create().request_id("create-1");
    let made = ws.bindings().create_bound(&room("8"), create()).await.unwrap();
    let again = ws.bindings().create_bound(&room("8"), create()).await.unwrap();
    assert_eq!(made.session_ref(), again.session_ref());
}

async fn unbinding_keeps_the_history(site: Site) {
    let ws = site.workspace().await;
    let session = ws.bindings().create_bound(&room("7"), ws.sessions().create()).await.unwrap();
    session.append([Message::user("hello")]).await.unwrap();
    assert_eq!(ws.bindings().unbind(&session).await.unwrap(), Some(room("7")));
    assert_eq!(channel_of(&session).await, None);
    assert_eq!(ws.bindings().of_channel(&room("7")).await.unwrap(), None);
    assert_eq!(session.messages().await.unwrap().items.len(), 1);
    assert_eq!(ws.bindings().unbind(&session).await.unwrap(), None, "there is nothing left to unbind");
    // Both are free again.
    ws.bindings().bind(&room("8"), &session).await.unwrap();
    ws.bindings().create_bound(&room("7"), ws.sessions().create()).await.unwrap();
}

async fn the_channel_of_a_bound_session_changes_with_its_binding_only(site: Site) {
    let ws = site.workspace().await;
    let session = ws.bindings().create_bound(&room("7"), ws.sessions().create()).await.unwrap();
    let patch = |channel| SessionPatch { channel: Some(channel), ..SessionPatch::default() };
    for channel in [None, Some(room("8"))] {
        let refused = session.patch(patch(channel)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
    assert_eq!(channel_of(&session).await, Some(room("7")));
    session.rename("all else may change").await.unwrap();
    ws.bindings().unbind(&session).await.unwrap();
    session.patch(patch(Some(room("9")))).await.unwrap();
    assert_eq!(ws.bindings().of_channel(&room("9")).await.unwrap(), None, "a text binds nothing");
}

async fn a_deleted_session_frees_its_channel(site: Site) {
    let ws = site.workspace().await;
    let id = SessionId::new("s").unwrap();
    let create = || ws.sessions().create().id(id.clone());
    ws.bindings().create_bound(&room("7"), create()).await.unwrap();
    ws.sessions().delete(id.clone()).await.unwrap();
    assert_eq!(ws.bindings().of_channel(&room("7")).await.unwrap(), None);
    let second = ws.bindings().create_bound(&room("7"), create()).await.unwrap();
    let found = ws.bindings().of_channel(&room("7")).await.unwrap().unwrap();
    assert_eq!(found.session, *second.session_ref());
}

async fn bindings_are_listed_in_pages(site: Site) {
    let ws = site.workspace().await;
    for number in 0..5 {
        ws.bindings().create_bound(&room(&number.to_string()), ws.sessions().create()).await.unwrap();
    }
    let mut seen = HashSet::new();
    let mut cursor = None;
    loop {
        let page = ws.bindings().list(2, cursor).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.into_iter().map(|binding| binding.channel.id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 5);
}

async fn the_lock_of_a_channel_has_one_holder_and_leaves_other_channels_free(site: Site) {
    let (ours, theirs) = (site.workspace().await, site.workspace().await);
    let lock = |id: &str| [channel_lease(&room(id)).unwrap()];
    let held = ours.leases().try_acquire(lock("7"), LeasePurpose::Admission).await.unwrap();
    let busy = theirs.leases().try_acquire(lock("7"), LeasePurpose::Admission).await.unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::LeaseHeld);
    let other = theirs.leases().try_acquire(lock("8"), LeasePurpose::Admission).await.unwrap();
    other.release().await.unwrap();
    held.release().await.unwrap();
    // Under the lock, look and decide: one session, however many messages come in at once.
    let mut workers = Vec::new();
    for _ in 0..6 {
        let ws = site.workspace().await;
        workers.push(tokio::spawn(async move {
            let lock = [channel_lease(&room("7")).unwrap()];
            let lock =
                ws.leases().acquire(lock, LeasePurpose::Admission, Duration::from_secs(60)).await.unwrap();
            let session = match ws.bindings().of_channel(&room("7")).await.unwrap() {
                Some(binding) => ws.sessions().open(&binding.session.id).await.unwrap(),
                None => ws.bindings().create_bound(&room("7"), ws.sessions().create()).await.unwrap(),
            };
            session.append([Message::user("one more")]).await.unwrap();
            lock.release().await.unwrap();
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    let found = ours.bindings().of_channel(&room("7")).await.unwrap().unwrap();
    let session = ours.sessions().open(&found.session.id).await.unwrap();
    assert_eq!(session.messages().await.unwrap().items.len(), 6);
}
