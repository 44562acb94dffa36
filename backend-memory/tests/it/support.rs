//! A store with a clock set by hand and a seed, and short ways to say what a test does.

use std::future::Future;
use std::sync::Arc;

use turnkeep_core::commit::{
    Commit, Fence, LeaseGrant, NewEntry, NewEvent, NewRun, NewSession, Op, Parent, Put, Receipt, Takeover,
};
use turnkeep_core::id::{Collection, EntryKey, EntryKind, EventKind, RecordKey, Role, StreamName};
use turnkeep_core::model::{Entry, LeaseName, LeasePurpose, Profile, RunState, SessionRow, SessionState};
use turnkeep_core::query::{EntryQuery, Order, PathTo};
use turnkeep_core::{
    EntryNo, Error, ErrorKind, Expect, Incarnation, LeaseToken, ManualClock, Page, Payload, Result, RunId,
    SessionId, SessionKey, SessionRef, Store, Timestamp, WorkspaceId,
};
use turnkeep_memory::{MemoryOptions, MemoryStore};

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub(crate) fn ws() -> WorkspaceId {
    WorkspaceId::new("w").unwrap()
}

pub(crate) fn no(number: u32) -> EntryNo {
    EntryNo::new(number).unwrap()
}

pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

pub(crate) fn json(text: &str) -> Payload {
    Payload::new(text).unwrap()
}

/// A session by its id, with an incarnation that follows from it.
pub(crate) fn session(id: &str) -> SessionRef {
    life(id, 1)
}

/// A later life of an id.
pub(crate) fn life(id: &str, life: u8) -> SessionRef {
    let mut bits = [life; 16];
    for (bit, byte) in bits.iter_mut().skip(1).zip(id.bytes()) {
        *bit = byte;
    }
    SessionRef { id: SessionId::new(id).unwrap(), incarnation: Incarnation::from_bytes(bits) }
}

pub(crate) fn message(role: &str, text: &str) -> NewEntry {
    let kind = EntryKind::new("message").unwrap();
    let mut entry = NewEntry::new(kind, at(5), json(&format!("{{\"t\":{text:?}}}")));
    entry.role = Some(Role::new(role).unwrap());
    entry.text = Some(text.to_owned());
    entry
}

pub(crate) fn user(text: &str) -> NewEntry {
    message("user", text)
}

pub(crate) fn keyed(text: &str, key: &str) -> NewEntry {
    NewEntry { key: Some(EntryKey::new(key).unwrap()), ..user(text) }
}

pub(crate) fn after(parent: u32, entry: NewEntry) -> NewEntry {
    NewEntry { parent: Parent::Number(no(parent)), ..entry }
}

/// A label or a partial: beside the path.
pub(crate) fn beside(parent: u32, entry: NewEntry) -> NewEntry {
    NewEntry { advance_leaf: false, ..after(parent, entry) }
}

pub(crate) fn event(text: &str) -> NewEvent {
    NewEvent {
        kind: EventKind::new("note").unwrap(),
        run: None,
        at: at(6),
        payload: json(&format!("{text:?}")),
    }
}

pub(crate) fn stream(name: &str) -> StreamName {
    StreamName::new(name).unwrap()
}

pub(crate) fn collection(name: &str) -> Collection {
    Collection::new(name).unwrap()
}

pub(crate) fn record_key(key: &str) -> RecordKey {
    RecordKey::new(key).unwrap()
}

pub(crate) fn put(in_collection: &str, key: &str, owner: Option<&SessionRef>) -> Put {
    Put {
        collection: collection(in_collection),
        key: record_key(key),
        owner: owner.cloned(),
        status: None,
        expect: Expect::Any,
        payload: json("1"),
    }
}

pub(crate) fn new_run(id: &str) -> NewRun {
    NewRun::new(RunId::new(id).unwrap(), RunState::Running)
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

pub(crate) fn numbers(page: &Page<Entry>) -> Vec<u32> {
    page.items.iter().map(|entry| entry.number.get()).collect()
}

pub(crate) fn ids(page: &Page<SessionRow>) -> Vec<String> {
    page.items.iter().map(|row| row.id.as_str().to_owned()).collect()
}

/// A store and its clock.
pub(crate) struct Bench {
    pub(crate) store: MemoryStore,
    pub(crate) clock: ManualClock,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::default();
        let store = MemoryOptions::new().clock(Arc::new(clock.clone())).seed(7).build();
        Self { store, clock }
    }

    pub(crate) fn commit(&self, commit: Commit) -> Result<Receipt> {
        run(self.store.commit(commit))
    }

    pub(crate) fn try_op(&self, op: Op) -> Result<Receipt> {
        self.commit(Commit::new(ws()).op(op))
    }

    pub(crate) fn op(&self, op: Op) -> Receipt {
        self.try_op(op).unwrap()
    }

    pub(crate) fn create(&self, id: &str) -> SessionRef {
        self.create_with(&session(id), Profile::default())
    }

    pub(crate) fn create_with(&self, new: &SessionRef, profile: Profile) -> SessionRef {
        self.op(creation(new, SessionState::Active, profile));
        new.clone()
    }

    /// A session that is being built, its lease taken in the same commit.
    pub(crate) fn build(&self, id: &str) -> (SessionRef, Fence) {
        let new = session(id);
        let (grant, fence) = grant(&self.store, LeaseName::Session(new.clone()), 3);
        let commit = Commit::new(ws())
            .op(creation(&new, SessionState::Restoring, Profile::default()))
            .op(Op::AcquireLease(grant));
        self.commit(commit).unwrap();
        (new, fence)
    }

    pub(crate) fn append(&self, session: &SessionRef, entries: Vec<NewEntry>) -> Receipt {
        self.op(Op::Append { session: session.clone(), entries })
    }

    pub(crate) fn row(&self, id: &str) -> Option<SessionRow> {
        let key = SessionKey { workspace: ws(), id: SessionId::new(id).unwrap() };
        run(self.store.session(&key)).unwrap()
    }

    pub(crate) fn entries(&self, query: &EntryQuery) -> Page<Entry> {
        run(self.store.entries(query)).unwrap()
    }

    /// The path of the leaf, by number.
    pub(crate) fn path(&self, session: &SessionRef) -> Vec<u32> {
        let query = EntryQuery { path: Some(PathTo::Leaf), ..EntryQuery::new(ws(), session.clone()) };
        numbers(&self.entries(&query))
    }

    /// Nothing is damaged, as `verify` sees it.
    pub(crate) fn assert_sound(&self) {
        let report = run(self.store.maintenance().unwrap().verify()).unwrap();
        assert_eq!(report.damage, vec![], "the store is damaged");
    }
}

pub(crate) fn creation(new: &SessionRef, state: SessionState, profile: Profile) -> Op {
    let (id, incarnation) = (new.id.clone(), new.incarnation);
    Op::CreateSession(NewSession { id, incarnation, state, profile })
}

/// A grant in the name of a handle, and the fence that it gives as the first holder.
pub(crate) fn grant(store: &MemoryStore, name: LeaseName, token: u8) -> (LeaseGrant, Fence) {
    let token = LeaseToken::from_bytes([token; 16]);
    let owner = store.info().owner;
    let grant = LeaseGrant {
        name: name.clone(),
        owner,
        token,
        purpose: LeasePurpose::Fork,
        ttl_ms: 30_000,
        takeover: Takeover::IfExpired,
    };
    (grant, Fence { name, owner, token, epoch: 1 })
}

pub(crate) fn entry_query(session: &SessionRef) -> EntryQuery {
    EntryQuery::new(ws(), session.clone())
}

/// Follows the cursors of a query to its end. Bounded, so that a cursor that does not move on fails the test.
pub(crate) fn walk<T>(
    limit: u32,
    mut page: impl FnMut(u32, Option<turnkeep_core::Cursor>) -> Page<T>,
) -> Vec<Vec<T>> {
    let mut pages = Vec::new();
    let mut cursor = None;
    for _ in 0..10_000 {
        let part = page(limit, cursor.take());
        assert!(part.items.len() <= limit as usize, "a page holds more than its limit");
        assert!(part.next.is_none() || !part.items.is_empty(), "a page with a next page is empty");
        pages.push(part.items);
        match part.next {
            Some(next) => cursor = Some(next),
            None => return pages,
        }
    }
    panic!("the walk has no end");
}

/// All items of a walk, in the order of the whole list (`Latest` pages come newest first).
pub(crate) fn flatten<T>(order: Order, mut pages: Vec<Vec<T>>) -> Vec<T> {
    if order == Order::Latest {
        pages.reverse();
    }
    pages.into_iter().flatten().collect()
}
