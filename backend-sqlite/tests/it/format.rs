//! Format 1 stays what it is: a file of it, and what must be read from it.
//!
//! `golden/format-1.sqlite3` was written once by [`write_everything`] and never changes; `format-1.jsonl` is every row
//! of it. A later format reads the same rows from the same file, after its migration.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use turnkeep_core::commit::{
    Commit, Expect, Fence, LeaseGrant, NewEvent, NewRun, Op, Outcome, Parent, Put, RefTarget, Request,
    RequestId, SessionPatch, Takeover,
};
use turnkeep_core::id::{
    Collection, EntryKey, EntryKind, EventKind, IntentId, LeaseId, RecordKey, Relation, Status, StreamName,
    TurnId,
};
use turnkeep_core::model::{
    Audience, Channel, ForkKind, ForkOrigin, LeaseKey, LeaseName, LeasePurpose, LeaseState, Profile,
    RunState, RunStates, SessionState, Title, TitleSource, Usage, Visibility,
};
use turnkeep_core::query::{RowQuery, SessionQuery};
use turnkeep_core::{
    Clock, EntryNo, Incarnation, LeaseToken, Maintenance, ManualClock, OwnerId, Payload, RunId, SessionId,
    SessionKey, SessionRef, Store, Timestamp, WorkspaceId,
};
use turnkeep_sqlite::{SqliteOptions, SqliteStore};

use crate::support::{append, block_on, close, create_with, fresh, message, open};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn workspace() -> WorkspaceId {
    WorkspaceId::new("golden").unwrap()
}

fn life(id: &str, bits: u8) -> SessionRef {
    SessionRef { id: SessionId::new(id).unwrap(), incarnation: Incarnation::from_bytes([bits; 16]) }
}

fn json(text: &str) -> Payload {
    Payload::new(text).unwrap()
}

/// One of everything that a store can hold.
fn write_everything(store: &SqliteStore) {
    let run = |commit: Commit| block_on(store.commit(commit)).unwrap();
    let commit = || Commit::new(workspace());
    let full = life("full", 1);
    let profile = Profile {
        title: Some(Title { text: "Überschrift".to_owned(), source: TitleSource::Manual }),
        cwd: Some("/home/someone/project".to_owned()),
        audience: Audience::SubAgent,
        parent: Some(SessionId::new("gone parent").unwrap()),
        fork: Some(ForkOrigin { kind: ForkKind::Message, boundary: EntryNo::FIRST, seed_length: 1 }),
        channel: Some(Channel { kind: "chat".to_owned(), id: "room 7".to_owned() }),
        project: Some("p1".to_owned()),
        pinned: true,
        archived: true,
        meta: Some(json(r#"{"zebra":1,"alpha":{"z":1,"a":2}}"#)),
    };
    let request = Request::in_workspace(RequestId::host("make full").unwrap()).owned_by(full.clone());
    run(commit().request(request).op(create_with(&full, SessionState::Active, profile)));
    let grant = LeaseGrant {
        name: LeaseName::Session(full.clone()),
        owner: OwnerId::from_bytes([9; 16]),
        token: LeaseToken::from_bytes([8; 16]),
        purpose: LeasePurpose::Execution,
        ttl_ms: 60_000,
        takeover: Takeover::IfExpired,
    };
    let receipt = run(commit().op(Op::AcquireLease(grant.clone())));
    let Some(Outcome::Lease { epoch, .. }) = receipt.outcomes.first() else { panic!("no lease") };
    let fence = Fence { name: grant.name.clone(), owner: grant.owner, token: grant.token, epoch: *epoch };
    let named = LeaseName::Named(LeaseId::new("chat/room 7").unwrap());
    run(commit().op(Op::AcquireLease(LeaseGrant { name: named, ..grant })));

    let run_of = |id: &str, state, after: Option<&str>| Op::StartRun {
        session: full.clone(),
        run: NewRun {
            id: RunId::new(id).unwrap(),
            state,
            intent: Some(IntentId::new("i1").unwrap()),
            after: after.map(|after| RunId::new(after).unwrap()),
            source: Some("cli".to_owned()),
            model: Some("echo".to_owned()),
            mode: Some("plain".to_owned()),
            work_dir: Some("/home/someone".to_owned()),
        },
    };
    let mut first = message("why does it fail?");
    first.run = Some(RunId::new("r1").unwrap());
    first.turn = Some(TurnId::new("t1").unwrap());
    first.key = Some(EntryKey::new("turn/t1/start").unwrap());
    let mut internal = message("");
    internal.kind = EntryKind::new("compaction").unwrap();
    internal.role = None;
    internal.text = None;
    internal.visibility = Visibility::Internal;
    internal.refs = vec![(Relation::new("first_kept").unwrap(), RefTarget::InCommit(0))];
    internal.payload = json(r#"{"n":12345678901234567890123,"t":"\u0000 \ud83d\ude00"}"#);
    let mut partial = message("half a sen");
    partial.visibility = Visibility::Partial;
    partial.advance_leaf = false;
    let mut branch = message("another way");
    branch.parent = Parent::Number(EntryNo::FIRST);
    branch.kind = EntryKind::new("kind of another program").unwrap();
    run(commit()
        .fence(fence.clone())
        .request(Request::in_session(RequestId::host("round 1").unwrap(), full.clone()))
        .op(run_of("r1", RunState::Pending, None))
        .op(append(&full, vec![first, internal, partial, branch])));
    let to = |run: &str, to| Op::TransitionRun {
        session: full.clone(),
        run: RunId::new(run).unwrap(),
        from: RunStates::ACTIVE,
        to,
        error: (to == RunState::Failed).then(|| json(r#"{"code":"timeout"}"#)),
    };
    let event = |kind: &str| NewEvent {
        kind: EventKind::new(kind).unwrap(),
        run: Some(RunId::new("r1").unwrap()),
        at: Timestamp::from_millis(-1),
        payload: json("[1.0]"),
    };
    let stream = |name: &str| StreamName::new(name).unwrap();
    let usage = Usage { requests: 1, input_tokens: 2, duration_ms: i64::MAX as u64, ..Usage::default() };
    run(commit()
        .fence(fence.clone())
        .op(to("r1", RunState::Running))
        .op(to("r1", RunState::Failed))
        .op(run_of("r2", RunState::Running, Some("r1")))
        .op(Op::AddUsage { session: full.clone(), run: Some(RunId::new("r2").unwrap()), usage })
        .op(Op::AppendEvents {
            session: full.clone(),
            stream: stream("runs"),
            expect_next: Some(1),
            events: vec![event("run_started"), event("run_failed"), event("run_started")],
        })
        .op(Op::DropEvents { session: full.clone(), stream: stream("runs"), through: Some(1), close: false })
        .op(Op::DropEvents {
            session: full.clone(),
            stream: stream("partial/t1"),
            through: None,
            close: true,
        }));
    let put = |collection: &str, key: &str, owner: Option<&SessionRef>| {
        Op::PutRecord(Put {
            collection: Collection::new(collection).unwrap(),
            key: RecordKey::new(key).unwrap(),
            owner: owner.cloned(),
            status: Some(Status::new("open").unwrap()),
            expect: Expect::Absent,
            payload: json(r#"{ "spaced" : true }"#),
        })
    };
    run(commit().fence(fence).op(put("intents", "i1", Some(&full))).op(put("projects", "p1", None)));

    let plain = life("plain", 2);
    run(commit().op(create_with(&plain, SessionState::Active, Profile::default())));
    run(commit().op(append(&plain, vec![message("hello"), message("again")])));
    let patch = SessionPatch { pinned: Some(true), ..SessionPatch::default() };
    run(commit().op(Op::PatchSession { session: plain, patch }));
    let hidden = life("being built", 3);
    run(commit().op(create_with(&hidden, SessionState::Restoring, Profile::default())));
    let other = Commit::new(WorkspaceId::new("golden 2").unwrap());
    run(other.op(create_with(&life("full", 4), SessionState::Active, Profile::default())));
}

/// Every row that the reads of a store give, one JSON text a line.
fn read_everything(store: &SqliteStore) -> Vec<String> {
    let mut lines = Vec::new();
    for workspace in block_on(store.workspaces()).unwrap() {
        lines.push(format!("{{\"workspace\":{}}}", serde_json::to_string(&workspace).unwrap()));
        for state in [SessionState::Active, SessionState::Restoring] {
            let mut query = SessionQuery::new(workspace.clone());
            query.state = state;
            query.audience = turnkeep_core::query::AudienceFilter::Any;
            for row in block_on(store.sessions(&query)).unwrap().items {
                lines.push(serde_json::to_string(&row).unwrap());
                if state == SessionState::Active {
                    lines.extend(rows(store, RowQuery::session(workspace.clone(), row.session_ref())));
                }
            }
        }
        lines.extend(rows(store, RowQuery::unowned(workspace.clone())));
    }
    lines
}

fn rows(store: &SqliteStore, query: RowQuery) -> Vec<String> {
    let page = block_on(store.rows(&query)).unwrap();
    assert!(page.next.is_none());
    page.items.iter().map(|row| serde_json::to_string(row).unwrap()).collect()
}

fn at_a_fixed_time(path: &Path) -> SqliteStore {
    let clock = ManualClock::new(Timestamp::from_millis(1_750_000_000_000));
    SqliteOptions::new(path).clock(Arc::new(clock) as Arc<dyn Clock>).open_blocking().unwrap()
}

/// Writes the golden files anew, for a new format: `TURNKEEP_GOLDEN=<folder>`. Otherwise checks that what it would
/// write reads the same as the golden file, but for the random births of records.
#[test]
fn what_is_written_today_reads_as_the_golden_file_does() {
    let (folder, path) = fresh();
    let store = at_a_fixed_time(&path);
    write_everything(&store);
    let lines = read_everything(&store);
    close(&store);
    if let Some(target) = std::env::var_os("TURNKEEP_GOLDEN") {
        let target = Path::new(&target);
        fs::copy(&path, target.join("format-1.sqlite3")).unwrap();
        fs::write(target.join("format-1.jsonl"), lines.join("\n") + "\n").unwrap();
        return;
    }
    drop(folder);
    let expected = fs::read_to_string(golden("format-1.jsonl")).unwrap();
    let expected: Vec<&str> = expected.lines().collect();
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(expected) {
        assert_eq!(without_birth(line), without_birth(expected));
    }
}

fn without_birth(line: &str) -> serde_json::Value {
    let mut row: serde_json::Value = serde_json::from_str(line).unwrap();
    if let Some(birth) = row.pointer_mut("/version/birth") {
        *birth = serde_json::Value::Null;
    }
    row
}

/// A copy, so that the golden file itself is never opened.
fn copy_of_golden() -> (tempfile::TempDir, PathBuf) {
    let (folder, path) = fresh();
    fs::copy(golden("format-1.sqlite3"), &path).unwrap();
    (folder, path)
}

#[test]
fn the_golden_file_of_format_1_opens_and_every_row_of_it_is_read() {
    let (_folder, path) = copy_of_golden();
    let store = open(&path);
    assert_eq!(store.info().format, 1);
    let expected = fs::read_to_string(golden("format-1.jsonl")).unwrap();
    assert_eq!(read_everything(&store), expected.lines().collect::<Vec<_>>());
    assert_eq!(block_on(store.verify()).unwrap().damage, []);
    let lease = |name| block_on(store.lease(&LeaseKey { workspace: workspace(), name })).unwrap().unwrap();
    for name in [LeaseName::Session(life("full", 1)), LeaseName::Named(LeaseId::new("chat/room 7").unwrap())]
    {
        let lease = lease(name);
        assert_eq!(
            (lease.state, lease.epoch, lease.owner),
            (LeaseState::Held, 1, OwnerId::from_bytes([9; 16]))
        );
    }
    // A request that the golden file knows is answered from it.
    let request = Request::in_workspace(RequestId::host("make full").unwrap()).owned_by(life("full", 1));
    let again = Commit::new(workspace()).request(request);
    let again = again.op(create_with(&life("full", 1), SessionState::Active, Profile::default()));
    let refused = block_on(store.commit(again)).unwrap_err();
    assert_eq!(
        refused.kind(),
        turnkeep_core::ErrorKind::RequestConflict,
        "known, with another profile: {refused}"
    );
    close(&store);
}

#[test]
fn the_golden_file_takes_new_commits() {
    let (_folder, path) = copy_of_golden();
    let store = open(&path);
    let plain = life("plain", 2);
    let receipt =
        block_on(store.commit(Commit::new(workspace()).op(append(&plain, vec![message("after years")]))))
            .unwrap();
    assert_eq!(receipt.entries(0).collect::<Vec<_>>(), [EntryNo::new(3).unwrap()]);
    let key = SessionKey { workspace: workspace(), id: plain.id };
    let row = block_on(store.session(&key)).unwrap().unwrap();
    assert_eq!((row.messages, row.head), (3, EntryNo::new(3)));
    close(&store);
}

fn schema(path: &Path) -> Vec<String> {
    let conn = Connection::open(path).unwrap();
    let mut read = conn.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").unwrap();
    let rows = read.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

#[test]
fn todays_tables_are_those_of_the_golden_file() {
    let (_folder, golden) = copy_of_golden();
    let (_other, path) = fresh();
    close(&open(&path));
    assert_eq!(schema(&path), schema(&golden));
    let marks = |path: &Path| {
        let conn = Connection::open(path).unwrap();
        ["application_id", "user_version", "page_size"]
            .map(|name| conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).unwrap())
    };
    assert_eq!(marks(&path), marks(&golden));
    assert_eq!(marks(&path), [0x5475_4B65, 1, 8192]);
}

#[test]
fn the_queries_of_the_format_page_run_and_find_something() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/format.md")).unwrap();
    let queries: Vec<&str> =
        page.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(queries.len(), 5, "the page promises five queries");
    let (_folder, path) = copy_of_golden();
    let conn = Connection::open(&path).unwrap();
    for query in queries {
        let mut statement = conn.prepare(query).unwrap();
        assert!(statement.readonly(), "{query}");
        let rows = statement.query_map([], |_| Ok(())).unwrap().count();
        assert!(rows > 0, "nothing is found by: {query}");
    }
}

#[test]
fn the_format_page_names_every_table_and_column() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/format.md")).unwrap();
    let (_folder, path) = copy_of_golden();
    let conn = Connection::open(&path).unwrap();
    let mut read = conn
        .prepare(
            "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%'",
        )
        .unwrap();
    let columns = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    for column in columns {
        let (table, column): (String, String) = column.unwrap();
        assert!(page.contains(&format!("### `{table}`")), "table {table}");
        let section = page.split(&format!("### `{table}`")).nth(1).unwrap().split("\n#").next().unwrap();
        assert!(section.contains(&format!("`{column}`")), "column {table}.{column}");
    }
}
