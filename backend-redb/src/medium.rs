//! What the engine reads and writes: the locked file, or a look at it that writes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;
use turnkeep_core::local::Permit;
use turnkeep_core::{Error, ErrorKind};

/// Bytes that a store lies in. The seam for tests of power losses and failing disks.
#[doc(hidden)]
pub trait Medium: fmt::Debug + Send + Sync + 'static {
    /// How many bytes there are.
    fn size(&self) -> io::Result<u64>;
    /// Fills `out` from `offset` on; an error if there are not enough bytes.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Cuts off or adds zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Returns once everything written before is durable.
    fn sync(&self) -> io::Result<()>;
    /// Writes bytes that are within the length.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;
}

/// A file, read and written at positions.
#[derive(Debug)]
pub(crate) struct FileMedium(pub(crate) File);

impl Medium for FileMedium {
    fn size(&self) -> io::Result<u64> {
        self.0.metadata().map(|found| found.len())
    }

    #[cfg(unix)]
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.0, out, offset)
    }

    #[cfg(windows)]
    fn read(&self, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        while !out.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(&self.0, out, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => {
                    out = &mut out[read..];
                    offset += read as u64;
                }
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    #[cfg(unix)]
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.0, data, offset)
    }

    #[cfg(windows)]
    fn write(&self, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let written = std::os::windows::fs::FileExt::seek_write(&self.0, data, offset)?;
            data = &data[written..];
            offset += written as u64;
        }
        Ok(())
    }
}

/// The medium of an open store, as the engine wants it, but without its locks: the lock is ours, is there before the
/// engine looks, and is seen by older versions of the engine too.
#[derive(Debug)]
pub(crate) struct Disk {
    medium: Box<dyn Medium>,
    syncs: Arc<Syncs>,
}

/// The syncs of an open store: they tell what a failed commit may have changed, and whether the file is as the engine
/// believes it to be.
#[derive(Debug)]
pub(crate) struct Syncs {
    head_written: AtomicBool,
    of_the_head: AtomicU64,
    /// Ends with the first sync that fails.
    pub(crate) permit: Permit,
}

impl Syncs {
    /// Of a store; `damaged` when it is opened only to read what is left of it.
    pub(crate) fn new(damaged: bool) -> Self {
        Self { head_written: false.into(), of_the_head: 0.into(), permit: Permit::new(damaged) }
    }

    /// How many were asked for so far, with whatever outcome, after the head of the file was written: it says which rows
    /// are current. The engine also syncs a file that grows, which makes nothing current.
    pub(crate) fn of_the_head(&self) -> u64 {
        self.of_the_head.load(Ordering::Acquire)
    }
}

impl Disk {
    pub(crate) fn new(medium: Box<dyn Medium>) -> Self {
        Self::counted(medium, Arc::new(Syncs::new(false)))
    }

    /// Counts its syncs there.
    pub(crate) fn counted(medium: Box<dyn Medium>, syncs: Arc<Syncs>) -> Self {
        Self { medium, syncs }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.medium.size()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.medium.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.medium.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.syncs.head_written.swap(false, Ordering::AcqRel) {
            self.syncs.of_the_head.fetch_add(1, Ordering::AcqRel);
        }
        self.medium.sync().inspect_err(|error| {
            let why = "the system could not make the file of the store durable";
            self.syncs
                .permit
                .poison(&Error::new(ErrorKind::of_io(error), why).with_source(error.to_string()));
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset == 0 {
            self.syncs.head_written.store(true, Ordering::Release);
        }
        self.medium.write(offset, data)
    }
}

/// A medium that nothing is written to: what the engine writes stays in memory and is seen by its own reads. So a file
/// can be recovered, checked and read without being touched.
#[derive(Debug)]
pub(crate) struct Look {
    below: Arc<dyn Medium>,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    len: u64,
    /// Bytes below this come from the medium unless they were written.
    kept: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
}

const PAGE: usize = 4096;

impl Look {
    pub(crate) fn new(below: Arc<dyn Medium>) -> io::Result<Self> {
        let len = below.size()?;
        Ok(Self { below, changes: Mutex::new(Changes { len, kept: len, pages: BTreeMap::new() }) })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page as the file has it, with zeros beyond its end.
    fn page_below(&self, kept: u64, page: u64) -> io::Result<Box<[u8; PAGE]>> {
        let mut bytes = Box::new([0; PAGE]);
        let start = page * PAGE as u64;
        let there = kept.saturating_sub(start).min(PAGE as u64) as usize;
        self.below.read(start, &mut bytes[..there])?;
        Ok(bytes)
    }

    /// Calls `each` with the page, the place within it, and the part of `0..len` of every page touched.
    fn pages(
        offset: u64,
        len: usize,
        mut each: impl FnMut(u64, usize, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (page, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let count = (PAGE - within).min(len - done);
            each(page, within, done..done + count)?;
            done += count;
        }
        Ok(())
    }
}

impl StorageBackend for Look {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        if offset.saturating_add(out.len() as u64) > changes.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::pages(offset, out.len(), |page, within, part| {
            let out = &mut out[part];
            if let Some(written) = changes.pages.get(&page) {
                out.copy_from_slice(&written[within..within + out.len()]);
                return Ok(());
            }
            let start = page * PAGE as u64 + within as u64;
            let there = changes.kept.saturating_sub(start).min(out.len() as u64) as usize;
            out[there..].fill(0);
            self.below.read(start, &mut out[..there])
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = self.changes();
        if len < changes.len {
            changes.kept = changes.kept.min(len);
            changes.pages.split_off(&len.div_ceil(PAGE as u64));
            let cut = (len % PAGE as u64) as usize;
            if cut > 0
                && let Some(page) = changes.pages.get_mut(&(len / PAGE as u64))
            {
                page[cut..].fill(0);
            }
        }
        changes.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes();
        Self::pages(offset, data.len(), |page, within, part| {
            let data = &data[part];
            if !changes.pages.contains_key(&page) {
                let fresh = self.page_below(changes.kept, page)?;
                changes.pages.insert(page, fresh);
            }
            if let Some(bytes) = changes.pages.get_mut(&page) {
                bytes[within..within + data.len()].copy_from_slice(data);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plain model: the whole contents in memory.
    #[test]
    fn a_look_reads_its_own_writes_and_touches_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let before: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &before).unwrap();
        let look = Look::new(Arc::new(FileMedium(File::open(&path).unwrap()))).unwrap();
        let mut model = before.clone();
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..600_u64 {
            match draw(10) {
                0 => {
                    let len = draw(30_000);
                    look.set_len(len).unwrap();
                    model.resize(len as usize, 0);
                }
                1..=5 if !model.is_empty() => {
                    let at = draw(model.len() as u64) as usize;
                    let count = (draw(9_000) as usize).min(model.len() - at);
                    let data = vec![step as u8; count];
                    look.write(at as u64, &data).unwrap();
                    model[at..at + count].copy_from_slice(&data);
                }
                _ => {
                    let mut seen = vec![0; model.len()];
                    look.read(0, &mut seen).unwrap();
                    assert!(seen == model, "step {step}");
                    assert_eq!(look.len().unwrap(), model.len() as u64);
                    assert!(look.read(model.len() as u64, &mut [0]).is_err());
                }
            }
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
