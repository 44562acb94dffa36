//! Entries of every kind, branches, and reading by number.

use turnkeep_core::id::Role;
use turnkeep_core::model::{TitleSource, Visibility, entry_kind, role};
use turnkeep_core::query::Order;
use turnkeep_core::{EntryNo, ErrorKind, Payload};
use turnkeep_sessions::{
    BranchSummary, Compaction, Directories, Draft, Label, Message, ModeChange, ModelChange, Session,
    ThinkingLevel,
};

use crate::site::{Site, on_each};

fn no(number: u32) -> EntryNo {
    EntryNo::new(number).unwrap()
}

async fn texts(session: &Session) -> Vec<String> {
    session.messages().await.unwrap().items.iter().map(|stored| stored.message.text()).collect()
}

on_each!(
    every_kind_comes_back_with_number_parent_and_time,
    unknown_kinds_and_bytes_survive,
    the_latest_of_each_kind_is_that_of_the_branch,
    replay_goes_along_the_branch_of_the_leaf,
    a_stale_leaf_is_refused_and_works_after_reload,
    a_rename_by_a_stale_handle_leaves_it_stale,
    an_append_with_a_request_id_lands_once,
    a_key_is_taken_once,
    a_title_that_is_there_undoes_no_later_name,
    messages_are_read_by_number,
    moving_the_leaf_branches_and_returns,
    a_compaction_deletes_nothing,
    what_is_over_a_limit_is_refused_and_the_session_goes_on,
    many_drafts_are_one_commit,
);

async fn every_kind_comes_back_with_number_parent_and_time(site: Site) {
    let (site, clock) = site.with_clock();
    let session = site.session().await;
    session
        .append([Draft::of_kind(entry_kind::SESSION, Payload::new(r#"{"version":3}"#).unwrap())])
        .await
        .unwrap();
    session.append([Message::user("one")]).await.unwrap();
    clock.advance_ms(5);
    let drafts = [
        Draft::from(ModelChange::new("acme", "large")),
        ModeChange::new("plan").into(),
        ThinkingLevel::new("high").into(),
        Directories::new(["/a", "/b"]).into(),
        Draft::title("t", TitleSource::Auto),
        Draft::custom(Payload::new(r#"{"mine":[1.0,1e3]}"#).unwrap()),
        Draft::custom_message(&Message::user("for the model")),
        BranchSummary::new("went elsewhere", no(2)).into(),
        Compaction {
            previous: Some(no(1)),
            last_summarized: Some(no(1)),
            tokens_before: 9,
            summary_version: Some(2),
            ..Compaction::new("so far", no(2))
        }
        .into(),
        Label::new(no(2), "start here").into(),
    ];
    session.append(drafts).await.unwrap();
    let run = session.begin_run(Message::user("two")).await.unwrap();
    run.complete([Message::assistant("three")]).await.unwrap();
    let all = session.entries(|query| query.limit = 100).await.unwrap().items;
    let kinds: Vec<&str> = all.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "session",
            "message",
            "model_change",
            "mode_change",
            "thinking_level_change",
            "additional_directories",
            "session_info",
            "custom",
            "custom_message",
            "branch_summary",
            "compaction",
            "label",
            "turn_start",
            "message",
            "message",
            "turn_end",
        ]
    );
    for (at, entry) in all.iter().enumerate() {
        assert_eq!(entry.number.get() as usize, at + 1, "numbers are contiguous");
        let label = entry.kind.as_str() == entry_kind::LABEL;
        assert_eq!(entry.on_path, !label);
        let expected = match at {
            0 => None,
            12 => Some(no(11)), // the label moved no leaf
            _ => Some(no(at as u32)),
        };
        assert_eq!(entry.parent, expected, "{}", entry.kind);
    }
    assert_eq!(all[1].at.as_millis() + 5, all[2].at.as_millis());
    assert_eq!(all[7].payload.as_str(), r#"{"mine":[1.0,1e3]}"#);
    let compaction = Compaction::from_entry(&all[10]).unwrap();
    assert_eq!((compaction.first_kept, compaction.previous), (Some(no(2)), Some(no(1))));
    assert_eq!((compaction.tokens_before, compaction.summary_version), (9, Some(2)));
    assert_eq!(Label::from_entry(&all[11]).unwrap(), Label::new(no(2), "start here"));
    assert_eq!(Label::from_entry(&all[10]).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(session.info().await.unwrap().profile.title.unwrap().text, "t");
}

async fn unknown_kinds_and_bytes_survive(site: Site) {
    let session = site.session().await;
    let bytes = r#"{"zebra":1,"alpha":{"z":1,"a":2},"nul":"\u0000","n":1.0e2}"#;
    let odd = Draft::of_kind("hologram", Payload::new(bytes).unwrap()).text("seen").key("k");
    let message = Message::parse(
        Payload::new(r#"{"role":"oracle","content":[{"type":"smell","notes":["pine"]}],"mood":7}"#).unwrap(),
    )
    .unwrap();
    session.append([odd, Draft::from(&message)]).await.unwrap();
    let entry = session.entry(no(1)).await.unwrap();
    assert_eq!((entry.kind.as_str(), entry.payload.as_str()), ("hologram", bytes));
    assert_eq!(entry.text.as_deref(), Some("seen"));
    let stored = &session.messages().await.unwrap().items[0];
    assert_eq!(stored.message, message);
    assert_eq!(stored.message.role().as_str(), "oracle");
    assert_eq!(session.entry(no(9)).await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn replay_goes_along_the_branch_of_the_leaf(site: Site) {
    let session = site.session().await;
    session.append([Message::user("one"), Message::assistant("left")]).await.unwrap();
    session.move_leaf(Some(no(1))).await.unwrap();
    session.append([Message::assistant("right"), Message::user("on")]).await.unwrap();
    let shown = |replay: turnkeep_sessions::Replay| -> Vec<(Option<EntryNo>, String)> {
        replay.messages.iter().map(|shown| (shown.entry, shown.message.text())).collect()
    };
    let right = [(Some(no(1)), "one".into()), (Some(no(3)), "right".into()), (Some(no(4)), "on".into())];
    assert_eq!(shown(session.replay().await.unwrap()), right);
    session.move_leaf(Some(no(2))).await.unwrap();
    let left = [(Some(no(1)), "one".into()), (Some(no(2)), "left".into())];
    assert_eq!(shown(session.replay().await.unwrap()), left);
}

async fn the_latest_of_each_kind_is_that_of_the_branch(site: Site) {
    let session = site.session().await;
    assert!(session.latest_model().await.unwrap().is_none());
    session
        .append([Draft::from(ModelChange::new("a", "one")), ThinkingLevel::new("low").into()])
        .await
        .unwrap();
    let fork_at = session.leaf();
    session
        .append([
            Draft::from(ModelChange::new("a", "two")),
            ModeChange::new("plan").into(),
            Directories::new(["/x"]).into(),
            Draft::title("on the branch", TitleSource::Manual),
            Compaction::new("s", no(1)).into(),
        ])
        .await
        .unwrap();
    assert_eq!(session.latest_model().await.unwrap().unwrap().value.model, "two");
    assert_eq!(session.latest_mode().await.unwrap().unwrap().value.mode, "plan");
    assert_eq!(session.latest_directories().await.unwrap().unwrap().value.directories, ["/x"]);
    assert_eq!(session.latest_title().await.unwrap().unwrap().value.text, "on the branch");
    assert_eq!(session.latest_compaction().await.unwrap().unwrap().value.summary, "s");
    session.move_leaf(fork_at).await.unwrap();
    let model = session.latest_model().await.unwrap().unwrap();
    assert_eq!((model.number, model.value.model.as_str()), (no(1), "one"));
    assert_eq!(session.latest_thinking_level().await.unwrap().unwrap().value.level, "low");
    assert!(session.latest_mode().await.unwrap().is_none());
    assert!(session.latest_compaction().await.unwrap().is_none());
}

async fn a_stale_leaf_is_refused_and_works_after_reload(site: Site) {
    let session = site.session().await;
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    other.append([Message::user("theirs")]).await.unwrap();
    let refused = session.append([Message::user("mine")]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StaleLeaf);
    assert_eq!(session.move_leaf(None).await.unwrap_err().kind(), ErrorKind::StaleLeaf);
    assert_eq!(session.begin_run(Message::user("x")).await.unwrap_err().kind(), ErrorKind::StaleLeaf);
    assert_eq!(texts(&session).await, ["theirs"]);
    session.reload().await.unwrap();
    session.append([Message::user("mine")]).await.unwrap();
    assert_eq!(texts(&session).await, ["theirs", "mine"]);
}

async fn a_rename_by_a_stale_handle_leaves_it_stale(site: Site) {
    let session = site.session().await;
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    other.append([Message::user("theirs")]).await.unwrap();
    session.rename("a name").await.unwrap();
    let refused = session.append([Message::user("mine")]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StaleLeaf, "it has not seen what the other said");
}

async fn an_append_with_a_request_id_lands_once(site: Site) {
    let session = site.session().await;
    let first = session.append([Message::user("once")]).request_id("job").await.unwrap();
    session.append([Message::assistant("and on")]).await.unwrap();
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let again = other.append([Message::user("once")]).request_id("job").await.unwrap();
    assert_eq!(first.numbers, again.numbers);
    assert!(!first.repeated && again.repeated);
    let conflict = session.append([Message::user("twice")]).request_id("job").await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::RequestConflict);
    // The repeat moved no leaf of the handle that made it.
    other.append([Message::user("three")]).await.unwrap();
    assert_eq!(texts(&other).await, ["once", "and on", "three"]);
}

async fn a_key_is_taken_once(site: Site) {
    let session = site.session().await;
    let keyed = |text: &str| Draft::from(Message::user(text)).key("k");
    let first = session.append([keyed("one")]).await.unwrap();
    assert_eq!(session.append([keyed("two")]).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let skipped = session.append([Draft::from(Message::user("three")).key_once("k")]).await.unwrap();
    assert_eq!(first.numbers, skipped.numbers);
    assert_eq!(texts(&session).await, ["one"]);
}

async fn a_title_that_is_there_undoes_no_later_name(site: Site) {
    let session = site.session().await;
    let named = || [Draft::title("by the job", TitleSource::Auto).key_once("title")];
    let title = async || session.info().await.unwrap().profile.title.unwrap().text;
    session.append(named()).request_id("job").await.unwrap();
    assert_eq!(title().await, "by the job");
    session.rename("by a person").await.unwrap();
    assert!(session.append(named()).request_id("job").await.unwrap().repeated);
    session.append(named()).await.unwrap();
    let run = session.begin_run(Message::user("q")).and(named()).await.unwrap();
    run.append(named()).await.unwrap();
    let [again] = named();
    run.complete([Draft::from(Message::assistant("a")), again]).await.unwrap();
    assert_eq!(title().await, "by a person");
    let titles = session.entries(|query| query.limit = 100).await.unwrap().items;
    let titles = titles.iter().filter(|entry| entry.kind.as_str() == entry_kind::SESSION_INFO).count();
    assert_eq!(titles, 1);
    session.append([Draft::title("another", TitleSource::Auto).key_once("title 2")]).await.unwrap();
    assert_eq!(title().await, "another");
}

async fn messages_are_read_by_number(site: Site) {
    let session = site.session().await;
    for number in 1..=12 {
        session.append([Message::user(format!("m{number}"))]).await.unwrap();
    }
    let read = |messages: turnkeep_sessions::Messages| async {
        let items = messages.await.unwrap().items;
        items.iter().map(|stored| stored.number.get()).collect::<Vec<_>>()
    };
    assert_eq!(
        read(session.messages().after(no(9))).await,
        [10, 11, 12],
        "bounds are exclusive, and 10 follows 9"
    );
    assert_eq!(read(session.messages().before(no(3))).await, [1, 2]);
    assert_eq!(read(session.messages().after(no(4)).before(no(7))).await, [5, 6]);
    assert_eq!(read(session.messages().latest(3)).await, [10, 11, 12], "the newest, ascending");
    assert_eq!(read(session.messages().before(no(10)).latest(2)).await, [8, 9]);
    assert_eq!(read(session.messages().order(Order::Descending).limit(2)).await, [12, 11]);
    assert!(read(session.messages().after(no(12))).await.is_empty());
    let mut cursor = None;
    let mut all = Vec::new();
    loop {
        let mut query = session.messages().limit(5);
        if let Some(cursor) = cursor.take() {
            query = query.cursor(cursor);
        }
        let page = query.await.unwrap();
        all.extend(page.items.iter().map(|stored| stored.number.get()));
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(all, (1..=12).collect::<Vec<_>>());
    let none = session.messages().role(Role::new(role::ASSISTANT).unwrap());
    assert!(read(none).await.is_empty());
    assert_eq!(session.messages().limit(0).await.unwrap_err().kind(), ErrorKind::Invalid);
}

async fn moving_the_leaf_branches_and_returns(site: Site) {
    let session = site.session().await;
    session.append([Message::user("root"), Message::assistant("first")]).await.unwrap();
    session.move_leaf(Some(no(1))).await.unwrap();
    session.append([Message::assistant("second")]).await.unwrap();
    assert_eq!(texts(&session).await, ["root", "second"]);
    assert_eq!(session.replay().await.unwrap().messages.len(), 2);
    let all = session.messages().all_branches().await.unwrap().items;
    assert_eq!(all.len(), 3, "the other branch is still there");
    session.move_leaf(Some(no(2))).await.unwrap();
    assert_eq!(texts(&session).await, ["root", "first"]);
    session.append([Message::user("on")]).await.unwrap();
    assert_eq!(texts(&session).await, ["root", "first", "on"]);
    session.move_leaf(None).await.unwrap();
    assert!(texts(&session).await.is_empty());
    session.append([Message::user("anew")]).await.unwrap();
    assert_eq!(texts(&session).await, ["anew"]);
    assert_eq!(session.move_leaf(Some(no(99))).await.unwrap_err().kind(), ErrorKind::NotFound);
    session.append([Label::new(no(1), "l")]).await.unwrap();
    assert_eq!(session.move_leaf(Some(no(6))).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(texts(&session).await, ["anew"]);
}

async fn a_compaction_deletes_nothing(site: Site) {
    let session = site.session().await;
    for number in 1..=4 {
        session
            .append([Message::user(format!("q{number}")), Message::assistant(format!("a{number}"))])
            .await
            .unwrap();
    }
    session.append([Compaction::new("earlier talk", no(7))]).await.unwrap();
    session.append([Message::user("q5")]).await.unwrap();
    let replay = session.replay().await.unwrap();
    let replayed: Vec<String> = replay.messages.iter().map(|replayed| replayed.message.text()).collect();
    assert_eq!(replayed, ["earlier talk", "q4", "a4", "q5"]);
    assert_eq!(replay.messages[1].entry, Some(no(7)));
    let history = session.history().await.unwrap().items;
    assert_eq!(history.len(), 9, "everything said is kept, and the summary is no part of it");
    assert!(history.iter().all(turnkeep_sessions::HistoryItem::is_original));
    let inner = session.history().internal().await.unwrap().items;
    assert_eq!(inner.len(), 10);
    let summary = &inner[8];
    assert_eq!(summary.entry.visibility, Visibility::Internal);
    assert!(!summary.is_original());
}

async fn what_is_over_a_limit_is_refused_and_the_session_goes_on(site: Site) {
    let session = site.session().await;
    session.append([Message::user("before")]).await.unwrap();
    let big = Message::user("x".repeat(17 * 1024 * 1024));
    assert_eq!(session.append([big.clone()]).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(session.begin_run(big.clone()).await.unwrap_err().kind(), ErrorKind::TooLarge);
    let run = session.begin_run(Message::user("small")).await.unwrap();
    assert_eq!(run.complete([big]).await.unwrap_err().kind(), ErrorKind::TooLarge);
    run.complete([Message::assistant("fits")]).await.unwrap();
    assert_eq!(texts(&session).await, ["before", "small", "fits"]);
    let nothing: [Draft; 0] = [];
    assert_eq!(session.append(nothing).await.unwrap_err().kind(), ErrorKind::Invalid);
}

async fn many_drafts_are_one_commit(site: Site) {
    let session = site.session().await;
    let before = session.info().await.unwrap().revision;
    let made = session.append((0..2000).map(|number| Message::user(format!("m{number}")))).await.unwrap();
    assert_eq!(made.numbers.len(), 2000);
    assert_eq!(made.numbers[1999], no(2000));
    assert_eq!(session.info().await.unwrap().revision, before + 1);
}
