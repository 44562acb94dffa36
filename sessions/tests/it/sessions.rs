//! Creating, finding, listing, deleting.

use std::sync::Arc;

use turnkeep_core::model::{Audience, Channel, ForkKind, TitleSource, Usage};
use turnkeep_core::query::{AudienceFilter, SessionOrder};
use turnkeep_core::{ErrorKind, Payload, SessionId, WorkspaceId};
use turnkeep_memory::MemoryStore;
use turnkeep_sessions::{Directories, Draft, Message, Session, Workspace};

use crate::site::{Site, on_each};

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

async fn ids(list: turnkeep_sessions::ListSessions) -> Vec<String> {
    list.await.unwrap().items.into_iter().map(|row| row.id.to_string()).collect()
}

on_each!(
    what_is_said_of_a_new_session_is_kept,
    a_blank_title_is_none,
    a_repeated_delete_does_nothing,
    a_taken_id_is_refused_and_the_first_session_untouched,
    a_create_with_a_request_id_lands_once,
    a_lazy_session_is_stored_with_its_first_write,
    a_lazy_session_can_begin_with_a_run,
    a_prefix_opens_the_only_one_and_names_candidates_else,
    hostile_ids_are_typed_errors,
    an_exact_id_wins_over_longer_ones,
    the_most_recent_of_a_directory_is_continued_or_made,
    a_directory_opens_its_most_recent_session,
    lists_filter_count_and_page,
    sub_agents_are_hidden_from_default_lists,
    deleting_takes_everything_and_the_id_starts_anew,
    a_session_in_use_is_deleted_only_by_force,
    renaming_works_while_somebody_else_runs,
    workspaces_do_not_see_each_other,
    everything_is_there_after_reopening,
    case_64_a_name_survives_10000_appends_and_an_ambiguous_one_lists_candidates,
    case_65_1000_children_do_not_drown_what_a_person_can_continue,
    directories_are_read_by_the_id_of_the_session,
);

async fn what_is_said_of_a_new_session_is_kept(site: Site) {
    let ws = site.workspace().await;
    let folder = tempfile::tempdir().unwrap();
    let project = ws.projects().create("p").await.unwrap();
    let channel = Channel { kind: "room".into(), id: "7".into() };
    let session = ws
        .sessions()
        .create()
        .id(id("one"))
        .title("fix the parser")
        .cwd(folder.path())
        .audience(Audience::SubAgent)
        .parent(id("zero"))
        .channel(channel.clone())
        .project(project.id.as_str())
        .meta(Payload::new(r#"{"z":1,"a":2}"#).unwrap())
        .await
        .unwrap();
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
    session.fork("f").id(id("child")).await.unwrap();
    let (made, child) = (session.info().await.unwrap(), id("child"));
    drop((run, session));
    ws.close().await.unwrap();
    let ws = site.workspace().await;
    let row = ws.sessions().open(&id("one")).await.unwrap().info().await.unwrap();
    assert_eq!(row, made);
    let profile = row.profile;
    let title = profile.title.unwrap();
    assert_eq!((title.text.as_str(), title.source), ("fix the parser", TitleSource::Manual));
    assert_eq!(profile.cwd.as_deref(), folder.path().canonicalize().unwrap().to_str());
    assert_eq!(profile.audience, Audience::SubAgent);
    assert_eq!((profile.parent, profile.fork), (Some(id("zero")), None));
    assert_eq!(profile.channel, Some(channel));
    assert_eq!(profile.project.as_deref(), Some(project.id.as_str()));
    assert_eq!(profile.meta.unwrap().as_str(), r#"{"z":1,"a":2}"#);
    let child = ws.sessions().open(&child).await.unwrap().info().await.unwrap().profile;
    let origin = child.fork.unwrap();
    assert_eq!((child.parent, child.cwd), (Some(id("one")), profile.cwd));
    assert_eq!((origin.kind, origin.boundary.get(), origin.seed_length), (ForkKind::Session, 4, 4));
}

async fn a_blank_title_is_none(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().title(" ").await.unwrap();
    let title = async || session.info().await.unwrap().profile.title;
    assert_eq!(title().await, None);
    session.rename("a name").await.unwrap();
    session.rename("").await.unwrap();
    assert_eq!(title().await, None);
    session.append([Draft::title("a name", TitleSource::Auto)]).await.unwrap();
    session.append([Draft::title("", TitleSource::Auto)]).await.unwrap();
    assert_eq!(title().await, None);
    assert_eq!(session.latest_title().await.unwrap().unwrap().value.text, "", "the entry is as it was said");
}

async fn a_repeated_delete_does_nothing(site: Site) {
    let ws = site.workspace().await;
    ws.sessions().create().id(id("one")).await.unwrap();
    let delete = || ws.sessions().delete(id("one")).request_id("job-1");
    delete().await.unwrap();
    delete().await.unwrap();
    let second = ws.sessions().create().id(id("one")).await.unwrap();
    delete().await.unwrap();
    second.info().await.unwrap();
    let other = ws.sessions().delete(id("other")).request_id("job-1").await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::RequestConflict);
    ws.sessions().delete(id("one")).request_id("job-2").await.unwrap();
    assert_eq!(second.info().await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn a_taken_id_is_refused_and_the_first_session_untouched(site: Site) {
    let ws = site.workspace().await;
    let first = ws.sessions().create().id(id("one")).title("first").await.unwrap();
    first.append([Message::user("hello")]).await.unwrap();
    let before = first.info().await.unwrap();
    let refused = ws.sessions().create().id(id("one")).title("second").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(first.info().await.unwrap(), before);
}

async fn a_create_with_a_request_id_lands_once(site: Site) {
    let ws = site.workspace().await;
    let first = ws.sessions().create().title("t").request_id("job-1").await.unwrap();
    let again = ws.sessions().create().title("t").request_id("job-1").await.unwrap();
    assert_eq!(first.session_ref(), again.session_ref());
    assert_eq!(ws.sessions().list().count().await.unwrap(), 1);
    let other = ws.sessions().create().title("other").request_id("job-1").await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::RequestConflict);
    // Nothing is stored that could tell a repeat of a lazy one.
    let lazy = ws.sessions().create().lazy().request_id("job-2").await.unwrap_err();
    assert_eq!(lazy.kind(), ErrorKind::Invalid);
}

async fn a_lazy_session_is_stored_with_its_first_write(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().id(id("lazy")).title("t").lazy().await.unwrap();
    assert!(!session.is_stored());
    assert_eq!(ws.sessions().list().count().await.unwrap(), 0);
    assert_eq!(session.info().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(session.messages().await.unwrap().items.is_empty());
    assert!(session.history().await.unwrap().items.is_empty());
    assert!(session.replay().await.unwrap().messages.is_empty());
    assert!(session.runs().list().await.unwrap().items.is_empty());
    assert!(session.runs().events(None, 10).await.unwrap().items.is_empty());
    assert_eq!(session.runs().latest_event().await.unwrap(), 0);
    assert_eq!(session.usage().total().await.unwrap(), Usage::default());
    let made = session.append([Message::user("hello")]).await.unwrap();
    assert_eq!(made.numbers.len(), 1);
    assert!(session.is_stored());
    session.append([Message::assistant("hi")]).await.unwrap();
    let row = ws.sessions().open(&id("lazy")).await.unwrap().info().await.unwrap();
    assert_eq!((row.messages, row.profile.title.unwrap().text.as_str()), (2, "t"));
    // The id may have been taken meanwhile: nothing is merged.
    let late = ws.sessions().create().id(id("lazy")).lazy().await.unwrap();
    let refused = late.append([Message::user("mine?")]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(session.info().await.unwrap().messages, 2);
}

async fn a_lazy_session_can_begin_with_a_run(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().lazy().await.unwrap();
    let run = session.begin_run(Message::user("hello")).await.unwrap();
    run.complete([Message::assistant("hi")]).await.unwrap();
    assert_eq!(session.info().await.unwrap().messages, 2);
    assert_eq!(session.replay().await.unwrap().messages.len(), 2);
}

async fn a_prefix_opens_the_only_one_and_names_candidates_else(site: Site) {
    let ws = site.workspace().await;
    for name in ["abc-1", "abc-2", "abd", "a%c"] {
        ws.sessions().create().id(id(name)).await.unwrap();
    }
    let open = |prefix: &'static str| {
        let sessions = ws.sessions();
        async move { sessions.open_by_prefix(prefix).await }
    };
    assert_eq!(open("abd").await.unwrap().id().as_str(), "abd");
    assert_eq!(open("abc-2").await.unwrap().id().as_str(), "abc-2");
    assert_eq!(open("a%").await.unwrap().id().as_str(), "a%c", "a wildcard is a letter like any other");
    assert_eq!(open("x").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(open("A").await.unwrap_err().kind(), ErrorKind::NotFound, "ids are bytewise");
    let ambiguous = open("abc").await.unwrap_err();
    assert_eq!(ambiguous.kind(), ErrorKind::Ambiguous);
    let candidates: Vec<&str> =
        ambiguous.context().filter(|(name, _)| *name == "candidate").map(|(_, id)| id).collect();
    assert_eq!(candidates, ["abc-1", "abc-2"]);
}

async fn hostile_ids_are_typed_errors(site: Site) {
    let ws = site.workspace().await;
    ws.sessions().create().id(id("one")).await.unwrap();
    let long = "x".repeat(10 * 1024);
    for (text, kind) in [
        ("", ErrorKind::Invalid),
        ("a\0b", ErrorKind::Invalid),
        ("\u{1b}[31m", ErrorKind::Invalid),
        (long.as_str(), ErrorKind::TooLarge),
        ("../../x", ErrorKind::NotFound),
        ("' OR 1=1 --", ErrorKind::NotFound),
        ("%", ErrorKind::NotFound),
    ] {
        let refused = ws.sessions().open_by_prefix(text).await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{:?}", text.get(..8));
    }
}

async fn an_exact_id_wins_over_longer_ones(site: Site) {
    let ws = site.workspace().await;
    for name in ["ab", "abc"] {
        ws.sessions().create().id(id(name)).await.unwrap();
    }
    assert_eq!(ws.sessions().open_by_prefix("ab").await.unwrap().id().as_str(), "ab");
}

async fn the_most_recent_of_a_directory_is_continued_or_made(site: Site) {
    let ws = site.workspace().await;
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    assert!(ws.sessions().recent_in(folder.path()).await.unwrap().is_none());
    let made = ws.sessions().continue_recent(folder.path()).await.unwrap();
    let newer = ws.sessions().create().cwd(folder.path()).await.unwrap();
    ws.sessions().create().cwd(other.path()).await.unwrap();
    ws.sessions().create().cwd(folder.path()).audience(Audience::SubAgent).await.unwrap();
    let recent = ws.sessions().continue_recent(folder.path()).await.unwrap();
    assert_eq!(recent.session_ref(), newer.session_ref());
    made.append([Message::user("touched last")]).await.unwrap();
    let recent = ws.sessions().continue_recent(folder.path()).await.unwrap();
    assert_eq!(recent.session_ref(), made.session_ref());
    made.archive(true).await.unwrap();
    let recent = ws.sessions().continue_recent(folder.path()).await.unwrap();
    assert_eq!(recent.session_ref(), newer.session_ref());
    assert_eq!(ws.sessions().list().cwd(folder.path()).count().await.unwrap(), 2);
}

async fn a_directory_opens_its_most_recent_session(site: Site) {
    let ws = site.workspace().await;
    let folder = tempfile::tempdir().unwrap();
    let session = ws.sessions().create().id(id("one")).cwd(folder.path()).await.unwrap();
    let path = folder.path().to_str().unwrap();
    let opened = ws.sessions().open_by_path_or_id(path).await.unwrap();
    assert_eq!(opened.session_ref(), session.session_ref());
    assert_eq!(ws.sessions().open_by_path_or_id("on").await.unwrap().id().as_str(), "one");
    let empty = tempfile::tempdir().unwrap();
    let none = ws.sessions().open_by_path_or_id(empty.path().to_str().unwrap()).await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
}

async fn lists_filter_count_and_page(site: Site) {
    let ws = site.workspace().await;
    let mut made: Vec<Session> = Vec::new();
    for number in 0..5 {
        made.push(ws.sessions().create().id(id(&format!("s{number}"))).await.unwrap());
    }
    made[1].append([Message::user("needle in 100% hay")]).await.unwrap();
    made[2].append([Message::user("nothing")]).await.unwrap();
    made[3].rename("The Needle").await.unwrap();
    made[4].pin(true).await.unwrap();
    let sessions = ws.sessions();
    assert_eq!(
        ids(sessions.list()).await,
        ["s4", "s3", "s2", "s1", "s0"],
        "the one that changed last comes first"
    );
    assert_eq!(ids(sessions.list().order(SessionOrder::Id).limit(2)).await, ["s0", "s1"]);
    assert_eq!(ids(sessions.list().offset(3)).await, ["s1", "s0"]);
    assert_eq!(ids(sessions.list().text("NEEDLE")).await, ["s3", "s1"]);
    assert_eq!(ids(sessions.list().text("100%")).await, ["s1"]);
    assert!(ids(sessions.list().text("1_0%")).await.is_empty(), "wildcards are literal");
    assert_eq!(ids(sessions.list().with_messages()).await, ["s2", "s1"]);
    assert_eq!(ids(sessions.list().pinned(true)).await, ["s4"]);
    assert_eq!(sessions.list().count().await.unwrap(), 5);
    assert_eq!(sessions.list().with_messages().count().await.unwrap(), 2);
    let first = sessions.list().limit(3).total().await.unwrap();
    assert_eq!((first.items.len(), first.total), (3, Some(5)));
    let rest = sessions.list().limit(3).total().cursor(first.next.unwrap()).await.unwrap();
    assert_eq!(rest.items.len(), 2);
    assert!(rest.next.is_none());
    let row = &sessions.list().text("nothing").await.unwrap().items[0];
    assert_eq!((row.messages, row.preview.as_deref()), (1, Some("nothing")));
    assert_eq!(sessions.list().limit(0).await.unwrap_err().kind(), ErrorKind::Invalid);
}

async fn sub_agents_are_hidden_from_default_lists(site: Site) {
    let ws = site.workspace().await;
    ws.sessions().create().id(id("main")).await.unwrap();
    for number in 0..20 {
        let name = id(&format!("child-{number}"));
        ws.sessions().create().id(name).audience(Audience::SubAgent).parent(id("main")).await.unwrap();
    }
    assert_eq!(ids(ws.sessions().list()).await, ["main"]);
    assert_eq!(ws.sessions().list().audience(AudienceFilter::SubAgent).count().await.unwrap(), 20);
    assert_eq!(ws.sessions().list().audience(AudienceFilter::Any).count().await.unwrap(), 21);
    assert_eq!(ws.sessions().recent().await.unwrap().unwrap().id().as_str(), "main");
}

async fn deleting_takes_everything_and_the_id_starts_anew(site: Site) {
    let ws = site.workspace().await;
    let old = ws.sessions().create().id(id("one")).title("old").await.unwrap();
    let run = old.begin_run(Message::user("hello")).await.unwrap();
    run.complete([Message::assistant("hi")]).await.unwrap();
    ws.sessions().delete(id("one")).await.unwrap();
    assert_eq!(ws.sessions().delete(id("one")).await.unwrap_err().kind(), ErrorKind::NotFound);
    for gone in [
        ws.sessions().open(&id("one")).await.unwrap_err().kind(),
        old.info().await.unwrap_err().kind(),
        old.messages().await.unwrap_err().kind(),
        old.runs().list().await.unwrap_err().kind(),
        old.replay().await.unwrap_err().kind(),
        old.append([Message::user("late")]).await.unwrap_err().kind(),
    ] {
        assert_eq!(gone, ErrorKind::NotFound);
    }
    let new = ws.sessions().create().id(id("one")).await.unwrap();
    assert_eq!(new.info().await.unwrap().messages, 0);
    assert!(new.runs().list().await.unwrap().items.is_empty());
    assert_eq!(old.append([Message::user("late")]).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(new.messages().await.unwrap().items.is_empty(), "an old handle cannot reach the new session");
}

async fn a_session_in_use_is_deleted_only_by_force(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("hello")).await.unwrap();
    let other = site.workspace().await;
    let refused = other.sessions().delete(session.id().clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LeaseHeld);
    other.sessions().delete(session.id().clone()).force().await.unwrap();
    let late = run.complete([Message::assistant("late")]).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::LeaseLost);
    assert!(run.is_lost());
}

async fn renaming_works_while_somebody_else_runs(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("hello")).await.unwrap();
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    other.rename("theirs").await.unwrap();
    assert_eq!(other.append([Message::user("no")]).await.unwrap_err().kind(), ErrorKind::LeaseHeld);
    run.complete([Message::assistant("hi")]).await.unwrap();
    assert_eq!(session.info().await.unwrap().profile.title.unwrap().text, "theirs");
    session.append([Draft::title("by hand", TitleSource::Auto)]).await.unwrap();
    let title = session.info().await.unwrap().profile.title.unwrap();
    assert_eq!((title.text.as_str(), title.source), ("by hand", TitleSource::Auto));
}

async fn workspaces_do_not_see_each_other(site: Site) {
    let one = site.workspace_named("one").await;
    let two = site.workspace_named("two").await;
    let session = one.sessions().create().id(id("same")).title("secret").await.unwrap();
    let run = session.begin_run(Message::user("secret")).await.unwrap();
    assert_eq!(two.sessions().list().audience(AudienceFilter::Any).count().await.unwrap(), 0);
    assert!(ids(two.sessions().list().text("secret")).await.is_empty());
    assert_eq!(two.sessions().open(&id("same")).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(two.sessions().open_by_prefix("sa").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(two.sessions().delete(id("same")).force().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(two.runs().list().await.unwrap().items.is_empty());
    assert!(two.recover().await.unwrap().left_alone.is_empty());
    let other = two.sessions().create().id(id("same")).await.unwrap();
    other.append([Message::user("mine")]).await.unwrap();
    run.complete([Message::assistant("hi")]).await.unwrap();
    assert_eq!(session.messages().await.unwrap().items.len(), 2);
    assert_eq!(other.messages().await.unwrap().items.len(), 1);
}

async fn everything_is_there_after_reopening(site: Site) {
    let (session, run) = {
        let ws = site.workspace().await;
        let session = ws.sessions().create().id(id("one")).title("t").await.unwrap();
        let run = session.begin_run(Message::user("hello")).model("m").await.unwrap();
        run.complete([Message::assistant("hi")]).await.unwrap();
        let run = run.id().clone();
        let id = session.id().clone();
        drop(session);
        ws.close().await.unwrap();
        (id, run)
    };
    let ws = site.workspace().await;
    assert_eq!(ids(ws.sessions().list()).await, ["one"]);
    let session = ws.sessions().open(&session).await.unwrap();
    let texts: Vec<String> =
        session.messages().await.unwrap().items.iter().map(|stored| stored.message.text()).collect();
    assert_eq!(texts, ["hello", "hi"]);
    assert_eq!(session.runs().list().await.unwrap().items.len(), 1);
    let run = session.runs().get(&run).await.unwrap();
    assert_eq!(run.state, turnkeep_core::model::RunState::Completed);
    assert_eq!(run.model.as_deref(), Some("m"));
}

async fn case_64_a_name_survives_10000_appends_and_an_ambiguous_one_lists_candidates(site: Site) {
    let ws = site.workspace().await;
    let others = ["other 1", "other 2"].map(|title| (title, ws.sessions().create().title(title)));
    let session = ws.sessions().create().title("first name").await.unwrap();
    session.rename("my parser").await.unwrap();
    for round in 0..100 {
        let said = (0..100).map(|number| Message::user(format!("message {round}.{number}")));
        session.append(said).await.unwrap();
    }
    let mut kept = Vec::new();
    for (title, other) in others {
        kept.push((title, other.await.unwrap()));
    }
    // Resumed by another handle, it goes on under its name, and nobody else got it.
    let resumed = site.workspace().await.sessions().open_by_title("my parser").await.unwrap();
    assert_eq!(resumed.id(), session.id());
    resumed.append([Message::user("one more")]).await.unwrap();
    let row = resumed.info().await.unwrap();
    assert_eq!(row.messages, 10_001);
    assert_eq!(row.profile.title.unwrap().text, "my parser");
    for (title, other) in kept {
        assert_eq!(other.info().await.unwrap().profile.title.unwrap().text, title);
    }
    let second = ws.sessions().create().title("my parser").await.unwrap();
    let ambiguous = ws.sessions().open_by_title("my parser").await.unwrap_err();
    assert_eq!(ambiguous.kind(), ErrorKind::Ambiguous);
    let mut candidates: Vec<_> =
        ambiguous.context().filter(|(name, _)| *name == "candidate").map(|(_, id)| id).collect();
    candidates.sort_unstable();
    let mut expected = [session.id().as_str(), second.id().as_str()];
    expected.sort_unstable();
    assert_eq!(candidates, expected);
    // What has the title in its words only, or a part of it, is no candidate.
    let unknown = ws.sessions().open_by_title("parser").await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

async fn case_65_1000_children_do_not_drown_what_a_person_can_continue(site: Site) {
    let ws = site.workspace().await;
    let parent = ws.sessions().create().title("the real one").await.unwrap();
    for batch in 0..20 {
        let children = (0..50).map(|number| {
            let create = ws.sessions().create().title(format!("child {batch}.{number}"));
            tokio::spawn(create.audience(Audience::SubAgent).parent(parent.id().clone()).into_future())
        });
        for child in children.collect::<Vec<_>>() {
            child.await.unwrap().unwrap();
        }
    }
    let listed = ws.sessions().list().total().await.unwrap();
    assert_eq!((listed.items.len(), listed.total), (1, Some(1)));
    assert_eq!(listed.items[0].id, *parent.id());
    assert_eq!(ws.sessions().list().count().await.unwrap(), 1);
    assert_eq!(ws.sessions().recent().await.unwrap().unwrap().id(), parent.id());
    assert_eq!(ws.sessions().list().text("child").count().await.unwrap(), 0, "nor does a search find them");
    let children = ws.sessions().list().audience(AudienceFilter::SubAgent).parent(parent.id().clone());
    assert_eq!(children.count().await.unwrap(), 1_000, "they are there for whoever asks");
}

async fn directories_are_read_by_the_id_of_the_session(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    assert_eq!(ws.sessions().directories(session.id()).await.unwrap(), None);
    session.append([Directories::new(["/b", "/a"])]).await.unwrap();
    let first = session.leaf();
    session.append([Message::user("in between")]).await.unwrap();
    session.append([Directories::new(["/c", "/a", "/d"])]).await.unwrap();
    let other = site.workspace().await;
    let now = other.sessions().directories(session.id()).await.unwrap().unwrap();
    assert_eq!(
        now.directories,
        ["/c", "/a", "/d"],
        "the whole set, in its order, and nothing of the one before"
    );
    // Another branch has its own; none is none.
    session.move_leaf(first).await.unwrap();
    assert_eq!(other.sessions().directories(session.id()).await.unwrap().unwrap().directories, ["/b", "/a"]);
    session.append([Directories::new(Vec::<String>::new())]).await.unwrap();
    let none = other.sessions().directories(session.id()).await.unwrap().unwrap();
    assert!(none.directories.is_empty());
    let unknown = other.sessions().directories(&id("unknown")).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_memory_store_is_new_empty_and_gone_with_its_last_handle() {
    let open = async |store: MemoryStore| {
        Workspace::open(Arc::new(store), WorkspaceId::new("w").unwrap()).await.unwrap()
    };
    let (one, two) = (MemoryStore::new(), MemoryStore::new());
    let ws = open(one.clone()).await;
    ws.sessions().create().id(id("one")).await.unwrap();
    assert_eq!(open(two).await.sessions().list().count().await.unwrap(), 0, "another store is another place");
    let again = one.reopen();
    ws.close().await.unwrap();
    assert_eq!(ids(open(again).await.sessions().list()).await, ["one"], "its own handles share it");
    assert_eq!(open(MemoryStore::new()).await.sessions().list().count().await.unwrap(), 0);
}
