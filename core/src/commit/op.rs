//! Operations: what a commit does.

use crate::commit::Expect;
use crate::id::{
    Collection, EntryKey, EntryKind, EntryNo, EventKind, Incarnation, IntentId, LeaseToken, OwnerId,
    RecordKey, Relation, Role, RunId, SessionId, SessionRef, Status, StreamName, TurnId,
};
use crate::model::{
    Channel, LeaseName, LeasePurpose, Profile, Row, RunState, RunStates, SessionState, Title, Usage,
    Visibility,
};
use crate::payload::Payload;
use crate::time::Timestamp;

/// A session to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSession {
    /// Its id. Never merged with one that is there.
    pub id: SessionId,
    /// 128 fresh random bits.
    pub incarnation: Incarnation,
    /// In use at once, or hidden until sealed.
    pub state: SessionState,
    /// What is said of it.
    pub profile: Profile,
}

/// Changes of a session's profile; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPatch {
    /// Sets or clears the title.
    pub title: Option<Option<Title>>,
    /// Sets or clears the working directory.
    pub cwd: Option<Option<String>>,
    /// Sets or clears the channel.
    pub channel: Option<Option<Channel>>,
    /// Sets or clears the project.
    pub project: Option<Option<String>>,
    /// Pins or unpins.
    pub pinned: Option<bool>,
    /// Archives or brings back.
    pub archived: Option<bool>,
    /// Sets or clears the host's own data.
    pub meta: Option<Option<Payload>>,
}

/// Which entry a new one follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// The leaf, as the entries before it in this commit left it.
    #[default]
    Leaf,
    /// None: a new root.
    Root,
    /// The entry of this number.
    Number(EntryNo),
    /// The entry at this place in the same append, from 0; earlier than this one.
    InCommit(usize),
}

/// What to do when a key is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnKey {
    /// Refuse the commit.
    #[default]
    Refuse,
    /// Leave this entry out; the receipt names the entry that has the key.
    Skip,
}

/// The target of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefTarget {
    /// The entry of this number.
    Number(EntryNo),
    /// The entry at this place in the same append, from 0; earlier than this one.
    InCommit(usize),
}

/// An entry to be appended. The store gives it its number.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// Which entry it follows.
    pub parent: Parent,
    /// Whether the leaf moves to it. Labels and partials leave the leaf where it is and lie on no path.
    pub advance_leaf: bool,
    /// What it is.
    pub kind: EntryKind,
    /// Who speaks.
    pub role: Option<Role>,
    /// The run that wrote it.
    pub run: Option<RunId>,
    /// The turn it belongs to.
    pub turn: Option<TurnId>,
    /// A key, unique in the session.
    pub key: Option<EntryKey>,
    /// What to do when the key is taken.
    pub on_key: OnKey,
    /// Who sees it.
    pub visibility: Visibility,
    /// When it happened.
    pub at: Timestamp,
    /// References to earlier entries.
    pub refs: Vec<(Relation, RefTarget)>,
    /// What search and previews use. No NUL character.
    pub text: Option<String>,
    /// The content.
    pub payload: Payload,
}

impl NewEntry {
    /// An entry of a kind that continues the leaf.
    #[must_use]
    pub fn new(kind: EntryKind, at: Timestamp, payload: Payload) -> Self {
        Self {
            parent: Parent::Leaf,
            advance_leaf: true,
            kind,
            role: None,
            run: None,
            turn: None,
            key: None,
            on_key: OnKey::Refuse,
            visibility: Visibility::Conversation,
            at,
            refs: Vec::new(),
            text: None,
            payload,
        }
    }
}

/// A run to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// Its id, unused in the session.
    pub id: RunId,
    /// `Pending` or `Running`.
    pub state: RunState,
    /// The accepted request it tries to fulfil.
    pub intent: Option<IntentId>,
    /// The newest attempt at that request, as the caller knows it; `None` for the first. Another newest attempt
    /// refuses the commit with `VersionConflict`.
    pub after: Option<RunId>,
    /// Where the request came from.
    pub source: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
    /// The mode.
    pub mode: Option<String>,
    /// The working directory.
    pub work_dir: Option<String>,
}

impl NewRun {
    /// A run that says nothing beyond its state.
    #[must_use]
    pub fn new(id: RunId, state: RunState) -> Self {
        Self { id, state, intent: None, after: None, source: None, model: None, mode: None, work_dir: None }
    }
}

/// Changes of a run outside its state; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunPatch {
    /// Sets or clears the structured error.
    pub error: Option<Option<Payload>>,
    /// Sets or clears the progress.
    pub progress: Option<Option<Payload>>,
    /// Sets or clears the context usage.
    pub context_usage: Option<Option<Payload>>,
    /// Sets or clears the model.
    pub model: Option<Option<String>>,
}

/// An event to be appended. The store gives it its number.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// What happened.
    pub kind: EventKind,
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// When.
    pub at: Timestamp,
    /// The content.
    pub payload: Payload,
}

/// A record to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Put {
    /// The collection.
    pub collection: Collection,
    /// The key within it.
    pub key: RecordKey,
    /// The owning session; a different one than before moves the record to the end of the new owner's list.
    pub owner: Option<SessionRef>,
    /// The status column.
    pub status: Option<Status>,
    /// What the record must be now.
    pub expect: Expect,
    /// The content.
    pub payload: Payload,
}

/// When a lease may be taken from somebody else. A free or released one can always be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takeover {
    /// When it has expired by the store's clock.
    #[default]
    IfExpired,
    /// When its owner is proven dead, or nobody can tell and it has expired. A stopped process keeps its lease.
    IfOwnerDead,
    /// Always.
    Force,
}

/// A lease to be taken.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseGrant {
    /// What it protects.
    pub name: LeaseName,
    /// The handle that takes it: `StoreInfo::owner`.
    pub owner: OwnerId,
    /// 128 fresh random bits that prove the holding.
    pub token: LeaseToken,
    /// What the holder does.
    pub purpose: LeasePurpose,
    /// How long until others may take it, in milliseconds by the store's clock: 1 to 86,400,000.
    pub ttl_ms: u64,
    /// When it may be taken from somebody else.
    pub takeover: Takeover,
}

/// One operation. "Exclusive" ones on a session need its lease fenced, free, or acquired earlier in the commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Does the op only if an entry with this key is there; else the outcome is `Skipped`. Cannot be nested.
    WhenKey {
        /// The session.
        session: SessionRef,
        /// The key.
        key: EntryKey,
        /// The op.
        then: Box<Op>,
    },
    /// Makes a session. `AlreadyExists` if the id is taken, by a hidden session too.
    CreateSession(NewSession),
    /// Changes the profile. Shared.
    PatchSession {
        /// The session.
        session: SessionRef,
        /// The changes.
        patch: SessionPatch,
    },
    /// Removes a session with its records from every read; its rows are purged in slices. Exclusive unless forced.
    DeleteSession {
        /// The session.
        session: SessionRef,
        /// Also when somebody holds it or a run is active.
        force: bool,
    },
    /// Appends entries. Exclusive.
    Append {
        /// The session.
        session: SessionRef,
        /// The entries, in order.
        entries: Vec<NewEntry>,
    },
    /// Moves the leaf to an entry of a path, or before the first. Exclusive.
    MoveLeaf {
        /// The session.
        session: SessionRef,
        /// The new leaf.
        to: Option<EntryNo>,
    },
    /// Copies the entries `after+1 ..= through` with their numbers, and the runs they name, into a restoring
    /// session whose lease is held. `after` must be the child's head.
    CopyEntries {
        /// The source.
        from: SessionRef,
        /// The restoring child.
        to: SessionRef,
        /// The child's head.
        after: Option<EntryNo>,
        /// The last entry of this slice, at most 1,000 after `after`.
        through: EntryNo,
    },
    /// Puts a restoring session into use, if as many rows with the same rolling digest arrived. Needs its lease.
    SealSession {
        /// The session.
        session: SessionRef,
        /// The leaf it gets.
        leaf: Option<EntryNo>,
        /// Rows restored and entries copied.
        rows: u64,
        /// The rolling digest over them.
        digest: [u8; 32],
    },
    /// Writes exact rows, in order, into a restoring session. Needs its lease.
    Restore {
        /// The session.
        session: SessionRef,
        /// The rows.
        rows: Vec<Row>,
    },
    /// Writes a record that no session owns, exactly, if it is absent. For copies of a workspace.
    RestoreRecord {
        /// The record; its version is given anew.
        record: crate::model::Record,
    },
    /// Starts a run. `ActiveRun` if another is active. Exclusive.
    StartRun {
        /// The session.
        session: SessionRef,
        /// The run.
        run: NewRun,
    },
    /// Moves a run to a state, if it is in one of `from` and the table allows it. Else `RunState`. Exclusive.
    TransitionRun {
        /// The session.
        session: SessionRef,
        /// The run.
        run: RunId,
        /// The states it may be in.
        from: RunStates,
        /// The state it gets.
        to: RunState,
        /// The structured error, when given.
        error: Option<Payload>,
    },
    /// Takes a failed, cancelled or interrupted run up again. Exclusive.
    ReopenRun {
        /// The session.
        session: SessionRef,
        /// The run.
        run: RunId,
    },
    /// Changes a run outside its state. Exclusive.
    PatchRun {
        /// The session.
        session: SessionRef,
        /// The run.
        run: RunId,
        /// The changes.
        patch: RunPatch,
    },
    /// Adds to the counters of a session, and of a run when named. Exclusive.
    AddUsage {
        /// The session.
        session: SessionRef,
        /// The run.
        run: Option<RunId>,
        /// What to add.
        usage: Usage,
    },
    /// Appends events to a stream. With `expect_next` a repeat of the newest batch changes nothing, and anything
    /// else than the next number is a `VersionConflict`. Exclusive for exclusive streams.
    AppendEvents {
        /// The session.
        session: SessionRef,
        /// The stream.
        stream: StreamName,
        /// The number that the first event must get.
        expect_next: Option<u64>,
        /// The events, in order.
        events: Vec<NewEvent>,
    },
    /// Drops the beginning of a stream; its head stays. Exclusive for exclusive streams.
    DropEvents {
        /// The session.
        session: SessionRef,
        /// The stream.
        stream: StreamName,
        /// The last event dropped; `None` drops all.
        through: Option<u64>,
        /// Takes no more events afterwards (`TurnNotOpen`).
        close: bool,
    },
    /// Writes a record. Exclusive for owned records of exclusive collections.
    PutRecord(Put),
    /// Deletes a record. Exclusive for owned records of exclusive collections.
    DeleteRecord {
        /// The collection.
        collection: Collection,
        /// The key.
        key: RecordKey,
        /// Its owner, as the caller knows it. An exclusive record needs the right one.
        owner: Option<SessionRef>,
        /// What it must be now.
        expect: Expect,
    },
    /// Takes a lease. `LeaseHeld` if somebody else has it.
    AcquireLease(LeaseGrant),
    /// Moves the expiry of a lease that is still held. Else `LeaseLost`.
    RenewLease {
        /// The lease.
        fence: crate::commit::Fence,
        /// How long from now, in milliseconds.
        ttl_ms: u64,
    },
    /// Gives a lease back. Repeating it is harmless; if somebody took it over, `LeaseLost`.
    ReleaseLease {
        /// The lease.
        fence: crate::commit::Fence,
    },
}
