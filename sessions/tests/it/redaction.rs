//! Redaction: what a host hides is in no byte of the store, whatever way it came.

use std::io::Cursor;
use std::path::Path;

use turnkeep_core::commit::{Commit, NewEvent, Op, Put, RunPatch, SessionPatch};
use turnkeep_core::id::{Collection, EventKind, RecordKey, SessionId, StreamName};
use turnkeep_core::model::{Channel, Title, TitleSource};
use turnkeep_core::query::RowQuery;
use turnkeep_core::{EntryNo, ErrorKind, Payload, SessionRef, Store, Timestamp, WorkspaceId, commit};
use turnkeep_sessions::message::{Block, Message, ToolCall, ToolResult};
use turnkeep_sessions::redact::{CommonSecrets, RedactingStore};
use turnkeep_sessions::transfer::{ImportOptions, export, import, quietly};
use turnkeep_sessions::{
    Admission, BranchSummary, Compaction, Directories, Draft, Label, ModeChange, ModelChange, RunError,
    Session, ThinkingLevel, WaitingFor, Workspace,
};

use crate::site::{Site, on_each};

/// What nobody may find. Odd enough to be in no file by chance, with a character that JSON may escape.
const SECRET: &str = "ZEBRA/quartz-9471";
const HIDDEN: &str = "[gone]";

fn hides(text: &str) -> Option<String> {
    text.contains(SECRET).then(|| text.replace(SECRET, HIDDEN))
}

async fn redacting(site: &Site) -> Workspace {
    site.options().redactor(hides).open(site.store().await, WorkspaceId::new("w").unwrap()).await.unwrap()
}

fn json(text: &str) -> Payload {
    Payload::new(text.replace("SECRET", SECRET)).unwrap()
}

fn say(words: &str) -> String {
    words.replace("SECRET", SECRET)
}

/// Writes the secret by every way there is into a store.
async fn every_way(ws: &Workspace) -> Session {
    let session = ws
        .sessions()
        .create()
        .title(say("about SECRET"))
        .cwd(say("/nowhere/SECRET"))
        .channel(Channel { kind: "room".into(), id: "7".into() })
        .meta(json(r#"{"SECRET":["SECRET",{"deep":"a SECRET b"}]}"#))
        .await
        .unwrap();
    let call = Block::tool_call(ToolCall::new(
        "c1",
        "look",
        json(r#"{"at":"ZEBRA\/quartz-9471","n":"\u005aEBRA/quartz-9471"}"#),
    ));
    let first = EntryNo::FIRST;
    let drafts: Vec<Draft> = vec![
        Message::user(say("here is SECRET")).into(),
        Message::new(
            turnkeep_core::id::Role::new("assistant").unwrap(),
            vec![Block::thinking(say("SECRET?"), None), call],
        )
        .into(),
        Message::tool_results([ToolResult::new("c1", say("{\"found\":\"SECRET\"}"), false)]).into(),
        Draft::custom(json(r#"{"args":"{\"k\":\"ZEBRA\\/quartz-9471\"}"}"#)),
        Draft::custom_message(&Message::user(say("note SECRET"))),
        Draft::title(say("now SECRET"), TitleSource::Auto),
        Draft::of_kind("weather", json("[\"SECRET\"]")).text(say("it rains SECRET")),
        Compaction::new(say("summary with SECRET"), first).into(),
        BranchSummary::new(say("elsewhere SECRET"), first).into(),
        ModelChange::new(say("SECRET"), say("SECRET")).into(),
        ModeChange::new(say("SECRET")).into(),
        ThinkingLevel::new(say("SECRET")).into(),
        Directories::new([say("SECRET")]).into(),
    ];
    session.append(drafts).await.unwrap();
    let labelled = session.leaf().unwrap();
    session.append([Label::new(labelled, say("SECRET"))]).await.unwrap();
    session.rename(say("renamed SECRET")).await.unwrap();
    let patch = SessionPatch {
        title: Some(Some(Title { text: say("SECRET"), source: TitleSource::Manual })),
        cwd: Some(Some(say("SECRET"))),
        meta: Some(Some(json("\"SECRET\""))),
        ..SessionPatch::default()
    };
    session.patch(patch).await.unwrap();

    let project = ws.projects().create(say("SECRET")).await.unwrap();
    ws.projects().rename(&project, say("again SECRET")).await.unwrap();
    session
        .capabilities()
        .set("look", SECRET)
        .actor(say("SECRET"))
        .source(say("SECRET"))
        .data(json("\"SECRET\""))
        .await
        .unwrap();
    session.guidance().post(say("do SECRET")).from(say("SECRET")).data(json("[\"SECRET\"]")).await.unwrap();

    let run = session
        .begin_run(Message::user(say("SECRET again")))
        .source(say("SECRET"))
        .model(say("SECRET"))
        .mode(say("SECRET"))
        .work_dir(say("SECRET"))
        .fingerprint(say("SECRET"))
        .request(json(r#"{"k":"SECRET"}"#))
        .policy(json("[\"SECRET\"]"))
        .await
        .unwrap();
    let patch = RunPatch {
        error: Some(Some(json("{\"e\":\"SECRET\"}"))),
        progress: Some(Some(json("\"SECRET\""))),
        context_usage: Some(Some(json("[\"SECRET\"]"))),
        model: Some(Some(say("SECRET"))),
    };
    run.patch(patch).await.unwrap();
    run.stream("it is ZEBRA/qua").await.unwrap();
    run.stream("rtz-9471, or so\nand then ZEB").await.unwrap();
    run.wait_for(WaitingFor::Input).await.unwrap();
    run.resume().await.unwrap();
    run.stream("RA and ZEBRA/quartz-").await.unwrap();
    run.stream("9471").await.unwrap();
    let error =
        RunError::provider("broken").message(say("SECRET")).details(serde_json::json!({ "h": SECRET }));
    run.fail(error).await.unwrap();

    let given_up = session.begin_run(Message::user("and now")).await.unwrap();
    given_up.stream(&say("streamed: SECRET")).await.unwrap();
    drop(given_up);
    ws.settle().await;
    session.reload().await.unwrap();
    let done = session.begin_run(Message::user("last")).await.unwrap();
    done.append([Message::assistant(say("SECRET"))]).await.unwrap();
    done.complete([Message::assistant(say("SECRET!"))]).stop_reason(say("SECRET")).await.unwrap();

    // Whatever a host does at the store itself.
    let event = NewEvent {
        kind: EventKind::new("own").unwrap(),
        run: None,
        at: Timestamp::default(),
        payload: json(r#"{"p":"SECRET"}"#),
    };
    let put = |collection: &str| {
        Op::PutRecord(Put {
            collection: Collection::new(collection).unwrap(),
            key: RecordKey::new("k").unwrap(),
            owner: Some(session.session_ref().clone()),
            status: None,
            expect: commit::Expect::Absent,
            payload: json(r#"{"name":"SECRET"}"#),
        })
    };
    let commit = Commit::new(ws.id().clone())
        .op(Op::AppendEvents {
            session: session.session_ref().clone(),
            stream: StreamName::new("own").unwrap(),
            expect_next: None,
            events: vec![event],
        })
        .op(put("host-things"));
    ws.store().commit(commit).await.unwrap();
    session
}

/// Every row of a session as JSON.
async fn rows(store: &dyn Store, session: &SessionRef) -> String {
    let mut query = RowQuery::session(WorkspaceId::new("w").unwrap(), session.clone());
    query.limit = 1_000;
    let page = store.rows(&query).await.unwrap();
    assert!(page.next.is_none());
    page.items.iter().map(|row| serde_json::to_string(row).unwrap() + "\n").collect()
}

/// Answers how many files were looked at.
#[track_caller]
fn no_file_has_it(folder: &Path) -> usize {
    let needles =
        [SECRET.to_owned(), SECRET.replace('/', "\\/"), "quartz-9471".to_owned(), "ZEBRA/qua".to_owned()];
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += no_file_has_it(&path);
            continue;
        }
        files += 1;
        let bytes = std::fs::read(&path).unwrap();
        for needle in &needles {
            let found = bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
            assert!(!found, "{} holds {needle}", path.display());
        }
    }
    files
}

on_each!(
    case_69_a_secret_is_in_no_byte_of_any_file_whatever_way_it_came,
    case_69_without_a_redactor_nothing_is_changed,
    a_repeat_is_recognised_by_what_is_stored,
    an_import_is_redacted_and_a_second_one_adds_nothing,
    rows_that_were_not_redacted_before_are_refused,
    a_secret_in_two_pieces_of_a_stream_is_hidden_and_all_else_is_shown,
);

async fn case_69_a_secret_is_in_no_byte_of_any_file_whatever_way_it_came(site: Site) {
    let ws = redacting(&site).await;
    let session = every_way(&ws).await;
    let stored = rows(&**ws.store(), session.session_ref()).await;
    assert!(!stored.contains("quartz-9471") && !stored.contains("ZEBRA/qua"), "{stored}");
    assert!(stored.matches(HIDDEN).count() > 30, "{stored}");

    // A file that another program wrote, with the secret in it.
    let plain = site.workspace_named("other").await;
    let source = plain.sessions().create().await.unwrap();
    source.append([Message::user("clean")]).await.unwrap();
    let mut file = Vec::new();
    export(&**plain.store(), plain.id(), source.session_ref(), &mut file, &mut quietly()).await.unwrap();
    let file = String::from_utf8(file).unwrap().replace("clean", SECRET);
    let options = ImportOptions::default().with_id(SessionId::new("imported").unwrap());
    ws.import(&mut Cursor::new(file), options, &mut quietly()).await.unwrap();
    let imported = ws.sessions().open(&SessionId::new("imported").unwrap()).await.unwrap();
    assert!(rows(&**ws.store(), imported.session_ref()).await.contains(HIDDEN));

    if let Some(folder) = site.folder() {
        assert!(no_file_has_it(folder) > 0);
        ws.close().await.unwrap();
        plain.close().await.unwrap();
        assert!(no_file_has_it(folder) > 0);
    }
}

async fn case_69_without_a_redactor_nothing_is_changed(site: Site) {
    let ws = site.workspace().await;
    let payload = json(r#" {"b": 1.50, "a":"\u005aEBRA/quartz-9471 SECRET"} "#);
    let session = ws.sessions().create().title(say("SECRET")).await.unwrap();
    session.append([Draft::custom(payload.clone())]).await.unwrap();
    let run = session.begin_run(Message::user("x")).await.unwrap();
    run.stream("no line ").await.unwrap();
    run.stream("is waited for").await.unwrap();
    let streamed = rows(&**ws.store(), session.session_ref()).await;
    assert!(streamed.contains("no line ") && streamed.contains("is waited for"));
    let mut entries = session.history().await.unwrap().items;
    entries.retain(|item| item.entry.kind.as_str() == "custom");
    let all = rows(&**ws.store(), session.session_ref()).await;
    assert!(all.contains(&serde_json::to_string(&payload).unwrap()), "byte for byte");
    assert!(all.contains(SECRET));
    run.cancel().await.unwrap();

    // One that finds nothing changes nothing either.
    let ws = site.options().redactor(|_: &str| None).open(site.store().await, ws.id().clone()).await.unwrap();
    let session = ws.sessions().create().await.unwrap();
    session.append([Draft::custom(payload.clone())]).await.unwrap();
    let all = rows(&**ws.store(), session.session_ref()).await;
    assert!(all.contains(&serde_json::to_string(&payload).unwrap()));
}

async fn a_repeat_is_recognised_by_what_is_stored(site: Site) {
    let ws = redacting(&site).await;
    let session = ws.sessions().create().await.unwrap();
    let first = session.append([Message::user(say("pay SECRET"))]).request_id("job").await.unwrap();
    // As a host has it that read the first one back.
    for words in [say("pay SECRET"), format!("pay {HIDDEN}")] {
        let again = session.append([Message::user(words)]).request_id("job").await.unwrap();
        assert!(again.repeated);
        assert_eq!(again.numbers, first.numbers);
    }
    let other = session.append([Message::user("pay less")]).request_id("job").await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::RequestConflict);

    let run = session
        .begin_run(Message::user(say("SECRET")))
        .request(json("\"SECRET\""))
        .request_id("run")
        .await
        .unwrap();
    run.append([Message::assistant(say("SECRET"))]).request_id("part").await.unwrap();
    assert!(run.append([Message::assistant(HIDDEN)]).request_id("part").await.unwrap().repeated);
    run.complete([Message::assistant("done")]).await.unwrap();
    let admission = session
        .begin_run(Message::user(HIDDEN))
        .request(Payload::new(format!("\"{HIDDEN}\"")).unwrap())
        .request_id("run")
        .admit()
        .await
        .unwrap();
    assert!(matches!(admission, Admission::Repeated { .. }));
}

async fn an_import_is_redacted_and_a_second_one_adds_nothing(site: Site) {
    let ws = redacting(&site).await;
    let file = crate::transfer_pi::FIXTURE.replace("count the loaves", SECRET);
    let first = ws.import(&mut Cursor::new(&file), ImportOptions::default(), &mut quietly()).await.unwrap();
    assert_eq!(first.added, 17);
    let session = ws.sessions().open(&first.session.id).await.unwrap();
    assert_eq!(session.info().await.unwrap().preview.as_deref(), Some(HIDDEN));
    assert!(!rows(&**ws.store(), session.session_ref()).await.contains(SECRET));
    let second = ws.import(&mut Cursor::new(&file), ImportOptions::default(), &mut quietly()).await.unwrap();
    assert_eq!((second.added, second.already_there), (0, 17));
}

async fn rows_that_were_not_redacted_before_are_refused(site: Site) {
    let store = RedactingStore::new(site.store().await, hides);
    let id = WorkspaceId::new("w").unwrap();
    let file = crate::transfer_pi::FIXTURE.replace("count the loaves", SECRET);
    let refused = import(&store, &id, &mut Cursor::new(&file), &ImportOptions::default(), &mut quietly())
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let options = ImportOptions::default().with_redactor(hides);
    import(&store, &id, &mut Cursor::new(&file), &options, &mut quietly()).await.unwrap();
}

async fn a_secret_in_two_pieces_of_a_stream_is_hidden_and_all_else_is_shown(site: Site) {
    let ws = redacting(&site).await;
    let session = ws.sessions().create().await.unwrap();
    let text = say("one\ntwo SECRET three\n\nfour SECRET");
    // Cut at every place.
    for cut in 1..text.len() {
        let run = session.begin_run(Message::user("go on")).await.unwrap();
        run.stream(&text[..cut]).await.unwrap();
        run.stream(&text[cut..]).await.unwrap();
        let while_streaming = rows(&**ws.store(), session.session_ref()).await;
        assert!(!while_streaming.contains("quartz") && !while_streaming.contains("ZEB"), "cut at {cut}");
        run.cancel().await.unwrap();
        let history = session.history().await.unwrap();
        let shown = history.items.last().unwrap().entry.text.clone().unwrap();
        assert_eq!(shown, text.replace(SECRET, HIDDEN), "cut at {cut}");
    }
}

/// Twenty kinds and more: what is planted, and what of it may be found nowhere.
pub(crate) fn planted() -> Vec<(String, String)> {
    let long = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let both = |before: &str, secret: String| (format!("{before}{secret}"), secret);
    vec![
        both("key ", format!("sk-proj-{long}")),
        both("key ", format!("sk-ant-api03-{long}")),
        both("key=", "AIzaSyA1B2C3D4E5F6G7H8I9J0K1L2M3N4O5P6Q".to_owned()),
        both("", format!("ya29.{long}")),
        both("", format!("gsk_{long}")),
        both("", format!("hf_{long}")),
        both("id ", "AKIAIOSFODNN7EXAMPLE".to_owned()),
        both("aws_secret_access_key = ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned()),
        both("", format!("ghp_{long}")),
        both("", format!("github_pat_11AAAA_{long}")),
        both("", format!("glpat-{long}")),
        both("", "xoxb-123456789012-abcdefGHIJKL".to_owned()),
        both("https://hooks.slack.com/services/", "T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX".to_owned()),
        both("", format!("sk_live_{long}")),
        both("", format!("npm_{long}")),
        both("", format!("SG.{}.{long}", &long[..20])),
        both("bot ", format!("123456789:{}", &long[..35])),
        both("", format!("dop_v1_{}", "0123456789abcdef".repeat(4))),
        both("", format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.{long}")),
        (
            format!("-----BEGIN RSA PRIVATE KEY-----\nMIIEow{long}\n{long}==\n-----END RSA PRIVATE KEY-----"),
            format!("MIIEow{long}"),
        ),
        both("Authorization: Basic ", "dXNlcjpoZXJyaW5n".to_owned()),
        both("curl -H 'authorization: Bearer ", "opaque.herring.token'".trim_end_matches('\'').to_owned()),
        both("Set-Cookie: sid=", "herring31337; HttpOnly".to_owned()),
        (String::from("https://ada:herring-pass@example.org/x"), "herring-pass".to_owned()),
        (String::from("postgres://svc:p4ss-herring@db:5432/x"), "p4ss-herring".to_owned()),
        (String::from("Server=db;User=sa;Pwd=herring word;Timeout=3"), "herring word".to_owned()),
        both("AccountName=x;AccountKey=", "aGVycmluZ2hlcnJpbmdoZXJyaW5n==".to_owned()),
        both("password: ", "herring123".to_owned()),
        (String::from("{\"client_secret\": \"herring secret\""), "herring secret".to_owned()),
        (String::from("{\\\"api_key\\\":\\\"herring-key\\\"}"), "herring-key".to_owned()),
    ]
}

#[test]
fn common_secrets_of_twenty_kinds_are_hidden_in_text_and_in_json() {
    use turnkeep_sessions::redact::Redactor;
    let common = CommonSecrets::new().unwrap();
    let kinds: std::collections::BTreeSet<&str> = common.kinds().collect();
    assert!(kinds.len() >= 20, "{kinds:?}");
    for (text, secret) in planted() {
        assert!(text.contains(&secret), "{text}");
        let around = format!("before it\n{text}\nafter it");
        let hidden = common.text(&around).unwrap_or_else(|| panic!("nothing is hidden of {text}"));
        assert!(!hidden.contains(&secret), "{hidden}");
        assert!(hidden.starts_with("before it\n") && hidden.ends_with("\nafter it"), "{hidden}");
        assert!(hidden.contains("[redacted:"), "{hidden}");
        let again = common.text(&hidden).unwrap_or_else(|| hidden.clone());
        assert_eq!(again, hidden, "what is hidden stays as it is");
        // Streamed, whatever comes in two pieces: nothing of it is settled before its line, or its block, is whole.
        for cut in 0..text.len() {
            let Some(begin) = text.get(..cut) else { continue };
            let settled = common.settled(begin);
            assert!(
                !begin[..settled].contains(&secret[..secret.len().min(8)]),
                "{begin:?} is settled up to {settled}"
            );
        }
    }
}

#[test]
fn common_secrets_leave_ordinary_words_alone() {
    use turnkeep_sessions::redact::Redactor;
    let common = CommonSecrets::new().unwrap();
    for text in [
        "the password is not here",
        "PWD=/home/ada/project",
        "fn login(password: &str, secret: Option<u8>) -> bool",
        "https://example.org:8080/a@b",
        "git@github.com:ada/bakery.git",
        "sk-learn and task-management-of-things",
        "see eyJ and AKIA",
        "token_count: 4711, max_tokens=100",
        "basic authorization works",
        "12:30:45 bearer of news",
    ] {
        let hidden = common.text(text).filter(|hidden| hidden != text);
        assert_eq!(hidden, None, "{text}");
    }
    assert_eq!(common.field("max_tokens", "100"), None);
    assert_eq!(common.field("name", "set_password"), None);
    assert_eq!(common.field("Client-Secret", "x").as_deref(), Some("[redacted:secret]"));
    assert_eq!(common.field("password", "1234").as_deref(), Some("[redacted:password]"));
    assert_eq!(common.field("password", ""), None);
}

#[tokio::test]
async fn a_host_adds_kinds_of_its_own() {
    let bad = [("Badge", "x"), ("", "x"), ("badge", "(")];
    for (name, pattern) in bad {
        let refused = CommonSecrets::new().unwrap().also(name, pattern).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(!refused.to_string().contains('('), "a pattern may be a secret");
    }
    let site = Site::memory();
    let secrets =
        CommonSecrets::new().unwrap().also("badge", r"B-(?P<secret>\d{4})").unwrap().also_field("pin");
    let ws = site
        .options()
        .redactor(secrets)
        .open(site.store().await, WorkspaceId::new("w").unwrap())
        .await
        .unwrap();
    let session = ws.sessions().create().await.unwrap();
    let payload = Payload::new(r#"{"z":"B-1234","pin":1234,"a":[{"api_key":"x"}],"n":1.50}"#).unwrap();
    session.append([Draft::custom(payload)]).await.unwrap();
    let all = rows(&**ws.store(), session.session_ref()).await;
    let hidden =
        r#"{"z":"B-[redacted:badge]","pin":"[redacted:pin]","a":[{"api_key":"[redacted:apikey]"}],"n":1.50}"#;
    assert!(all.contains(&serde_json::to_string(hidden).unwrap()), "{all}");
}
