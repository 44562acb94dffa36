//! Following: what is committed anywhere comes once and in order, from a known place on.

use std::time::Duration;

use futures_util::StreamExt as _;
use turnkeep_core::{ErrorKind, Payload};
use turnkeep_sessions::{Following, Label, Message, News, Place, Session};

use crate::runs::no;
use crate::site::{Site, on_each};

on_each!(
    what_others_commit_comes_once_and_in_order,
    a_place_is_gone_on_from_without_a_gap_or_a_repeat,
    following_begins_now_unless_said_otherwise,
    a_branch_switch_and_a_fork_disturb_nobody_who_follows,
    text_comes_as_it_streams_in,
    a_stream_of_the_host_is_followed_too,
    a_dropped_wait_loses_nothing,
    following_ends_with_the_session,
    following_waits_and_wakes,
    what_is_new_is_a_stream_that_ends_with_the_session,
    a_long_session_is_followed_in_pages,
);

/// What came, in short.
fn short(news: &News) -> String {
    match news {
        News::Entry(entry) => {
            format!("{} {}", entry.number, entry.text.as_deref().unwrap_or(entry.kind.as_str()))
        }
        News::Event { stream, event } => format!("{stream} {} {}", event.number, event.kind),
        News::Text { text, .. } => format!("text {text}"),
    }
}

async fn ready(following: &mut Following) -> Vec<String> {
    following.ready().await.unwrap().iter().map(short).collect()
}

/// The next thing, if it comes in a time that no machine needs.
async fn next(following: &mut Following) -> Option<String> {
    let waiting = tokio::time::timeout(Duration::from_secs(60), following.next());
    waiting.await.expect("nothing came").unwrap().as_ref().map(short)
}

async fn turn(session: &Session, question: &str) {
    let run = session.begin_run(Message::user(question)).await.unwrap();
    run.complete([Message::assistant("yes")]).await.unwrap();
}

async fn what_others_commit_comes_once_and_in_order(site: Site) {
    let session = site.session().await;
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let mut following = session.follow().from_start().await.unwrap();
    assert!(ready(&mut following).await.is_empty());
    turn(&other, "q").await;
    let all = ready(&mut following).await;
    let expected =
        ["1 turn_start", "2 q", "3 yes", "4 turn_end", "runs 1 run_started", "runs 2 run_completed"];
    assert_eq!(all, expected);
    assert!(ready(&mut following).await.is_empty(), "each once");
    // In between of two commits of a run, too.
    let run = other.begin_run(Message::user("q2")).await.unwrap();
    assert_eq!(ready(&mut following).await, ["5 turn_start", "6 q2", "runs 3 run_started"]);
    run.complete([Message::assistant("yes")]).await.unwrap();
    assert_eq!(ready(&mut following).await, ["7 yes", "8 turn_end", "runs 4 run_completed"]);
}

async fn a_place_is_gone_on_from_without_a_gap_or_a_repeat(site: Site) {
    let session = site.session().await;
    turn(&session, "q1").await;
    turn(&session, "q2").await;
    let mut whole = session.follow().from_start().await.unwrap();
    let all = ready(&mut whole).await;
    assert_eq!(all.len(), 12);
    let mut seen = Vec::new();
    let mut place = Place::default();
    for _ in 0..all.len() {
        // Another process each time, that takes one thing and keeps its place as text.
        let mine = site.workspace().await.sessions().open(session.id()).await.unwrap();
        let mut following = mine.follow().after(place).await.unwrap();
        seen.push(next(&mut following).await.unwrap());
        let kept = Payload::from_value(following.place()).unwrap();
        place = kept.parse().unwrap();
    }
    assert_eq!(seen, all);
    assert_eq!(place, *whole.place());
    let mut at_the_end = session.follow().after(place).await.unwrap();
    assert!(ready(&mut at_the_end).await.is_empty());
}

async fn following_begins_now_unless_said_otherwise(site: Site) {
    let session = site.session().await;
    turn(&session, "before").await;
    let mut following = session.follow().await.unwrap();
    assert_eq!(following.place().entry, Some(no(4)));
    turn(&session, "after").await;
    let all = ready(&mut following).await;
    assert_eq!(all[1], "6 after");
    assert_eq!(all.len(), 6);
    let unborn = session.workspace().sessions().create().lazy().await.unwrap();
    assert_eq!(unborn.follow().await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn a_branch_switch_and_a_fork_disturb_nobody_who_follows(site: Site) {
    let session = site.session().await;
    turn(&session, "one").await;
    let mut following = session.follow().await.unwrap();
    turn(&session, "two").await;
    session.move_leaf(Some(no(4))).await.unwrap();
    turn(&session, "another two").await;
    let child = session.fork("f").await.unwrap().session;
    let mut of_child = child.follow().await.unwrap();
    turn(&child, "in the child").await;
    session.append([Label::new(no(4), "here")]).await.unwrap();
    let entries: Vec<String> =
        ready(&mut following).await.into_iter().filter(|news| !news.starts_with("runs")).collect();
    assert_eq!(
        entries,
        [
            "5 turn_start",
            "6 two",
            "7 yes",
            "8 turn_end",
            "9 turn_start",
            "10 another two",
            "11 yes",
            "12 turn_end",
            "13 here"
        ]
    );
    let in_child = ready(&mut of_child).await;
    assert_eq!(in_child[1], "14 in the child");
}

async fn text_comes_as_it_streams_in(site: Site) {
    let session = site.session().await;
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let mut following = other.follow().text().await.unwrap();
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.stream("half ").await.unwrap();
    assert_eq!(ready(&mut following).await, ["1 turn_start", "2 q", "runs 1 run_started", "text half "]);
    run.stream("an answer").await.unwrap();
    assert_eq!(ready(&mut following).await, ["text an answer"]);
    // Who comes in the middle of a turn gets what is there.
    let mut late = other.follow().text().await.unwrap();
    assert_eq!(ready(&mut late).await, ["text half ", "text an answer"]);
    run.complete([Message::assistant("half an answer")]).await.unwrap();
    assert_eq!(ready(&mut following).await, ["3 half an answer", "4 turn_end", "runs 2 run_completed"]);
    let run = session.begin_run(Message::user("q2")).await.unwrap();
    run.stream("broken").await.unwrap();
    run.cancel().await.unwrap();
    let all = ready(&mut following).await;
    assert!(all.contains(&"7 broken".to_owned()), "what was kept for display comes as an entry: {all:?}");
}

async fn a_stream_of_the_host_is_followed_too(site: Site) {
    let session = site.session().await;
    let mut following = session.follow().stream("metrics").await.unwrap();
    let event = turnkeep_core::commit::NewEvent {
        kind: turnkeep_core::id::EventKind::new("tick").unwrap(),
        run: None,
        at: session.workspace().now(),
        payload: Payload::empty(),
    };
    let op = turnkeep_core::commit::Op::AppendEvents {
        session: session.session_ref().clone(),
        stream: turnkeep_core::id::StreamName::new("metrics").unwrap(),
        expect_next: None,
        events: vec![event.clone(), event],
    };
    let ws = session.workspace();
    ws.store().commit(turnkeep_core::Commit::new(ws.id().clone()).op(op)).await.unwrap();
    assert_eq!(ready(&mut following).await, ["metrics 1 tick", "metrics 2 tick"]);
    assert_eq!(following.place().events["metrics"], 2);
}

async fn a_dropped_wait_loses_nothing(site: Site) {
    let session = site.session().await;
    let mut following = session.follow().await.unwrap();
    let writer = {
        let session = session.clone();
        tokio::spawn(async move {
            for at in 0..40 {
                session.append([Message::user(format!("m{at}"))]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    let mut seen = Vec::new();
    for _ in 0..100_000 {
        let waiting = tokio::time::timeout(Duration::from_micros(200), following.next());
        if let Ok(news) = waiting.await {
            seen.push(short(&news.unwrap().unwrap()));
        }
        if seen.len() == 40 {
            break;
        }
    }
    writer.await.unwrap();
    let expected: Vec<String> = (0..40).map(|at| format!("{} m{at}", at + 1)).collect();
    assert_eq!(seen, expected);
}

async fn following_ends_with_the_session(site: Site) {
    let session = site.session().await;
    let mut following = session.follow().await.unwrap();
    turn(&session, "last words").await;
    let mut seen = 0;
    let ws = site.workspace().await;
    while seen < 6 {
        next(&mut following).await.unwrap();
        seen += 1;
    }
    ws.sessions().delete(session.id().clone()).await.unwrap();
    // Its id begins anew, and that is somebody else.
    let again = ws.sessions().create().id(session.id().clone()).await.unwrap();
    turn(&again, "another life").await;
    assert_eq!(next(&mut following).await, None);
    assert_eq!(next(&mut following).await, None);
}

async fn following_waits_and_wakes(site: Site) {
    let session = site.session().await;
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let mut following = other.follow().await.unwrap();
    let writer = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        session.append([Message::user("at last")]).await.unwrap();
    });
    assert_eq!(next(&mut following).await.unwrap(), "1 at last");
    writer.await.unwrap();
}

async fn a_long_session_is_followed_in_pages(site: Site) {
    let session = site.session().await;
    session.append((0..1234).map(|at| Message::user(format!("m{at}")))).await.unwrap();
    let mut following = session.follow().from_start().await.unwrap();
    let all = ready(&mut following).await;
    assert_eq!((all.len(), all.last().unwrap().as_str()), (1234, "1234 m1233"));
}

async fn what_is_new_is_a_stream_that_ends_with_the_session(site: Site) {
    let session = site.session().await;
    turn(&session, "q").await;
    let stream = session.follow().from_start().await.unwrap().into_stream();
    let mut stream = stream.map(|news| short(&news.unwrap()));
    let first: Vec<String> = stream.by_ref().take(6).collect().await;
    assert_eq!(first[..2], ["1 turn_start", "2 q"]);
    let all = tokio::spawn(async move { stream.collect::<Vec<_>>().await });
    turn(&session, "more").await;
    session.workspace().sessions().delete(session.id().clone()).await.unwrap();
    let rest = tokio::time::timeout(Duration::from_secs(60), all).await.expect("it ends").unwrap();
    // Whatever was read before the session went.
    let all = ["5 turn_start", "6 more", "7 yes", "8 turn_end", "runs 3 run_started", "runs 4 run_completed"];
    assert!(rest.iter().all(|one| all.contains(&one.as_str())), "{rest:?}");
}
