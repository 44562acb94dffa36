//! Golden stores: one of everything, written once in each format and kept for ever.
//!
//! A backend's author writes such a store with [`write()`] when a format is new, keeps its bytes and what [`read()`] gives
//! of it, and hands both out with [`Harness::fixtures`](crate::Harness::fixtures). Every later version must open the
//! bytes and read the same.

use turnkeep_core::commit::{
    Fence, LeaseGrant, NewEntry, NewEvent, NewRun, NewSession, Parent, Put, RefTarget, Request, RequestId,
    SessionPatch, Takeover,
};
use turnkeep_core::model::{
    Audience, Channel, ForkKind, ForkOrigin, LeaseKey, LeaseName, LeasePurpose, Profile, RunState, RunStates,
    SessionState, Title, TitleSource, Usage, Visibility, entry_kind, role,
};
use turnkeep_core::query::{AudienceFilter, RowQuery, SessionQuery};
use turnkeep_core::{
    Commit, EntryNo, Error, ErrorKind, Expect, Incarnation, LeaseToken, Op, OwnerId, Receipt, Result,
    SessionRef, Store, Timestamp, WorkspaceId,
};

use crate::kit::{name, payload};

/// The workspaces of a golden store.
const WORKSPACES: [&str; 2] = ["golden", "golden 2"];

/// What the store's clock says while a golden store is written.
pub const TIME: Timestamp = Timestamp::from_millis(1_750_000_000_000);

fn workspace() -> WorkspaceId {
    name("golden")
}

fn life(id: &str, bits: u8) -> SessionRef {
    SessionRef { id: name(id), incarnation: Incarnation::from_bytes([bits; 16]) }
}

fn create(session: &SessionRef, state: SessionState, profile: Profile) -> Op {
    Op::CreateSession(NewSession { id: session.id.clone(), incarnation: session.incarnation, state, profile })
}

fn message(text: &str) -> NewEntry {
    let json = serde_json::json!({ "text": text }).to_string();
    let mut entry = NewEntry::new(name(entry_kind::MESSAGE), Timestamp::from_millis(1), payload(&json));
    entry.role = Some(name(role::USER));
    entry.text = Some(text.to_owned());
    entry
}

fn appending(session: &SessionRef, entries: Vec<NewEntry>) -> Op {
    Op::Append { session: session.clone(), entries }
}

/// What the first commit says, whose stored receipt a later repeat must find.
fn first() -> Commit {
    let full = life("full", 1);
    let profile = Profile {
        title: Some(Title { text: "Überschrift".to_owned(), source: TitleSource::Manual }),
        cwd: Some("/home/someone/project".to_owned()),
        audience: Audience::SubAgent,
        parent: Some(name("gone parent")),
        fork: Some(ForkOrigin { kind: ForkKind::Message, boundary: EntryNo::FIRST, seed_length: 1 }),
        channel: Some(Channel { kind: "chat".to_owned(), id: "room 7".to_owned() }),
        project: Some("p1".to_owned()),
        pinned: true,
        archived: true,
        meta: Some(payload(r#"{"zebra":1,"alpha":{"z":1,"a":2}}"#)),
    };
    let request = Request::in_workspace(RequestId::Host("make full".to_owned())).owned_by(full.clone());
    Commit::new(workspace()).request(request).op(create(&full, SessionState::Active, profile))
}

/// Writes one of everything that a store can hold. The store is empty, and its clock stands still.
///
/// # Errors
/// What the store answers.
pub async fn write(store: &dyn Store) -> Result<()> {
    let commit = || Commit::new(workspace());
    let full = life("full", 1);
    store.commit(first()).await?;
    let grant = LeaseGrant {
        name: LeaseName::Session(full.clone()),
        owner: OwnerId::from_bytes([9; 16]),
        token: LeaseToken::from_bytes([8; 16]),
        purpose: LeasePurpose::Execution,
        ttl_ms: 60_000,
        takeover: Takeover::IfExpired,
    };
    store.commit(commit().op(Op::AcquireLease(grant.clone()))).await?;
    let fence = Fence { name: grant.name.clone(), owner: grant.owner, token: grant.token, epoch: 1 };
    let named = LeaseName::Named(name("chat/room 7"));
    store.commit(commit().op(Op::AcquireLease(LeaseGrant { name: named, ..grant }))).await?;

    let run_of = |id: &str, state, after: Option<&str>| Op::StartRun {
        session: full.clone(),
        run: NewRun {
            id: name(id),
            state,
            intent: Some(name("i1")),
            after: after.map(name),
            source: Some("cli".to_owned()),
            model: Some("echo".to_owned()),
            mode: Some("plain".to_owned()),
            work_dir: Some("/home/someone".to_owned()),
        },
    };
    let mut opening = message("why does it fail?");
    opening.run = Some(name("r1"));
    opening.turn = Some(name("t1"));
    opening.key = Some(name("turn/t1/start"));
    let mut internal = message("");
    internal.kind = name("compaction");
    internal.role = None;
    internal.text = None;
    internal.visibility = Visibility::Internal;
    internal.refs = vec![(name("first_kept"), RefTarget::InCommit(0))];
    internal.payload = payload(r#"{"n":12345678901234567890123,"t":"\u0000 \ud83d\ude00"}"#);
    let mut partial = message("half a sen");
    partial.visibility = Visibility::Partial;
    partial.advance_leaf = false;
    let mut branch = message("another way");
    branch.parent = Parent::Number(EntryNo::FIRST);
    branch.kind = name("kind of another program");
    store
        .commit(
            commit()
                .fence(fence.clone())
                .request(Request::in_session(RequestId::Host("round 1".to_owned()), full.clone()))
                .op(run_of("r1", RunState::Pending, None))
                .op(appending(&full, vec![opening, internal, partial, branch])),
        )
        .await?;
    let to = |run: &str, to| Op::TransitionRun {
        session: full.clone(),
        run: name(run),
        from: RunStates::ACTIVE,
        to,
        error: (to == RunState::Failed).then(|| payload(r#"{"code":"timeout"}"#)),
    };
    let event = |kind: &str| NewEvent {
        kind: name(kind),
        run: Some(name("r1")),
        at: Timestamp::from_millis(-1),
        payload: payload("[1.0]"),
    };
    let usage = Usage { requests: 1, input_tokens: 2, duration_ms: i64::MAX as u64, ..Usage::default() };
    store
        .commit(
            commit()
                .fence(fence.clone())
                .op(to("r1", RunState::Running))
                .op(to("r1", RunState::Failed))
                .op(run_of("r2", RunState::Running, Some("r1")))
                .op(Op::AddUsage { session: full.clone(), run: Some(name("r2")), usage })
                .op(Op::AppendEvents {
                    session: full.clone(),
                    stream: name("runs"),
                    expect_next: Some(1),
                    events: vec![event("run_started"), event("run_failed"), event("run_started")],
                })
                .op(Op::DropEvents {
                    session: full.clone(),
                    stream: name("runs"),
                    through: Some(1),
                    close: false,
                })
                .op(Op::DropEvents {
                    session: full.clone(),
                    stream: name("partial/t1"),
                    through: None,
                    close: true,
                }),
        )
        .await?;
    let put = |collection: &str, key: &str, owner: Option<&SessionRef>| {
        Op::PutRecord(Put {
            collection: name(collection),
            key: name(key),
            owner: owner.cloned(),
            status: Some(name("open")),
            expect: Expect::Absent,
            payload: payload(r#"{ "spaced" : true }"#),
        })
    };
    store
        .commit(commit().fence(fence).op(put("intents", "i1", Some(&full))).op(put("projects", "p1", None)))
        .await?;

    let plain = life("plain", 2);
    store.commit(commit().op(create(&plain, SessionState::Active, Profile::default()))).await?;
    store.commit(commit().op(appending(&plain, vec![message("hello"), message("again")]))).await?;
    let patch = SessionPatch { pinned: Some(true), ..SessionPatch::default() };
    store.commit(commit().op(Op::PatchSession { session: plain, patch })).await?;
    let hidden = life("being built", 3);
    store.commit(commit().op(create(&hidden, SessionState::Restoring, Profile::default()))).await?;
    let other = Commit::new(name("golden 2"));
    store.commit(other.op(create(&life("full", 4), SessionState::Active, Profile::default()))).await?;
    Ok(())
}

/// Everything that a golden store gives to read, one JSON text a line.
///
/// # Errors
/// What the store answers.
pub async fn read(store: &dyn Store) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for workspace in WORKSPACES.map(name::<WorkspaceId>) {
        lines.push(line(&serde_json::json!({ "workspace": workspace }))?);
        for state in [SessionState::Active, SessionState::Restoring] {
            let query =
                SessionQuery { state, audience: AudienceFilter::Any, ..SessionQuery::new(workspace.clone()) };
            for row in store.sessions(&query).await?.items {
                lines.push(line(&row)?);
                let session = row.session_ref();
                lines.extend(lease(store, &workspace, LeaseName::Session(session.clone())).await?);
                if state == SessionState::Active {
                    lines.extend(rows(store, RowQuery::session(workspace.clone(), session)).await?);
                }
            }
        }
        lines.extend(rows(store, RowQuery::unowned(workspace.clone())).await?);
        lines.extend(lease(store, &workspace, LeaseName::Named(name("chat/room 7"))).await?);
    }
    Ok(lines)
}

async fn rows(store: &dyn Store, query: RowQuery) -> Result<Vec<String>> {
    store.rows(&query).await?.items.iter().map(line).collect()
}

/// What is stored of a lease; whether it has expired is a matter of the moment.
async fn lease(store: &dyn Store, workspace: &WorkspaceId, lease: LeaseName) -> Result<Option<String>> {
    let key = LeaseKey { workspace: workspace.clone(), name: lease };
    let Some(view) = store.lease(&key).await? else { return Ok(None) };
    let stored = serde_json::json!({
        "lease": key.name,
        "state": view.state,
        "owner": view.owner,
        "epoch": view.epoch,
        "purpose": view.purpose,
        "acquired_at": view.acquired_at,
        "expires_at": view.expires_at,
    });
    line(&stored).map(Some)
}

fn line(row: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(row)
        .map_err(|error| Error::new(ErrorKind::Invalid, "a row has no JSON form").with_source(error))
}

/// Lines without what is drawn at random when a store is written: the births of records.
#[must_use]
pub fn without_births(lines: &[String]) -> Vec<serde_json::Value> {
    let without = |line: &String| {
        let mut row: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        if let Some(birth) = row.pointer_mut("/version/birth") {
            *birth = serde_json::Value::Null;
        }
        row
    };
    lines.iter().map(without).collect()
}

/// Repeats the request that made the first session. A store that still knows it answers what it answered then, and
/// makes nothing.
pub(crate) async fn repeat(store: &dyn Store) -> Result<Receipt> {
    store.commit(first()).await
}

/// Says something in a session of the golden store that has two entries, and gives the number.
pub(crate) async fn go_on(store: &dyn Store, text: &str) -> Result<Option<EntryNo>> {
    let commit = Commit::new(workspace()).op(appending(&life("plain", 2), vec![message(text)]));
    Ok(store.commit(commit).await?.entries(0).next())
}
