//! A disk that remembers and fails: what a power loss may leave, and what an engine does when its disk refuses.
//!
//! Killing a process proves little, because the page cache survives it. Here every operation of an engine on its files
//! goes through a [`Disk`], which keeps a [`Log`] of them. From the log come [`Image`]s: what the files may hold when
//! the power goes at some point of it. A store is then opened on the image as on any file.
//!
//! # What is assumed of a file system
//!
//! - A sync of a file makes its contents and its length durable, with and without the `data only` flag. Nothing else
//!   does. A failed sync makes nothing durable, and the next one that works makes all of it so.
//! - A name (made, moved, linked or removed) is durable once its folder was synced after it. A sync of the file alone
//!   does not do it, though some file systems are so kind.
//! - What is not durable may be there or not: of data, each sector by itself (512 bytes, never torn within), each as
//!   it was after any of the writes to it; of the length of a file, as it was after any of its changes; of names, any
//!   of them, but in order where they touch each other.
//! - Bytes beyond what was written read as zeros. Bytes beside a write keep their values.

mod fault;
mod image;
mod log;
mod names;
mod replay;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub use fault::{Failure, Fault, Kind};
pub use image::Image;
pub use log::{FileId, Log, Mark, Op, Step};
pub use names::{MAIN, Names};
pub use replay::{Loss, Replay};
pub use turnkeep_core::dice::Dice;

use fault::Faults;

/// A disk under an engine. Clones are the same disk.
///
/// A shim asks with [`enter`](Self::enter) before each operation and says with [`Entered::done`] that it was carried
/// out. The disk is held in between, so that its log has the order in which things happened.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    log: Log,
    names: BTreeMap<String, FileId>,
    lengths: Vec<u64>,
    faults: Faults,
    capacity: Option<u64>,
}

impl Inner {
    /// Bytes in all files, those included that only an open handle knows.
    fn used(&self) -> u64 {
        self.lengths.iter().sum()
    }

    fn add_file(&mut self, name: &str, length: u64) -> FileId {
        let file = FileId(self.lengths.len());
        self.lengths.push(length);
        self.names.insert(name.to_owned(), file);
        file
    }

    fn length(&mut self, file: FileId) -> &mut u64 {
        // Ids are given by this disk alone and files are never taken off the list.
        &mut self.lengths[file.0]
    }

    fn name_of(&self, file: FileId) -> &str {
        self.names.iter().find(|(_, id)| **id == file).map_or("", |(name, _)| name)
    }
}

/// What a shim is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// Makes an empty file of this name.
    Create(&'a str),
    /// Reads from a file.
    Read(FileId),
    /// Writes bytes at an offset; the file grows where they reach beyond its end.
    Write(FileId, u64, &'a [u8]),
    /// Cuts a file off, or adds zeros.
    SetLen(FileId, u64),
    /// Makes a file durable.
    Sync(FileId, Flush),
    /// Removes a name.
    Remove(&'a str),
    /// Gives a file another name; what had that name is gone.
    Rename(&'a str, &'a str),
    /// Gives a file a second name.
    Link(&'a str, &'a str),
    /// Makes the names in a folder durable: `""` is that of the store, and `"f"` that of `"f/name"`.
    SyncFolder(&'a str),
}

/// The flags of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// All that is known of the file.
    Full,
    /// The contents, and of the rest only what it takes to read them.
    Data,
}

impl Disk {
    /// A disk that nothing was done on yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of this name. One that the disk has not seen yet and that was there before is read by `bytes`.
    ///
    /// # Errors
    /// What `bytes` answers.
    pub fn file(&self, name: &str, bytes: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<FileId> {
        let mut inner = self.inner();
        if let Some(file) = inner.names.get(name) {
            return Ok(*file);
        }
        let bytes = bytes()?;
        let file = inner.add_file(name, bytes.len() as u64);
        inner.log.push(Step::Op(Op::Found { name: name.to_owned(), file, bytes: bytes.into() }));
        Ok(file)
    }

    /// Asks whether a call may go on. While the answer lives, nothing else happens on this disk.
    ///
    /// # Errors
    /// The failure that a fault asks for: nothing is to be done then.
    pub fn enter<'a>(&'a self, call: Call<'a>) -> Result<Entered<'a>, Failure> {
        let mut inner = self.inner();
        let (kind, name) = (Kind::of(&call), inner.subject(&call));
        if let Some(failure) = inner.faults.judge(kind, &name) {
            if failure == Failure::Abort {
                // The rest of the process must not run, and what it holds open ends as by a kill.
                std::process::abort();
            }
            return Err(failure);
        }
        if inner.exceeds(&call) {
            return Err(Failure::Full);
        }
        Ok(Entered { inner, call })
    }

    /// Carries a call out, unless a fault forbids it.
    ///
    /// # Errors
    /// The failure, or what `work` answers; nothing is noted then.
    pub fn act<T>(&self, call: Call<'_>, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let entered = self.enter(call)?;
        let done = work()?;
        entered.done();
        Ok(done)
    }

    /// Lets calls fail from now on.
    pub fn arm(&self, fault: Fault) {
        self.inner().faults.arm(fault);
    }

    /// Lets every call go on again.
    pub fn disarm(&self) {
        self.inner().faults.disarm();
    }

    /// How many calls failed by faults.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.inner().faults.failed
    }

    /// How many calls of a kind were made so far, failed ones included.
    #[must_use]
    pub fn calls(&self, kind: Kind) -> u64 {
        self.inner().faults.calls(kind)
    }

    /// Answers `Full` to whatever would make the files larger than this in sum. `None`: there is room.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.inner().capacity = bytes;
    }

    /// Bytes in all files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.inner().used()
    }

    /// Notes what the test did or was told.
    pub fn mark(&self, mark: Mark) {
        self.inner().log.push(Step::Mark(mark));
    }

    /// The same disk, as somebody holds it who must not keep it.
    #[must_use]
    pub fn downgrade(&self) -> WeakDisk {
        WeakDisk(Arc::downgrade(&self.inner))
    }

    /// What happened so far.
    #[must_use]
    pub fn log(&self) -> Log {
        self.inner().log.clone()
    }
}

/// A disk that somebody else keeps.
#[derive(Clone, Debug)]
pub struct WeakDisk(Weak<Mutex<Inner>>);

impl WeakDisk {
    /// The disk, if anybody still has it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Disk> {
        self.0.upgrade().map(|inner| Disk { inner })
    }
}

impl Inner {
    /// The name that a call is about.
    fn subject(&self, call: &Call<'_>) -> String {
        match call {
            Call::Create(name) | Call::Remove(name) | Call::Rename(_, name) | Call::Link(_, name) => {
                (*name).to_owned()
            }
            Call::Read(file) | Call::Write(file, ..) | Call::SetLen(file, _) | Call::Sync(file, _) => {
                self.name_of(*file).to_owned()
            }
            Call::SyncFolder(folder) => (*folder).to_owned(),
        }
    }

    fn exceeds(&mut self, call: &Call<'_>) -> bool {
        let Some(capacity) = self.capacity else { return false };
        let (file, end) = match call {
            Call::Write(file, offset, bytes) => (*file, offset.saturating_add(bytes.len() as u64)),
            Call::SetLen(file, len) => (*file, *len),
            _ => return false,
        };
        let growth = end.saturating_sub(*self.length(file));
        growth > 0 && self.used().saturating_add(growth) > capacity
    }
}

/// A call that may go on, and holds the disk until it is done. Dropped without [`done`](Self::done) it was not
/// carried out, and is not noted.
#[derive(Debug)]
pub struct Entered<'a> {
    inner: MutexGuard<'a, Inner>,
    call: Call<'a>,
}

impl Entered<'_> {
    /// Notes that the call was carried out. Gives the file that was made, of a `Create`.
    pub fn done(mut self) -> Option<FileId> {
        let inner = &mut *self.inner;
        let mut made = None;
        let op = match self.call {
            Call::Read(_) => return None,
            Call::Create(name) => {
                let file = inner.add_file(name, 0);
                made = Some(file);
                Op::Create { name: name.to_owned(), file }
            }
            Call::Write(file, offset, bytes) => {
                let length = inner.length(file);
                *length = (*length).max(offset.saturating_add(bytes.len() as u64));
                Op::Write { file, offset, bytes: bytes.into() }
            }
            Call::SetLen(file, len) => {
                *inner.length(file) = len;
                Op::SetLen { file, len }
            }
            Call::Sync(file, flush) => Op::Sync { file, flush },
            Call::Remove(name) => {
                if let Some(file) = inner.names.remove(name)
                    && inner.name_of(file).is_empty()
                {
                    *inner.length(file) = 0;
                }
                Op::Remove { name: name.to_owned() }
            }
            Call::Rename(from, to) => {
                if let Some(file) = inner.names.remove(from) {
                    inner.names.insert(to.to_owned(), file);
                }
                Op::Rename { from: from.to_owned(), to: to.to_owned() }
            }
            Call::Link(from, to) => {
                if let Some(file) = inner.names.get(from).copied() {
                    inner.names.insert(to.to_owned(), file);
                }
                Op::Link { from: from.to_owned(), to: to.to_owned() }
            }
            Call::SyncFolder(folder) => Op::SyncFolder { folder: folder.to_owned() },
        };
        inner.log.push(Step::Op(op));
        made
    }
}
