//! What a fingerprint notices and what it does not.

use std::collections::HashMap;

use turnkeep_core::commit::{
    Commit, Expect, Fingerprint, Guard, LeaseGrant, NewEntry, NewEvent, NewRun, NewSession, OnKey, Op,
    Parent, Put, RefTarget, Request, RequestId, RunPatch, SessionPatch, Takeover,
};
use turnkeep_core::digest::to_hex;
use turnkeep_core::model::{
    Audience, Channel, ForkKind, ForkOrigin, LeaseName, LeasePurpose, Profile, Record, Row, RunState,
    RunStates, SessionImage, SessionState, Title, TitleSource, Usage, Version, Visibility,
};
use turnkeep_core::rules::fingerprint;
use turnkeep_core::{Incarnation, SessionRef};

use crate::kit::{at, commit, fence, json, lease_of, name, no, owner, run_id, session, token};

/// What a change of a commit does to its fingerprint.
type Change = (&'static str, fn(&mut Commit));

fn s() -> SessionRef {
    session("s", 1)
}

fn title(text: &str) -> Title {
    Title { text: text.to_owned(), source: TitleSource::Manual }
}

fn profile() -> Profile {
    Profile {
        title: Some(title("t")),
        cwd: Some("/c".to_owned()),
        audience: Audience::User,
        parent: Some(name("parent")),
        fork: Some(ForkOrigin { kind: ForkKind::Session, boundary: no(3), seed_length: 3 }),
        channel: Some(Channel { kind: "k".to_owned(), id: "i".to_owned() }),
        project: Some("p".to_owned()),
        pinned: false,
        archived: false,
        meta: Some(json("{\"a\":1}")),
    }
}

fn record() -> Record {
    Record {
        collection: name("c"),
        key: name("k"),
        owner: None,
        status: Some(name("open")),
        ordinal: 3,
        version: Version { birth: 1, count: 1 },
        created_at: at(1),
        updated_at: at(2),
        payload: json("1"),
    }
}

/// Every op once, with every field set.
fn everything() -> Commit {
    let made = session("made", 9);
    let ops = vec![
        Op::CreateSession(NewSession {
            id: made.id.clone(),
            incarnation: made.incarnation,
            state: SessionState::Active,
            profile: profile(),
        }),
        Op::PatchSession {
            session: s(),
            patch: SessionPatch {
                title: Some(Some(title("t"))),
                cwd: Some(Some("/c".to_owned())),
                channel: Some(Some(Channel { kind: "k".to_owned(), id: "i".to_owned() })),
                project: Some(Some("p".to_owned())),
                pinned: Some(true),
                archived: Some(true),
                meta: Some(Some(json("1"))),
            },
        },
        Op::DeleteSession { session: s(), force: false },
        Op::Append {
            session: made.clone(),
            entries: vec![
                NewEntry::new(name("label"), at(0), json("0")),
                NewEntry {
                    parent: Parent::InCommit(0),
                    advance_leaf: true,
                    kind: name("message"),
                    role: Some(name("user")),
                    run: Some(run_id("r")),
                    turn: Some(name("turn")),
                    key: Some(name("key")),
                    on_key: OnKey::Refuse,
                    visibility: Visibility::Conversation,
                    at: at(0),
                    refs: vec![(name("label_target"), RefTarget::Number(no(1)))],
                    text: Some("text".to_owned()),
                    payload: json("{}"),
                },
            ],
        },
        Op::MoveLeaf { session: s(), to: Some(no(2)) },
        Op::CopyEntries { from: s(), to: session("to", 2), after: Some(no(1)), through: no(2) },
        Op::SealSession { session: s(), leaf: Some(no(2)), rows: 2, digest: [1; 32] },
        Op::Restore {
            session: s(),
            rows: vec![Row::Session(SessionImage {
                created_at: at(0),
                updated_at: at(0),
                activity: 1,
                leaf: None,
                usage: Usage::default(),
                profile: profile(),
            })],
        },
        Op::RestoreRecord { record: record() },
        Op::StartRun {
            session: s(),
            run: NewRun {
                id: run_id("started"),
                state: RunState::Pending,
                intent: Some(name("intent")),
                after: Some(run_id("before")),
                source: Some("cli".to_owned()),
                model: Some("m".to_owned()),
                mode: Some("plan".to_owned()),
                work_dir: Some("/w".to_owned()),
            },
        },
        Op::TransitionRun {
            session: s(),
            run: run_id("started"),
            from: RunStates::ACTIVE,
            to: RunState::Failed,
            error: Some(json("\"why\"")),
        },
        Op::ReopenRun { session: s(), run: run_id("known") },
        Op::PatchRun {
            session: s(),
            run: run_id("known"),
            patch: RunPatch {
                error: Some(Some(json("1"))),
                progress: Some(Some(json("1"))),
                context_usage: Some(Some(json("1"))),
                model: Some(Some("m".to_owned())),
            },
        },
        Op::AddUsage { session: s(), run: Some(run_id("known")), usage: Usage::default() },
        Op::AppendEvents {
            session: s(),
            stream: name("runs"),
            expect_next: Some(4),
            events: vec![NewEvent { kind: name("e"), run: Some(run_id("r")), at: at(0), payload: json("1") }],
        },
        Op::DropEvents { session: s(), stream: name("runs"), through: Some(3), close: false },
        Op::PutRecord(Put {
            collection: name("c"),
            key: name("k"),
            owner: Some(s()),
            status: Some(name("open")),
            expect: Expect::Version(Version { birth: 1, count: 1 }),
            payload: json("1"),
        }),
        Op::DeleteRecord {
            collection: name("c"),
            key: name("k"),
            owner: Some(s()),
            expect: Expect::Version(Version { birth: 1, count: 1 }),
        },
        Op::AcquireLease(LeaseGrant {
            name: lease_of(&s()),
            owner: owner(1),
            token: token(1),
            purpose: LeasePurpose::Execution,
            ttl_ms: 1000,
            takeover: Takeover::IfExpired,
        }),
        Op::RenewLease { fence: fence(lease_of(&s()), 1, 1), ttl_ms: 1000 },
        Op::ReleaseLease { fence: fence(lease_of(&s()), 1, 1) },
        Op::WhenKey {
            session: s(),
            key: name("key"),
            then: Box::new(Op::MoveLeaf { session: s(), to: None }),
        },
    ];
    let request = Request::in_session(RequestId::host("q").unwrap(), s());
    let guard = Guard::NoActiveRun { session: s() };
    Commit { ops, ..commit() }.request(request).fence(fence(lease_of(&s()), 1, 1)).guard(guard)
}

/// Changes one field of the op that fits.
macro_rules! change {
    ($($what:literal: $pattern:pat => $set:expr;)*) => {
        [$(($what, (|commit: &mut Commit| {
            let mut found = 0;
            for op in &mut commit.ops {
                if let $pattern = op {
                    $set;
                    found += 1;
                }
            }
            assert_eq!(found, 1, $what);
        }) as fn(&mut Commit))),*]
    };
}

fn profile_changes() -> impl IntoIterator<Item = Change> {
    change! {
        "profile title": Op::CreateSession(new) => new.profile.title = Some(title("other"));
        "profile no title": Op::CreateSession(new) => new.profile.title = None;
        "profile title source": Op::CreateSession(new) => {
            new.profile.title = Some(Title { source: TitleSource::Auto, ..title("t") });
        };
        "profile cwd": Op::CreateSession(new) => new.profile.cwd = Some(String::new());
        "profile no cwd": Op::CreateSession(new) => new.profile.cwd = None;
        "profile audience": Op::CreateSession(new) => new.profile.audience = Audience::SubAgent;
        "profile parent": Op::CreateSession(new) => new.profile.parent = Some(name("other"));
        "profile fork": Op::CreateSession(new) => new.profile.fork = None;
        "profile fork kind": Op::CreateSession(new) => {
            new.profile.fork = Some(ForkOrigin { kind: ForkKind::Message, boundary: no(3), seed_length: 3 });
        };
        "profile fork boundary": Op::CreateSession(new) => {
            new.profile.fork = Some(ForkOrigin { kind: ForkKind::Session, boundary: no(4), seed_length: 3 });
        };
        "profile fork length": Op::CreateSession(new) => {
            new.profile.fork = Some(ForkOrigin { kind: ForkKind::Session, boundary: no(3), seed_length: 4 });
        };
        "profile channel kind": Op::CreateSession(new) => {
            new.profile.channel = Some(Channel { kind: "ki".to_owned(), id: String::new() });
        };
        "profile channel id": Op::CreateSession(new) => {
            new.profile.channel = Some(Channel { kind: "k".to_owned(), id: "j".to_owned() });
        };
        "profile project": Op::CreateSession(new) => new.profile.project = None;
        "profile pinned": Op::CreateSession(new) => new.profile.pinned = true;
        "profile archived": Op::CreateSession(new) => new.profile.archived = true;
        "profile meta of the same length": Op::CreateSession(new) => new.profile.meta = Some(json("{\"a\":2}"));
        "profile no meta": Op::CreateSession(new) => new.profile.meta = None;
        "created state": Op::CreateSession(new) => new.state = SessionState::Restoring;
    }
}

fn session_changes() -> impl IntoIterator<Item = Change> {
    change! {
        "patched session": Op::PatchSession { session, .. } => session.id = name("z");
        "patch title": Op::PatchSession { patch, .. } => patch.title = Some(None);
        "patch leaves title": Op::PatchSession { patch, .. } => patch.title = None;
        "patch cwd": Op::PatchSession { patch, .. } => patch.cwd = Some(None);
        "patch leaves cwd": Op::PatchSession { patch, .. } => patch.cwd = None;
        "patch channel": Op::PatchSession { patch, .. } => patch.channel = Some(None);
        "patch leaves channel": Op::PatchSession { patch, .. } => patch.channel = None;
        "patch project": Op::PatchSession { patch, .. } => patch.project = Some(None);
        "patch leaves project": Op::PatchSession { patch, .. } => patch.project = None;
        "patch pinned": Op::PatchSession { patch, .. } => patch.pinned = Some(false);
        "patch leaves pinned": Op::PatchSession { patch, .. } => patch.pinned = None;
        "patch archived": Op::PatchSession { patch, .. } => patch.archived = Some(false);
        "patch leaves archived": Op::PatchSession { patch, .. } => patch.archived = None;
        "patch meta": Op::PatchSession { patch, .. } => patch.meta = Some(Some(json("2")));
        "patch clears meta": Op::PatchSession { patch, .. } => patch.meta = Some(None);
        "patch leaves meta": Op::PatchSession { patch, .. } => patch.meta = None;
        "deleted session": Op::DeleteSession { session, .. } => session.id = name("z");
        "force": Op::DeleteSession { force, .. } => *force = true;
        "moved session": Op::MoveLeaf { session, .. } => session.id = name("z");
        "moved leaf": Op::MoveLeaf { to, .. } => *to = Some(no(3));
        "leaf before the first": Op::MoveLeaf { to, .. } => *to = None;
        "copied from": Op::CopyEntries { from, .. } => from.id = name("z");
        "copied to": Op::CopyEntries { to, .. } => to.id = name("z");
        "copied after": Op::CopyEntries { after, .. } => *after = None;
        "copied through": Op::CopyEntries { through, .. } => *through = no(3);
        "sealed session": Op::SealSession { session, .. } => session.id = name("z");
        "sealed leaf": Op::SealSession { leaf, .. } => *leaf = None;
        "sealed rows": Op::SealSession { rows, .. } => *rows = 3;
        "sealed digest": Op::SealSession { digest, .. } => digest[31] = 0;
        "restored session": Op::Restore { session, .. } => session.id = name("z");
        "restored row": Op::Restore { rows, .. } => if let Row::Session(image) = &mut rows[0] { image.activity = 2 };
        "restored time": Op::Restore { rows, .. } => if let Row::Session(image) = &mut rows[0] { image.created_at = at(9) };
        "restored nothing": Op::Restore { rows, .. } => rows.clear();
        "restored collection": Op::RestoreRecord { record } => record.collection = name("z");
        "restored key": Op::RestoreRecord { record } => record.key = name("z");
        "restored status": Op::RestoreRecord { record } => record.status = None;
        "restored ordinal": Op::RestoreRecord { record } => record.ordinal = 4;
        "restored payload": Op::RestoreRecord { record } => record.payload = json("2");
    }
}

fn entry_changes() -> impl IntoIterator<Item = Change> {
    change! {
        "appended to": Op::Append { session, .. } => *session = s();
        "fewer entries": Op::Append { entries, .. } => drop(entries.remove(0));
        "leaf as parent": Op::Append { entries, .. } => entries[1].parent = Parent::Leaf;
        "root": Op::Append { entries, .. } => entries[1].parent = Parent::Root;
        "parent 1": Op::Append { entries, .. } => entries[1].parent = Parent::Number(no(1));
        "parent 2": Op::Append { entries, .. } => entries[1].parent = Parent::Number(no(2));
        "parent in commit": Op::Append { entries, .. } => entries[1].parent = Parent::InCommit(1);
        "advance": Op::Append { entries, .. } => entries[1].advance_leaf = false;
        "entry kind": Op::Append { entries, .. } => entries[1].kind = name("z");
        "role": Op::Append { entries, .. } => entries[1].role = Some(name("z"));
        "no role": Op::Append { entries, .. } => entries[1].role = None;
        "entry key": Op::Append { entries, .. } => entries[1].key = Some(name("z"));
        "no entry key": Op::Append { entries, .. } => entries[1].key = None;
        "on key": Op::Append { entries, .. } => entries[1].on_key = OnKey::Skip;
        "internal": Op::Append { entries, .. } => entries[1].visibility = Visibility::Internal;
        "partial": Op::Append { entries, .. } => entries[1].visibility = Visibility::Partial;
        "no refs": Op::Append { entries, .. } => entries[1].refs.clear();
        "relation": Op::Append { entries, .. } => entries[1].refs[0].0 = name("z");
        "target": Op::Append { entries, .. } => entries[1].refs[0].1 = RefTarget::Number(no(2));
        "target in commit": Op::Append { entries, .. } => entries[1].refs[0].1 = RefTarget::InCommit(0);
        "text": Op::Append { entries, .. } => entries[1].text = Some("other".to_owned());
        "no text": Op::Append { entries, .. } => entries[1].text = None;
        "spelling of a payload": Op::Append { entries, .. } => entries[1].payload = json("{ }");
    }
}

fn run_changes() -> impl IntoIterator<Item = Change> {
    change! {
        "started in": Op::StartRun { session, .. } => session.id = name("z");
        "started as": Op::StartRun { run, .. } => run.state = RunState::Running;
        "source": Op::StartRun { run, .. } => run.source = None;
        "model": Op::StartRun { run, .. } => run.model = None;
        "mode": Op::StartRun { run, .. } => run.mode = None;
        "work_dir": Op::StartRun { run, .. } => run.work_dir = None;
        "model and mode swapped": Op::StartRun { run, .. } => std::mem::swap(&mut run.model, &mut run.mode);
        "moved in": Op::TransitionRun { session, .. } => session.id = name("z");
        "another run": Op::TransitionRun { run, .. } => *run = run_id("known");
        "from": Op::TransitionRun { from, .. } => *from = RunStates::ALL;
        "to": Op::TransitionRun { to, .. } => *to = RunState::Cancelled;
        "error": Op::TransitionRun { error, .. } => *error = Some(json("1"));
        "no error": Op::TransitionRun { error, .. } => *error = None;
        "reopened in": Op::ReopenRun { session, .. } => session.id = name("z");
        "reopened": Op::ReopenRun { run, .. } => *run = run_id("z");
        "patched in": Op::PatchRun { session, .. } => session.id = name("z");
        "patched run": Op::PatchRun { run, .. } => *run = run_id("z");
        "patched error": Op::PatchRun { patch, .. } => patch.error = Some(None);
        "patched progress": Op::PatchRun { patch, .. } => patch.progress = None;
        "patched context usage": Op::PatchRun { patch, .. } => patch.context_usage = Some(Some(json("2")));
        "patched model": Op::PatchRun { patch, .. } => patch.model = Some(None);
        "patched no model": Op::PatchRun { patch, .. } => patch.model = None;
        "usage in": Op::AddUsage { session, .. } => session.id = name("z");
        "usage of": Op::AddUsage { run, .. } => *run = Some(run_id("z"));
        "usage of no run": Op::AddUsage { run, .. } => *run = None;
        "requests": Op::AddUsage { usage, .. } => usage.requests = 1;
        "input": Op::AddUsage { usage, .. } => usage.input_tokens = 1;
        "output": Op::AddUsage { usage, .. } => usage.output_tokens = 1;
        "total": Op::AddUsage { usage, .. } => usage.total_tokens = 1;
        "cache read": Op::AddUsage { usage, .. } => usage.cache_read_tokens = 1;
        "cache write": Op::AddUsage { usage, .. } => usage.cache_write_tokens = 1;
        "duration": Op::AddUsage { usage, .. } => usage.duration_ms = 1;
    }
}

fn ledger_changes() -> impl IntoIterator<Item = Change> {
    change! {
        "events in": Op::AppendEvents { session, .. } => session.id = name("z");
        "stream": Op::AppendEvents { stream, .. } => *stream = name("z");
        "next": Op::AppendEvents { expect_next, .. } => *expect_next = Some(5);
        "any next": Op::AppendEvents { expect_next, .. } => *expect_next = None;
        "event kind": Op::AppendEvents { events, .. } => events[0].kind = name("z");
        "event payload": Op::AppendEvents { events, .. } => events[0].payload = json("2");
        "no events": Op::AppendEvents { events, .. } => events.clear();
        "dropped in": Op::DropEvents { session, .. } => session.id = name("z");
        "dropped stream": Op::DropEvents { stream, .. } => *stream = name("z");
        "dropped through": Op::DropEvents { through, .. } => *through = Some(0);
        "dropped all": Op::DropEvents { through, .. } => *through = None;
        "closed": Op::DropEvents { close, .. } => *close = true;
        "put collection": Op::PutRecord(put) => put.collection = name("z");
        "put key": Op::PutRecord(put) => put.key = name("z");
        "put owner": Op::PutRecord(put) => put.owner = Some(session("z", 1));
        "put no owner": Op::PutRecord(put) => put.owner = None;
        "put status": Op::PutRecord(put) => put.status = None;
        "put if absent": Op::PutRecord(put) => put.expect = Expect::Absent;
        "put anyhow": Op::PutRecord(put) => put.expect = Expect::Any;
        "put payload": Op::PutRecord(put) => put.payload = json("2");
        "deleted collection": Op::DeleteRecord { collection, .. } => *collection = name("z");
        "deleted key": Op::DeleteRecord { key, .. } => *key = name("z");
        "deleted anyhow": Op::DeleteRecord { expect, .. } => *expect = Expect::Any;
        "acquired": Op::AcquireLease(grant) => grant.name = LeaseName::Named(name("s"));
        "acquired in": Op::AcquireLease(grant) => grant.name = lease_of(&session("z", 1));
        "purpose": Op::AcquireLease(grant) => grant.purpose = LeasePurpose::Recovery;
        "renewed": Op::RenewLease { fence, .. } => fence.name = LeaseName::Named(name("line"));
        "released": Op::ReleaseLease { fence } => fence.name = LeaseName::Named(name("line"));
        "condition in": Op::WhenKey { session, .. } => session.id = name("z");
        "condition": Op::WhenKey { key, .. } => *key = name("z");
        "conditional op": Op::WhenKey { then, .. } => {
            if let Op::MoveLeaf { to, .. } = &mut **then { *to = Some(no(7)) }
        };
    }
}

fn whole_changes() -> [Change; 5] {
    [
        ("workspace", |commit| commit.workspace = name("other")),
        ("scope", |commit| commit.request = Some(Request::in_workspace(RequestId::host("q").unwrap()))),
        ("an op less", |commit| drop(commit.ops.pop())),
        ("an op twice", |commit| commit.ops.push(commit.ops[4].clone())),
        ("order", |commit| commit.ops.swap(15, 16)),
    ]
}

#[test]
fn a_fingerprint_notices_every_field_that_carries_meaning() {
    let changes = profile_changes()
        .into_iter()
        .chain(session_changes())
        .chain(entry_changes())
        .chain(run_changes())
        .chain(ledger_changes())
        .chain(whole_changes());
    let mut seen: HashMap<[u8; 32], &str> = HashMap::new();
    seen.insert(*fingerprint(&everything()).as_bytes(), "nothing");
    for (what, change) in changes {
        let mut commit = everything();
        change(&mut commit);
        if let Some(same) = seen.insert(*fingerprint(&commit).as_bytes(), what) {
            panic!("{what} looks like {same}");
        }
    }
    assert!(seen.len() > 120);
}

fn redrawn() -> impl IntoIterator<Item = Change> {
    change! {
        "time of an entry": Op::Append { entries, .. } => entries[1].at = at(9);
        "run of an entry": Op::Append { entries, .. } => entries[1].run = Some(run_id("z"));
        "turn of an entry": Op::Append { entries, .. } => entries[1].turn = None;
        "time of an event": Op::AppendEvents { events, .. } => events[0].at = at(9);
        "run of an event": Op::AppendEvents { events, .. } => events[0].run = None;
        "intent": Op::StartRun { run, .. } => run.intent = Some(name("z"));
        "attempt before": Op::StartRun { run, .. } => run.after = None;
        "version of a put": Op::PutRecord(put) => put.expect = Expect::Version(Version { birth: 2, count: 2 });
        "version of a delete": Op::DeleteRecord { expect, .. } => {
            *expect = Expect::Version(Version { birth: 2, count: 2 });
        };
        "owner of a delete": Op::DeleteRecord { owner, .. } => *owner = None;
        "version of a restored record": Op::RestoreRecord { record } => record.version.count = 9;
        "times of a restored record": Op::RestoreRecord { record } => record.updated_at = at(9);
        "life of a session": Op::MoveLeaf { session, .. } => session.incarnation = Incarnation::from_bytes([7; 16]);
        "life of an owner": Op::PutRecord(put) => put.owner = Some(session("s", 7));
        "who takes a lease": Op::AcquireLease(grant) => grant.owner = owner(9);
        "secret of a lease": Op::AcquireLease(grant) => grant.token = token(9);
        "time of a lease": Op::AcquireLease(grant) => grant.ttl_ms = 9;
        "how a lease is taken": Op::AcquireLease(grant) => grant.takeover = Takeover::Force;
        "epoch of a renewal": Op::RenewLease { fence, .. } => fence.epoch = 9;
        "time of a renewal": Op::RenewLease { ttl_ms, .. } => *ttl_ms = 9;
        "epoch of a release": Op::ReleaseLease { fence } => fence.epoch = 9;
    }
}

#[test]
fn a_fingerprint_ignores_what_a_retry_makes_anew() {
    let whole: [Change; 6] = [
        ("guards", |commit| commit.guards.clear()),
        ("fences", |commit| commit.fences.clear()),
        ("wait", |commit| commit.wait = Some(std::time::Duration::from_secs(9))),
        ("request id", |commit| {
            commit.request = Some(Request::in_session(RequestId::host("z").unwrap(), s()));
        }),
        ("life of the scope", |commit| {
            let scope = session("s", 8);
            commit.request = Some(Request::in_session(RequestId::host("q").unwrap(), scope));
        }),
        ("owner of the receipt", |commit| {
            commit.request = commit.request.clone().map(|request| request.owned_by(session("z", 1)));
        }),
    ];
    let before = fingerprint(&everything());
    for (what, change) in redrawn().into_iter().chain(whole) {
        let mut commit = everything();
        change(&mut commit);
        assert_eq!(fingerprint(&commit), before, "{what}");
    }
}

#[test]
fn what_the_commit_itself_makes_may_get_new_ids_as_long_as_they_are_used_alike() {
    let drawn = |session: &SessionRef, run: &str, used: &str| {
        let new = NewSession {
            id: session.id.clone(),
            incarnation: session.incarnation,
            state: SessionState::Active,
            profile: Profile::default(),
        };
        let transition = Op::TransitionRun {
            session: session.clone(),
            run: run_id(used),
            from: RunStates::ACTIVE,
            to: RunState::Completed,
            error: None,
        };
        fingerprint(&commit().op(Op::CreateSession(new)).op(crate::kit::start(session, run)).op(transition))
    };
    let first = drawn(&session("drawn-1", 1), "run-1", "run-1");
    assert_eq!(first, drawn(&session("drawn-2", 2), "run-2", "run-2"));
    assert_ne!(first, drawn(&session("drawn-2", 2), "run-2", "run-1"), "another run is meant");
}

#[test]
fn a_given_fingerprint_is_taken_as_it_is() {
    let given = Fingerprint::from_bytes([3; 32]);
    let mut commit = everything();
    commit.request = commit.request.map(|request| request.fingerprint(given));
    assert_eq!(fingerprint(&commit), given);
}

/// Receipts are found again by stored fingerprints, so the form must never change under its version.
#[test]
fn version_1_of_the_form_never_changes() {
    assert_eq!(
        to_hex(fingerprint(&everything()).as_bytes()),
        "0ac26e92c8573043eff65a19382468adc298ffb3589fef0b4675858833340425"
    );
}
