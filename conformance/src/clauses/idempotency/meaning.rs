//! IDM-007: what a caller meant by a commit, field by field.
//!
//! One commit has an op of nearly every kind with every field filled. Each field that is part of what a caller meant is
//! changed alone, and the changed commit must not pass for a repeat; each field that a retry makes anew is changed
//! alone, and the commit must still be recognised.

use turnkeep_core::commit::{
    Fence, NewRun, NewSession, OnKey, Op, Parent, Put, RefTarget, RunPatch, SessionPatch,
};
use turnkeep_core::id::SessionRef;
use turnkeep_core::model::{
    Audience, Channel, ForkKind, ForkOrigin, LeaseName, LeasePurpose, Profile, Row, RunState, RunStates,
    SessionState, Title, TitleSource, Usage, Version, Visibility,
};
use turnkeep_core::{Commit, ErrorKind, Expect, Incarnation, Timestamp};

use crate::context::Context;
use crate::kit::{Kit, event, grant, keyed, name, no, payload, put, run, user};
use crate::verdict::Outcome;

/// A change of a commit, and its words.
type Change = (&'static str, fn(&mut Commit));

/// The change of one op, found by its place.
macro_rules! change {
    ($at:expr, $op:pat => $change:expr) => {
        (concat!(stringify!($at), ": ", stringify!($change)), |commit: &mut Commit| {
            match &mut commit.ops[$at] {
                $op => {
                    $change;
                }
                other => panic!("the suite's own commit has another op at {}: {other:?}", $at),
            }
        })
    };
}

pub(super) async fn idm_007_every_part_of_what_was_meant_counts(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let work = work(&kit, &session).await?;
    judge(&kit, &session, "work", work, OTHER_WORK, SAME_WORK).await?;
    let copies = copies(&kit).await?;
    judge(&kit, &session, "copies", copies, OTHER_COPIES, SAME_COPIES).await
}

/// Makes the commit; then every other meaning is refused, and every retry recognised.
async fn judge(
    kit: &Kit,
    session: &SessionRef,
    id: &str,
    commit: Commit,
    others: &[Change],
    same: &[Change],
) -> Outcome {
    let commit = commit.request(kit.request(id, session));
    let first = kit.apply(commit.clone()).await?;
    let before = kit.snapshot().await?;
    for (what, change) in others {
        let mut other = commit.clone();
        change(&mut other);
        ensure!(other != commit, "the suite changes nothing by {what}");
        let answer = kit.store.commit(other).await;
        ensure_refused!(answer, ErrorKind::RequestConflict, "the request of another commit, {what}");
    }
    for (what, change) in same {
        let mut retry = commit.clone();
        change(&mut retry);
        ensure!(retry != commit, "the suite changes nothing by {what}");
        let again = kit.apply(retry).await?;
        ensure!(again.replayed, "a retry is taken for something new, {what}");
        ensure_eq!(again.outcomes, first.outcomes, "the receipt of a retry, {what}");
    }
    kit.unchanged(&before, "changed repeats of a request").await
}

fn title(text: &str) -> Title {
    Title { text: text.to_owned(), source: TitleSource::Manual }
}

fn channel(kind: &str, id: &str) -> Channel {
    Channel { kind: kind.to_owned(), id: id.to_owned() }
}

fn full_profile() -> Profile {
    Profile {
        title: Some(title("made")),
        cwd: Some("/a".to_owned()),
        audience: Audience::User,
        parent: Some(name("s")),
        fork: Some(ForkOrigin { kind: ForkKind::Message, boundary: no(1), seed_length: 1 }),
        channel: Some(channel("chat", "one")),
        project: Some("p".to_owned()),
        pinned: true,
        archived: true,
        meta: Some(payload("1")),
    }
}

/// Entries, runs, events, records, leases: an op of each kind with all of its fields.
async fn work(kit: &Kit, session: &SessionRef) -> Outcome<Commit> {
    kit.append(session, vec![keyed("first", "one"), user("two"), user("three")]).await?;
    let (gone, old) = (kit.create("gone").await?, kit.create("old").await?);
    kit.start(&old, run("ended")).await?;
    kit.apply(kit.commit().op(kit.moving(&old, &name("ended"), RunState::Failed))).await?;
    let ended = Op::AppendEvents {
        session: session.clone(),
        stream: name("log"),
        expect_next: None,
        events: vec![event("n", 1), event("n", 2)],
    };
    kit.apply(kit.commit().op(ended).op(Op::PutRecord(put("c", "gone", "1")))).await?;
    let lease = |id: &str| grant(LeaseName::Named(name(id)), kit.store.info().owner, kit.token(), 60_000);
    let (renewed, released) =
        (kit.acquire_as(lease("renewed")).await?, kit.acquire_as(lease("released")).await?);

    let mut first = keyed("k", "four");
    first.parent = Parent::Number(no(1));
    first.refs = vec![(name("labels"), RefTarget::Number(no(1)))];
    let mut second = user("five");
    second.parent = Parent::InCommit(0);
    second.refs = vec![(name("labels"), RefTarget::InCommit(0))];
    let started = NewRun {
        source: Some("cli".to_owned()),
        model: Some("m".to_owned()),
        mode: Some("ask".to_owned()),
        work_dir: Some("/w".to_owned()),
        ..run("r")
    };
    let patch = SessionPatch {
        title: Some(Some(title("patched"))),
        cwd: Some(Some("/b".to_owned())),
        channel: Some(Some(channel("chat", "two"))),
        project: Some(Some("q".to_owned())),
        pinned: Some(true),
        archived: Some(false),
        meta: Some(Some(payload("2"))),
    };
    let run_patch = RunPatch {
        error: Some(Some(payload("1"))),
        progress: Some(Some(payload("2"))),
        context_usage: Some(Some(payload("3"))),
        model: Some(Some("n".to_owned())),
    };
    let usage = Usage {
        requests: 1,
        input_tokens: 2,
        output_tokens: 3,
        total_tokens: 4,
        cache_read_tokens: 5,
        cache_write_tokens: 6,
        duration_ms: 7,
    };
    let owned = Put { owner: Some(session.clone()), status: Some(name("open")), ..put("c", "k", "1") };
    let of = || session.clone();
    let twins = [kit.life("twin one"), kit.life("twin two")];
    Ok(kit
        .commit()
        .op(Op::CreateSession(NewSession { profile: full_profile(), ..kit.new_session(&kit.life("made")) }))
        .op(Op::PatchSession { session: of(), patch })
        .op(Op::Append { session: of(), entries: vec![first, second] })
        .op(Op::MoveLeaf { session: of(), to: Some(no(2)) })
        .op(Op::StartRun { session: of(), run: started })
        .op(Op::TransitionRun {
            session: of(),
            run: name("r"),
            from: RunStates::ACTIVE,
            to: RunState::WaitingInput,
            error: Some(payload("4")),
        })
        .op(Op::PatchRun { session: of(), run: name("r"), patch: run_patch })
        .op(Op::AddUsage { session: of(), run: Some(name("r")), usage })
        .op(Op::AppendEvents {
            session: of(),
            stream: name("log"),
            expect_next: Some(3),
            events: vec![event("n", 3)],
        })
        .op(Op::DropEvents { session: of(), stream: name("log"), through: Some(1), close: false })
        .op(Op::PutRecord(owned))
        .op(Op::DeleteRecord { collection: name("c"), key: name("gone"), owner: None, expect: Expect::Any })
        .op(Op::AcquireLease(lease("taken")))
        .op(Op::RenewLease { fence: renewed, ttl_ms: 30_000 })
        .op(Op::ReleaseLease { fence: released })
        .op(Op::WhenKey {
            session: of(),
            key: name("first"),
            then: Box::new(Op::MoveLeaf { session: of(), to: Some(no(3)) }),
        })
        .op(Op::DeleteSession { session: gone, force: false })
        .op(Op::ReopenRun { session: old, run: name("ended") })
        .op(Op::CreateSession(kit.new_session(&twins[0])))
        .op(Op::CreateSession(kit.new_session(&twins[1])))
        .op(Op::Append { session: twins[1].clone(), entries: vec![user("to the second twin")] }))
}

const CREATE: usize = 0;
const PATCH: usize = 1;
const APPEND: usize = 2;
const MOVE: usize = 3;
const START: usize = 4;
const TRANSIT: usize = 5;
const PATCH_RUN: usize = 6;
const USAGE: usize = 7;
const EVENTS: usize = 8;
const DROP: usize = 9;
const PUT: usize = 10;
const FORGET: usize = 11;
const ACQUIRE: usize = 12;
const RENEW: usize = 13;
const RELEASE: usize = 14;
const WHEN: usize = 15;
const DELETE: usize = 16;
const REOPEN: usize = 17;
const TWINS: [usize; 2] = [18, 19];
const SECOND: usize = 20;

/// The life that an op makes.
fn made(op: &Op) -> SessionRef {
    match op {
        Op::CreateSession(new) => SessionRef { id: new.id.clone(), incarnation: new.incarnation },
        other => panic!("the suite's own commit makes no session here: {other:?}"),
    }
}

/// Each is another meaning.
const OTHER_WORK: &[Change] = &[
    ("one op fewer", |commit| drop(commit.ops.pop())),
    ("the ops in another order", |commit| commit.ops.swap(MOVE, USAGE)),
    change!(CREATE, Op::CreateSession(new) => new.state = SessionState::Restoring),
    change!(CREATE, Op::CreateSession(new) => new.profile.title = None),
    change!(CREATE, Op::CreateSession(new) => new.profile.title = Some(title("other"))),
    change!(CREATE, Op::CreateSession(new) => new.profile.title = Some(Title { source: TitleSource::Auto, ..title("made") })),
    change!(CREATE, Op::CreateSession(new) => new.profile.cwd = None),
    change!(CREATE, Op::CreateSession(new) => new.profile.cwd = Some("/c".to_owned())),
    change!(CREATE, Op::CreateSession(new) => new.profile.audience = Audience::SubAgent),
    change!(CREATE, Op::CreateSession(new) => new.profile.parent = None),
    change!(CREATE, Op::CreateSession(new) => new.profile.parent = Some(name("t"))),
    change!(CREATE, Op::CreateSession(new) => new.profile.fork = None),
    change!(CREATE, Op::CreateSession(new) => new.profile.fork = Some(ForkOrigin { kind: ForkKind::Session, boundary: no(1), seed_length: 1 })),
    change!(CREATE, Op::CreateSession(new) => new.profile.fork = Some(ForkOrigin { kind: ForkKind::Message, boundary: no(2), seed_length: 1 })),
    change!(CREATE, Op::CreateSession(new) => new.profile.fork = Some(ForkOrigin { kind: ForkKind::Message, boundary: no(1), seed_length: 2 })),
    change!(CREATE, Op::CreateSession(new) => new.profile.channel = None),
    change!(CREATE, Op::CreateSession(new) => new.profile.channel = Some(channel("mail", "one"))),
    change!(CREATE, Op::CreateSession(new) => new.profile.channel = Some(channel("chat", "other"))),
    change!(CREATE, Op::CreateSession(new) => new.profile.project = None),
    change!(CREATE, Op::CreateSession(new) => new.profile.pinned = false),
    change!(CREATE, Op::CreateSession(new) => new.profile.archived = false),
    change!(CREATE, Op::CreateSession(new) => new.profile.meta = None),
    change!(CREATE, Op::CreateSession(new) => new.profile.meta = Some(payload("3"))),
    change!(PATCH, Op::PatchSession { session, .. } => session.id = name("old")),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.title = None),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.title = Some(None)),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.title = Some(Some(title("other")))),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.cwd = None),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.cwd = Some(None)),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.channel = None),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.channel = Some(Some(channel("chat", "one")))),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.project = None),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.project = Some(Some("p".to_owned()))),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.pinned = None),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.pinned = Some(false)),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.archived = None),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.archived = Some(true)),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.meta = None),
    change!(PATCH, Op::PatchSession { patch, .. } => patch.meta = Some(Some(payload("9")))),
    change!(APPEND, Op::Append { session, .. } => session.id = name("old")),
    change!(APPEND, Op::Append { entries, .. } => drop(entries.pop())),
    change!(APPEND, Op::Append { entries, .. } => entries[0].parent = Parent::Leaf),
    change!(APPEND, Op::Append { entries, .. } => entries[0].parent = Parent::Root),
    change!(APPEND, Op::Append { entries, .. } => entries[0].parent = Parent::Number(no(2))),
    change!(APPEND, Op::Append { entries, .. } => entries[1].parent = Parent::Number(no(1))),
    change!(APPEND, Op::Append { entries, .. } => entries[0].advance_leaf = false),
    change!(APPEND, Op::Append { entries, .. } => entries[0].kind = name("label")),
    change!(APPEND, Op::Append { entries, .. } => entries[0].role = None),
    change!(APPEND, Op::Append { entries, .. } => entries[0].role = Some(name("assistant"))),
    change!(APPEND, Op::Append { entries, .. } => entries[0].key = None),
    change!(APPEND, Op::Append { entries, .. } => entries[0].key = Some(name("other"))),
    change!(APPEND, Op::Append { entries, .. } => entries[0].on_key = OnKey::Skip),
    change!(APPEND, Op::Append { entries, .. } => entries[0].visibility = Visibility::Internal),
    change!(APPEND, Op::Append { entries, .. } => entries[0].visibility = Visibility::Partial),
    change!(APPEND, Op::Append { entries, .. } => entries[0].refs.clear()),
    change!(APPEND, Op::Append { entries, .. } => entries[0].refs[0].0 = name("replaces")),
    change!(APPEND, Op::Append { entries, .. } => entries[0].refs[0].1 = RefTarget::Number(no(2))),
    change!(APPEND, Op::Append { entries, .. } => entries[1].refs[0].1 = RefTarget::Number(no(1))),
    change!(APPEND, Op::Append { entries, .. } => entries[0].text = None),
    change!(APPEND, Op::Append { entries, .. } => entries[0].text = Some("other".to_owned())),
    change!(APPEND, Op::Append { entries, .. } => entries[0].payload = payload("1")),
    change!(MOVE, Op::MoveLeaf { session, .. } => session.id = name("old")),
    change!(MOVE, Op::MoveLeaf { to, .. } => *to = None),
    change!(MOVE, Op::MoveLeaf { to, .. } => *to = Some(no(1))),
    change!(START, Op::StartRun { session, .. } => session.id = name("old")),
    change!(START, Op::StartRun { run, .. } => run.state = RunState::Pending),
    change!(START, Op::StartRun { run, .. } => run.source = None),
    change!(START, Op::StartRun { run, .. } => run.model = Some("other".to_owned())),
    change!(START, Op::StartRun { run, .. } => run.mode = None),
    change!(START, Op::StartRun { run, .. } => run.work_dir = None),
    change!(TRANSIT, Op::TransitionRun { run, .. } => *run = name("ended")),
    change!(TRANSIT, Op::TransitionRun { from, .. } => *from = RunStates::of(&[RunState::Running])),
    change!(TRANSIT, Op::TransitionRun { from, .. } => *from = RunStates::of(&[RunState::Pending])),
    change!(TRANSIT, Op::TransitionRun { to, .. } => *to = RunState::Cancelling),
    change!(TRANSIT, Op::TransitionRun { error, .. } => *error = None),
    change!(TRANSIT, Op::TransitionRun { error, .. } => *error = Some(payload("5"))),
    change!(PATCH_RUN, Op::PatchRun { run, .. } => *run = name("ended")),
    change!(PATCH_RUN, Op::PatchRun { patch, .. } => patch.error = None),
    change!(PATCH_RUN, Op::PatchRun { patch, .. } => patch.error = Some(None)),
    change!(PATCH_RUN, Op::PatchRun { patch, .. } => patch.progress = Some(Some(payload("9")))),
    change!(PATCH_RUN, Op::PatchRun { patch, .. } => patch.context_usage = None),
    change!(PATCH_RUN, Op::PatchRun { patch, .. } => patch.model = None),
    change!(PATCH_RUN, Op::PatchRun { patch, .. } => patch.model = Some(None)),
    change!(USAGE, Op::AddUsage { run, .. } => *run = None),
    change!(USAGE, Op::AddUsage { usage, .. } => usage.requests += 1),
    change!(USAGE, Op::AddUsage { usage, .. } => usage.input_tokens += 1),
    change!(USAGE, Op::AddUsage { usage, .. } => usage.output_tokens += 1),
    change!(USAGE, Op::AddUsage { usage, .. } => usage.total_tokens += 1),
    change!(USAGE, Op::AddUsage { usage, .. } => usage.cache_read_tokens += 1),
    change!(USAGE, Op::AddUsage { usage, .. } => usage.cache_write_tokens += 1),
    change!(USAGE, Op::AddUsage { usage, .. } => usage.duration_ms += 1),
    change!(EVENTS, Op::AppendEvents { stream, .. } => *stream = name("other")),
    change!(EVENTS, Op::AppendEvents { expect_next, .. } => *expect_next = None),
    change!(EVENTS, Op::AppendEvents { expect_next, .. } => *expect_next = Some(4)),
    change!(EVENTS, Op::AppendEvents { events, .. } => events.push(event("n", 4))),
    change!(EVENTS, Op::AppendEvents { events, .. } => events[0].kind = name("other")),
    change!(EVENTS, Op::AppendEvents { events, .. } => events[0].payload = payload("9")),
    change!(DROP, Op::DropEvents { stream, .. } => *stream = name("other")),
    change!(DROP, Op::DropEvents { through, .. } => *through = None),
    change!(DROP, Op::DropEvents { through, .. } => *through = Some(2)),
    change!(DROP, Op::DropEvents { close, .. } => *close = true),
    change!(PUT, Op::PutRecord(put) => put.collection = name("d")),
    change!(PUT, Op::PutRecord(put) => put.key = name("other")),
    change!(PUT, Op::PutRecord(put) => put.owner = None),
    change!(PUT, Op::PutRecord(put) => put.status = None),
    change!(PUT, Op::PutRecord(put) => put.status = Some(name("done"))),
    change!(PUT, Op::PutRecord(put) => put.expect = Expect::Absent),
    change!(PUT, Op::PutRecord(put) => put.payload = payload("2")),
    change!(FORGET, Op::DeleteRecord { collection, .. } => *collection = name("d")),
    change!(FORGET, Op::DeleteRecord { key, .. } => *key = name("k")),
    change!(FORGET, Op::DeleteRecord { expect, .. } => *expect = Expect::Absent),
    change!(ACQUIRE, Op::AcquireLease(grant) => grant.name = LeaseName::Named(name("other"))),
    change!(ACQUIRE, Op::AcquireLease(grant) => grant.purpose = LeasePurpose::Fork),
    change!(RENEW, Op::RenewLease { fence, .. } => fence.name = LeaseName::Named(name("other"))),
    change!(RELEASE, Op::ReleaseLease { fence } => fence.name = LeaseName::Named(name("other"))),
    change!(WHEN, Op::WhenKey { key, .. } => *key = name("k")),
    change!(WHEN, Op::WhenKey { then, .. } => **then = Op::MoveLeaf { session: leaf_of(then), to: None }),
    change!(DELETE, Op::DeleteSession { session, .. } => session.id = name("old")),
    change!(DELETE, Op::DeleteSession { force, .. } => *force = true),
    ("the words for the first twin", |commit| {
        let first = made(&commit.ops[TWINS[0]]);
        if let Op::Append { session, .. } = &mut commit.ops[SECOND] {
            *session = first;
        }
    }),
    ("the words for somebody else", |commit| {
        if let Op::Append { session, .. } = &mut commit.ops[SECOND] {
            *session = SessionRef { id: name("s"), incarnation: session.incarnation };
        }
    }),
    change!(REOPEN, Op::ReopenRun { run, .. } => *run = name("other")),
    change!(REOPEN, Op::ReopenRun { session, .. } => session.id = name("s")),
];

fn leaf_of(op: &Op) -> SessionRef {
    match op {
        Op::MoveLeaf { session, .. } => session.clone(),
        other => panic!("the suite's own commit has another op within: {other:?}"),
    }
}

/// Another life of the same id, as a retry that looked again would name it.
fn another_life() -> Incarnation {
    Incarnation::from_bytes([7; 16])
}

fn expire(fence: &mut Fence) {
    fence.epoch += 1;
}

/// Each is made anew by a retry.
const SAME_WORK: &[Change] = &[
    ("another patience", |commit| commit.wait = Some(std::time::Duration::from_secs(9))),
    change!(CREATE, Op::CreateSession(new) => new.incarnation = another_life()),
    change!(CREATE, Op::CreateSession(new) => new.id = name("drawn-anew")),
    change!(APPEND, Op::Append { entries, .. } => entries[0].at = entries[0].at.plus_ms(5)),
    change!(APPEND, Op::Append { entries, .. } => entries[0].turn = Some(name("turn"))),
    change!(EVENTS, Op::AppendEvents { events, .. } => events[0].at = events[0].at.plus_ms(5)),
    change!(FORGET, Op::DeleteRecord { owner, .. } => *owner = Some(SessionRef { id: name("s"), incarnation: another_life() })),
    change!(ACQUIRE, Op::AcquireLease(grant) => grant.ttl_ms += 1),
    change!(ACQUIRE, Op::AcquireLease(grant) => grant.takeover = turnkeep_core::commit::Takeover::Force),
    change!(RENEW, Op::RenewLease { ttl_ms, .. } => *ttl_ms += 1),
    change!(RENEW, Op::RenewLease { fence, .. } => expire(fence)),
    change!(RELEASE, Op::ReleaseLease { fence } => expire(fence)),
    ("the twins under other ids", |commit| {
        for (at, id) in TWINS.into_iter().zip(["drawn one", "drawn two"]) {
            if let Op::CreateSession(new) = &mut commit.ops[at] {
                new.id = name(id);
            }
        }
        let second = made(&commit.ops[TWINS[1]]);
        if let Op::Append { session, .. } = &mut commit.ops[SECOND] {
            *session = second;
        }
    }),
    ("the run under another id", |commit| {
        for op in &mut commit.ops {
            match op {
                Op::StartRun { run, .. } => run.id = name("drawn-anew"),
                Op::TransitionRun { run, .. } | Op::PatchRun { run, .. } => *run = name("drawn-anew"),
                Op::AddUsage { run, .. } => *run = Some(name("drawn-anew")),
                _ => {}
            }
        }
    }),
];

/// What builds copies: an op of each kind, in restoring sessions whose leases this client holds.
async fn copies(kit: &Kit) -> Outcome<Commit> {
    let record = kit.record("c", "k").await?;
    let record =
        record.ok_or_else(|| crate::verdict::Stop::fail("the record of the first commit is gone"))?;
    let record = turnkeep_core::model::Record {
        key: name("restored"),
        owner: None,
        version: Version { birth: 1, count: 1 },
        ..record
    };
    let source = kit.create("source").await?;
    kit.append(&source, vec![user("one"), user("two")]).await?;
    let rows: Vec<Row> = kit.rows(kit.rows_of(&source)).await?.into_iter().take(2).collect();
    ensure_eq!(rows.len(), 2, "the first rows of a session with two entries");
    let (copied, copied_fence) = kit.begin_restore("copied", Profile::default()).await?;
    let (restored, restored_fence) = kit.begin_restore("restored", Profile::default()).await?;
    Ok(kit
        .commit()
        .fence(copied_fence)
        .fence(restored_fence)
        .op(Op::CopyEntries { from: source, to: copied, after: None, through: no(2) })
        .op(Op::Restore { session: restored, rows })
        .op(Op::RestoreRecord { record }))
}

const COPY: usize = 0;
const RESTORE: usize = 1;
const RECORD: usize = 2;

/// Each is another meaning.
const OTHER_COPIES: &[Change] = &[
    change!(COPY, Op::CopyEntries { from, .. } => from.id = name("s")),
    change!(COPY, Op::CopyEntries { to, .. } => to.id = name("restored")),
    change!(COPY, Op::CopyEntries { after, .. } => *after = Some(no(1))),
    change!(COPY, Op::CopyEntries { through, .. } => *through = no(1)),
    change!(RESTORE, Op::Restore { session, .. } => session.id = name("copied")),
    change!(RESTORE, Op::Restore { rows, .. } => drop(rows.pop())),
    change!(RESTORE, Op::Restore { rows, .. } => rewrite(rows)),
    change!(RECORD, Op::RestoreRecord { record } => record.collection = name("d")),
    change!(RECORD, Op::RestoreRecord { record } => record.key = name("other")),
    change!(RECORD, Op::RestoreRecord { record } => record.status = None),
    change!(RECORD, Op::RestoreRecord { record } => record.ordinal += 1),
    change!(RECORD, Op::RestoreRecord { record } => record.payload = payload("9")),
];

/// Each is made anew by a retry.
const SAME_COPIES: &[Change] = &[
    change!(RECORD, Op::RestoreRecord { record } => record.version = Version { birth: 9, count: 9 }),
    change!(RECORD, Op::RestoreRecord { record } => record.updated_at = Timestamp::from_millis(0)),
];

fn rewrite(rows: &mut [Row]) {
    match &mut rows[1] {
        Row::Entry(entry) => entry.at = entry.at.plus_ms(1),
        other => panic!("the suite's second row is no entry: {other:?}"),
    }
}
