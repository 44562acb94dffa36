//! What providers run for a session, and the native items that came of it.

use turnkeep_core::id::TurnId;
use turnkeep_core::{ErrorKind, Payload, RunId, WorkspaceId};
use turnkeep_sessions::state::{
    ReplayedTurn, ResponseItem, ResponseRun, ResponseStatus, ResponseTurn, Responses,
};
use turnkeep_sessions::transfer::{ImportOptions, export, import, quietly};
use turnkeep_sessions::{Message, Session};

use crate::site::{Site, on_each};

on_each!(
    a_response_run_is_kept_and_moves_by_compare_and_swap,
    a_response_turn_ends_once,
    items_are_replayed_by_turn_in_order_and_of_completed_turns_only,
    the_newest_completed_turns_are_replayed_when_there_are_many,
    items_of_a_turn_that_ended_are_refused,
    many_writers_of_one_response_run_lose_nothing,
    responses_are_found_after_an_import_under_another_id,
);

fn turn(id: &str) -> TurnId {
    TurnId::new(id).unwrap()
}

fn item(index: u32, text: &str) -> ResponseItem {
    ResponseItem::new(index, "message", Payload::new(format!("{{\"text\": \"{text}\"}}")).unwrap())
}

async fn begin(responses: &Responses, id: &str) -> ResponseTurn {
    responses.save_turn(ResponseTurn::new(turn(id))).await.unwrap()
}

async fn end(responses: &Responses, id: &str, status: ResponseStatus) {
    let known = responses.turn(&turn(id)).await.unwrap().unwrap();
    responses.save_turn(ResponseTurn { status, ..known }).await.unwrap();
}

/// The texts of a replay, by turn.
fn shown(replay: &[ReplayedTurn]) -> Vec<(String, Vec<String>)> {
    let text =
        |json: &Payload| json.parse::<serde_json::Value>().unwrap()["text"].as_str().unwrap().to_owned();
    replay.iter().map(|one| (one.turn.to_string(), one.items.iter().map(text).collect())).collect()
}

async fn a_response_run_is_kept_and_moves_by_compare_and_swap(site: Site) {
    let session = site.session().await;
    let id = RunId::new("local-1").unwrap();
    assert_eq!(session.responses().run(&id).await.unwrap(), None);
    let new = ResponseRun {
        turn: Some(turn("t")),
        response: Some("resp_1".into()),
        polling_url: Some("https://acme.test/responses/1".into()),
        ..ResponseRun::new(id.clone(), "acme", "responses", "queued")
    };
    let made = session.responses().save_run(new.clone()).await.unwrap();
    assert_eq!((made.last_event, made.cancel_requested), (None, false));
    let twice = session.responses().save_run(new).await.unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::VersionConflict, "one that is there is not made again");
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let read = other.responses().run(&id).await.unwrap().unwrap();
    assert_eq!(read, made);
    let moved = ResponseRun { state: "in_progress".into(), last_event: Some(41), ..read.clone() };
    let moved = other.responses().save_run(moved).await.unwrap();
    let stale = ResponseRun { cancel_requested: true, ..read };
    let refused = session.responses().save_run(stale).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::VersionConflict);
    let cancelled = ResponseRun { cancel_requested: true, ..moved };
    session.responses().save_run(cancelled).await.unwrap();
    let now = session.responses().run(&id).await.unwrap().unwrap();
    assert_eq!((now.last_event, now.cancel_requested, now.state.as_str()), (Some(41), true, "in_progress"));
    assert_eq!(now.polling_url.as_deref(), Some("https://acme.test/responses/1"));
    let second = ResponseRun::new(RunId::new("local-2").unwrap(), "acme", "responses", "queued");
    session.responses().save_run(second).await.unwrap();
    let listed = session.responses().runs(1, None).await.unwrap();
    assert_eq!(listed.items[0].id.as_str(), "local-2", "the newest first");
    let rest = session.responses().runs(1, listed.next).await.unwrap();
    assert_eq!(rest.items[0], now);
}

async fn a_response_turn_ends_once(site: Site) {
    let session = site.session().await;
    let responses = session.responses();
    let new = ResponseTurn {
        request: Some("req".into()),
        model: Some("m".into()),
        request_summary: Some(Payload::new(r#"{"b":1,"a":2}"#).unwrap()),
        ..ResponseTurn::new(turn("t"))
    };
    let made = responses.save_turn(new).await.unwrap();
    assert_eq!((made.status, made.ended_at), (ResponseStatus::Open, None));
    let ended = ResponseTurn {
        status: ResponseStatus::Incomplete,
        incomplete_reason: Some("max_output_tokens".into()),
        response: Some("resp".into()),
        ..made.clone()
    };
    let ended = responses.save_turn(ended).await.unwrap();
    assert!(ended.ended_at.is_some());
    let stale = responses.save_turn(made).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::VersionConflict);
    let again = ResponseTurn { status: ResponseStatus::Completed, ..ended.clone() };
    assert_eq!(responses.save_turn(again).await.unwrap_err().kind(), ErrorKind::TurnNotOpen);
    let kept = responses.turn(&turn("t")).await.unwrap().unwrap();
    assert_eq!(kept, ended);
    assert_eq!(kept.request_summary.unwrap().as_str(), r#"{"b":1,"a":2}"#);
    begin(&responses, "u").await;
    let listed = responses.turns(10, None).await.unwrap().items;
    assert_eq!(listed.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(), ["u", "t"]);
}

async fn items_are_replayed_by_turn_in_order_and_of_completed_turns_only(site: Site) {
    let session = site.session().await;
    let responses = session.responses();
    for id in ["first", "second", "failed", "open"] {
        begin(&responses, id).await;
    }
    // They come as they come: turns mixed, later places first, one item again when it was finished.
    responses.archive(&turn("first"), [item(1, "b"), item(0, "draft").key("k")]).await.unwrap();
    responses.archive(&turn("second"), [item(0, "x")]).await.unwrap();
    responses.archive(&turn("failed"), [item(0, "lost")]).await.unwrap();
    responses.archive(&turn("open"), [item(0, "not yet")]).await.unwrap();
    responses.archive(&turn("first"), [item(2, "c"), item(0, "a").key("k")]).await.unwrap();
    end(&responses, "second", ResponseStatus::Completed).await;
    end(&responses, "failed", ResponseStatus::Failed).await;
    end(&responses, "first", ResponseStatus::Completed).await;
    let of = |id: &str, texts: &[&str]| {
        (id.to_owned(), texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    };
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let replay = other.responses().replay(10).await.unwrap();
    assert_eq!(shown(&replay), [of("second", &["x"]), of("first", &["a", "b", "c"])]);
    assert_eq!(replay[0].items[0].as_str(), r#"{"text": "x"}"#, "byte for byte");
    let newest = other.responses().replay(1).await.unwrap();
    assert_eq!(shown(&newest), [of("first", &["a", "b", "c"])]);
    let items = other.responses().items(&turn("open")).await.unwrap();
    assert_eq!(items.len(), 1, "what is not replayed is kept all the same");
    let items = other.responses().items(&turn("first")).await.unwrap();
    assert_eq!(items.iter().map(|item| item.output_index).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(items.iter().all(|item| item.archived_at.is_some()));
    assert_eq!(responses.replay(0).await.unwrap_err().kind(), ErrorKind::Invalid);
}

async fn the_newest_completed_turns_are_replayed_when_there_are_many(site: Site) {
    let session = site.session().await;
    let responses = session.responses();
    // More events than one page of the walk.
    for number in 0..30 {
        let id = format!("t{number}");
        begin(&responses, &id).await;
        let items: Vec<_> = (0..40).map(|index| item(index, &format!("{number}.{index}"))).collect();
        responses.archive(&turn(&id), items).await.unwrap();
        end(&responses, &id, ResponseStatus::Completed).await;
    }
    for limit in [1, 7, 29, 30, 99] {
        let replay = responses.replay(limit).await.unwrap();
        let expected = limit.min(30);
        assert_eq!(replay.len(), expected);
        for (place, (id, texts)) in shown(&replay).into_iter().enumerate() {
            let number = 30 - expected + place;
            assert_eq!(id, format!("t{number}"));
            assert_eq!(texts, (0..40).map(|index| format!("{number}.{index}")).collect::<Vec<_>>());
        }
    }
}

async fn items_of_a_turn_that_ended_are_refused(site: Site) {
    let session = site.session().await;
    let responses = session.responses();
    let unknown = responses.archive(&turn("t"), [item(0, "a")]).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    begin(&responses, "t").await;
    let nothing = responses.archive(&turn("t"), []).await.unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::Invalid);
    end(&responses, "t", ResponseStatus::Cancelled).await;
    let late = responses.archive(&turn("t"), [item(0, "a")]).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TurnNotOpen);
    assert!(responses.items(&turn("t")).await.unwrap().is_empty());
    // While a run executes, only its handle writes.
    begin(&responses, "u").await;
    let run = session.begin_run(Message::user("work")).await.unwrap();
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let refused = other.responses().archive(&turn("u"), [item(0, "a")]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LeaseHeld);
    responses.archive(&turn("u"), [item(0, "a")]).await.unwrap();
    run.complete([Message::assistant("done")]).await.unwrap();
}

async fn many_writers_of_one_response_run_lose_nothing(site: Site) {
    let session = site.session().await;
    let id = RunId::new("r").unwrap();
    let new = ResponseRun::new(id.clone(), "acme", "responses", "in_progress");
    session.responses().save_run(ResponseRun { last_event: Some(0), ..new }).await.unwrap();
    let mut writers = Vec::new();
    for _ in 0..4 {
        let (ws, id, session) = (site.workspace().await, id.clone(), session.id().clone());
        writers.push(tokio::spawn(async move {
            let responses = ws.sessions().open(&session).await.unwrap().responses();
            let mut done = 0;
            while done < 5 {
                let known = responses.run(&id).await.unwrap().unwrap();
                let next = ResponseRun { last_event: known.last_event.map(|last| last + 1), ..known };
                match responses.save_run(next).await {
                    Ok(_) => done += 1,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::VersionConflict, "{error}"),
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(session.responses().run(&id).await.unwrap().unwrap().last_event, Some(20));
}

async fn responses_are_found_after_an_import_under_another_id(site: Site) {
    let session = site.session().await;
    let responses = session.responses();
    begin(&responses, "t").await;
    responses.archive(&turn("t"), [item(0, "a")]).await.unwrap();
    end(&responses, "t", ResponseStatus::Completed).await;
    session.capabilities().set("mode", "plan").await.unwrap();
    let copy = copied(&site, &session).await;
    assert_ne!(copy.id(), session.id());
    let kept = copy.responses().turn(&turn("t")).await.unwrap().unwrap();
    assert_eq!(kept.status, ResponseStatus::Completed);
    assert_eq!(copy.responses().items(&turn("t")).await.unwrap().len(), 1);
    assert_eq!(copy.responses().replay(5).await.unwrap().len(), 1);
    assert_eq!(copy.capabilities().get().await.unwrap().values["mode"], "plan");
    let changed = copy.capabilities().set("mode", "build").await.unwrap();
    assert_eq!(changed[0].number, 2, "its log goes on");
}

/// The session in another workspace and under another id.
async fn copied(site: &Site, session: &Session) -> Session {
    let ws = session.workspace();
    let mut file = std::io::Cursor::new(Vec::new());
    export(ws.store().as_ref(), ws.id(), session.session_ref(), &mut file, &mut quietly()).await.unwrap();
    let other = site.workspace_named("elsewhere").await;
    let options = ImportOptions::default().with_id(turnkeep_core::SessionId::new("another").unwrap());
    let elsewhere = WorkspaceId::new("elsewhere").unwrap();
    import(other.store().as_ref(), &elsewhere, &mut file, &options, &mut quietly()).await.unwrap();
    other.sessions().open(&turnkeep_core::SessionId::new("another").unwrap()).await.unwrap()
}
