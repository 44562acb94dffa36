//! The audit log: what it says, what it never says, and that it survives what befalls files.

use std::io::Write;
use std::sync::Arc;

use turnkeep_core::id::{RunId, SessionId};
use turnkeep_core::model::Usage;
use turnkeep_core::{ErrorKind, Store, WorkspaceId};
use turnkeep_sessions::audit::{AuditEvent, AuditLine};
use turnkeep_sessions::message::{Message, ToolCall, ToolResult};
use turnkeep_sessions::testing::{Fault, FaultStore};
use turnkeep_sessions::{Draft, RunError, WaitingFor, Workspace};

use crate::redaction::planted;
use crate::site::{Site, on_each};

async fn logging(site: &Site, folder: &std::path::Path) -> Workspace {
    logging_to(site, site.store().await, folder).await
}

async fn logging_to(site: &Site, store: Arc<dyn Store>, folder: &std::path::Path) -> Workspace {
    site.options().audit_log(folder).open(store, WorkspaceId::new("w").unwrap()).await.unwrap()
}

fn events(ws: &Workspace, session: &SessionId) -> Vec<AuditEvent> {
    let lines = ws.audit().lines(session).unwrap();
    lines
        .map(|line| match line {
            AuditLine::Event(event) => *event,
            AuditLine::Torn { line } => panic!("line {line} is torn"),
        })
        .collect()
}

/// `event`, with phase or code behind it.
fn told(events: &[AuditEvent]) -> Vec<String> {
    let more = |event: &AuditEvent| event.phase.clone().or_else(|| event.code.clone());
    events
        .iter()
        .map(|event| match more(event) {
            Some(more) => format!("{} {more}", event.event),
            None => event.event.clone(),
        })
        .collect()
}

on_each!(
    the_log_tells_the_life_of_a_run_its_phases_errors_and_tokens,
    the_log_of_a_recovered_run_says_so,
    the_log_holds_no_secret_of_twenty_kinds_and_nobodys_words,
    a_failing_log_fails_no_turn_and_is_reported,
    refused_commits_and_lost_answers_are_in_the_log,
    without_a_folder_there_is_no_log,
);

async fn the_log_tells_the_life_of_a_run_its_phases_errors_and_tokens(site: Site) {
    let folder = tempfile::tempdir().unwrap();
    let ws = logging(&site, &folder.path().join("logs")).await;
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("why?")).await.unwrap();
    run.phase("calling the model");
    run.stream("let me").await.unwrap();
    run.stream(" see").await.unwrap();
    let call = ToolCall::new("c1", "look", turnkeep_core::Payload::empty());
    run.append([Message::assistant_with_calls("", [call])]).await.unwrap();
    let results = ["c1"].map(|id| ToolResult::new(id, "found", false));
    let used =
        Usage { requests: 1, input_tokens: 70, output_tokens: 7, total_tokens: 77, ..Usage::default() };
    run.append([Message::tool_results(results)]).usage(used).await.unwrap();
    run.wait_for(WaitingFor::Approval).await.unwrap();
    run.resume().await.unwrap();
    let line = line!() + 1;
    run.fail(RunError::provider("timeout").message("the provider said nothing")).await.unwrap();

    let events = events(&ws, session.id());
    assert_eq!(
        told(&events),
        [
            "session.created",
            "run.started",
            "phase input",
            "phase calling the model",
            "phase streaming",
            "run.running",
            "phase model",
            "phase tools",
            "usage",
            "run.waiting_approval",
            "run.running",
            "error provider.timeout",
            "phase unfinished",
            "run.failed provider.timeout",
        ]
    );
    let of_run = &events[1..];
    assert!(of_run.iter().all(|event| event.run.as_deref() == Some(run.id().as_str())));
    assert!(events.iter().all(|event| event.by == events[0].by && event.by.len() == 8 && !event.again));
    assert!(events.iter().all(|event| event.at.ends_with('Z') && event.at.len() == 24), "{events:?}");
    assert_eq!(events[8].usage, Some(used));
    assert_eq!(events[11].place, Some(format!("it/audit.rs:{line}")));
    assert_eq!(ws.audit().trouble(), None);

    // One line each, private, in a file that no id names.
    let path = ws.audit().path(session.id()).unwrap();
    assert_eq!(path.file_name().unwrap().len(), 32 + ".jsonl".len());
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), events.len());
    #[cfg(unix)]
    for (path, mode) in [(path.as_path(), 0o600), (path.parent().unwrap(), 0o700)] {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, mode);
    }
    ws.sessions().delete(session.id().clone()).await.unwrap();
    assert_eq!(told(&self::events(&ws, session.id())).last().unwrap(), "session.deleted");
}

async fn the_log_of_a_recovered_run_says_so(site: Site) {
    let folder = tempfile::tempdir().unwrap();
    let ws = logging(&site, folder.path()).await;
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("go")).await.unwrap();
    drop(run);
    ws.settle().await;
    let told = told(&events(&ws, session.id()));
    assert_eq!(told, ["session.created", "run.started", "phase input", "run.interrupted host.dropped"]);
}

async fn the_log_holds_no_secret_of_twenty_kinds_and_nobodys_words(site: Site) {
    let folder = tempfile::tempdir().unwrap();
    let ws = logging(&site, folder.path()).await;
    let planted = planted();
    assert!(planted.len() >= 20);
    for (text, _) in &planted {
        let session = ws.sessions().create().title(text).await.unwrap();
        let run = session
            .begin_run(Message::user(format!("marmalade {text}")))
            .id(RunId::new(text.replace('\n', " ").chars().take(200).collect::<String>()).unwrap())
            .source(text)
            .model(text)
            .request_id(text.replace('\n', " ").chars().take(200).collect::<String>())
            .await
            .unwrap();
        run.stream(text).await.unwrap();
        run.append([
            Draft::from(Message::assistant(text)),
            Draft::title(text, turnkeep_core::model::TitleSource::Auto),
        ])
        .await
        .unwrap();
        let error = RunError::new(text, text).message(text).details(serde_json::json!({ "raw": text }));
        run.fail(error).await.unwrap();
        session.rename(text).await.unwrap();
        // A refusal names what it refuses, but not in the log.
        let key = text.replace('\n', " ").chars().take(200).collect::<String>();
        session.append([Draft::from(Message::user(text)).key(&key)]).await.unwrap();
        session.append([Draft::from(Message::user(text)).key(&key)]).await.unwrap_err();
    }
    assert_eq!(ws.audit().trouble(), None);
    let mut all = String::new();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        all.push_str(&path.display().to_string());
        all.push_str(&std::fs::read_to_string(path).unwrap());
    }
    assert!(all.matches("run.failed").count() >= planted.len());
    assert!(!all.contains("marmalade"));
    for (_, secret) in &planted {
        for part in [secret.as_str(), &secret[..secret.len().min(12)]] {
            assert!(!all.contains(part), "the log holds {part}");
        }
    }
    for word in ["herring", "Authorization", "PRIVATE KEY", "password"] {
        assert!(!all.contains(word), "the log holds {word}");
    }
}

async fn a_failing_log_fails_no_turn_and_is_reported(site: Site) {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    // A file where the folder should be.
    std::fs::write(&logs, "in the way").unwrap();
    let ws = logging(&site, &logs).await;
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("go")).await.unwrap();
    run.phase("thinking");
    run.complete([Message::assistant("done")]).await.unwrap();
    let trouble = ws.audit().trouble().expect("somebody must be told");
    assert!(trouble.failed >= 4, "{trouble:?}");
    assert_eq!(Some(trouble.path), ws.audit().path(session.id()));
    assert!(!trouble.reason.is_empty());
    assert_eq!(session.info().await.unwrap().messages, 2);

    // Once it can be written again, it is.
    std::fs::remove_file(&logs).unwrap();
    session.append([Message::user("more")]).await.unwrap();
    assert_eq!(told(&events(&ws, session.id())), ["phase input"]);
    assert_eq!(ws.audit().trouble().unwrap().failed, trouble.failed);
}

async fn refused_commits_and_lost_answers_are_in_the_log(site: Site) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultStore::new(site.store().await));
    let ws = logging_to(&site, store.clone(), folder.path()).await;
    let session = ws.sessions().create().await.unwrap();
    store.next([Fault::After(ErrorKind::CommitUnknown)]);
    session.append([Message::user("once")]).await.unwrap();
    let other = ws.sessions().open(session.id()).await.unwrap();
    other.append([Message::user("twice")]).await.unwrap();
    session.append([Message::user("late")]).await.unwrap_err();
    let events = events(&ws, session.id());
    assert_eq!(
        told(&events),
        [
            "session.created",
            "refused TK-COMMIT-UNKNOWN",
            "phase input",
            "phase input",
            "refused TK-STALE-LEAF"
        ]
    );
    let again: Vec<bool> = events.iter().map(|event| event.again).collect();
    assert_eq!(again, [false, false, true, false, false]);
}

async fn without_a_folder_there_is_no_log(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    assert_eq!((ws.audit().folder(), ws.audit().path(session.id())), (None, None));
    assert_eq!(ws.audit().lines(session.id()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_cut_tail_stays_by_itself_and_the_next_line_is_whole() {
    let site = Site::memory();
    let folder = tempfile::tempdir().unwrap();
    let ws = logging(&site, folder.path()).await;
    let session = ws.sessions().create().await.unwrap();
    let path = ws.audit().path(session.id()).unwrap();
    let whole = std::fs::read_to_string(&path).unwrap();
    for cut in 1..whole.len() - 1 {
        let torn = &whole[..cut];
        std::fs::write(&path, format!("{whole}{torn}")).unwrap();
        session.append([Message::user("go on")]).await.unwrap();
        let lines: Vec<AuditLine> = ws.audit().lines(session.id()).unwrap().collect();
        let [AuditLine::Event(first), AuditLine::Torn { line: 2 }, AuditLine::Event(last)] = lines.as_slice()
        else {
            panic!("cut at {cut}: {lines:?}")
        };
        assert_eq!((first.event.as_str(), last.phase.as_deref()), ("session.created", Some("input")));
    }
    // What no log writer wrote is no end either.
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"\xff\xfe\n[]\n{}\n\n{\"event\":\"later\",\"new\":{\"x\":[1]}}\n").unwrap();
    let lines: Vec<AuditLine> = ws.audit().lines(session.id()).unwrap().collect();
    let torn = lines.iter().filter(|line| matches!(line, AuditLine::Torn { .. })).count();
    assert_eq!(torn, 4);
    assert!(matches!(lines.last(), Some(AuditLine::Event(event)) if event.event == "later"));
}

/// The environment variable that names the folder of the store and the log to a child of this test.
const CHILD: &str = "TURNKEEP_AUDIT_CHILD";

#[test]
fn several_processes_write_whole_lines_to_one_file() {
    const EACH: usize = 60;
    let write = |folder: &std::path::Path| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = turnkeep_sqlite::SqliteStore::open(folder.join("state.sqlite3")).await.unwrap();
            let options = turnkeep_sessions::WorkspaceOptions::default().audit_log(folder.join("logs"));
            let ws = options.open(Arc::new(store), WorkspaceId::new("w").unwrap()).await.unwrap();
            let session = ws.sessions().open(&SessionId::new("shared").unwrap()).await.unwrap();
            for _ in 0..EACH {
                // People write to a session without its lease: none of these is refused.
                loop {
                    session.reload().await.unwrap();
                    if session.append([Message::user("hello")]).await.is_ok() {
                        break;
                    }
                }
            }
            assert_eq!(ws.audit().trouble(), None);
        });
    };
    if let Some(folder) = std::env::var_os(CHILD) {
        return write(std::path::Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ws = runtime.block_on(async {
        let store = turnkeep_sqlite::SqliteStore::open(folder.path().join("state.sqlite3")).await.unwrap();
        let options = turnkeep_sessions::WorkspaceOptions::default().audit_log(folder.path().join("logs"));
        let ws = options.open(Arc::new(store), WorkspaceId::new("w").unwrap()).await.unwrap();
        ws.sessions().create().id(SessionId::new("shared").unwrap()).await.unwrap();
        ws
    });
    let children: Vec<std::process::Child> = (0..3)
        .map(|_| {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "audit::several_processes_write_whole_lines_to_one_file"])
                .env(CHILD, folder.path())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let events = events(&ws, &SessionId::new("shared").unwrap());
    let inputs = events.iter().filter(|event| event.phase.as_deref() == Some("input"));
    assert_eq!(inputs.count(), 3 * EACH);
    let writers: std::collections::BTreeSet<&str> = events.iter().map(|event| event.by.as_str()).collect();
    assert_eq!(writers.len(), 4);
}
