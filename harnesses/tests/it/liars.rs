//! Backends that claim more than they keep.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use turnkeep_conformance::disk::{Call, Disk, FileId, Flush, Image, Names};
use turnkeep_conformance::{Harness, Manifest, OpenWith, Site};
use turnkeep_core::local::{FileAct, FileWatch, Files};
use turnkeep_core::{Durability, Layer, Result, Store, StoreInfo, SystemClock};
use turnkeep_harnesses::{RedbHarness, SqliteHarness};
use turnkeep_redb::{Medium, RedbOptions};
use turnkeep_sqlite::{SqliteOptions, Synchronous};

/// SQLite with less durability than it claims.
#[derive(Debug)]
pub(crate) struct SqliteLiar {
    pub(crate) really: Synchronous,
    pub(crate) claims: Durability,
}

impl SqliteLiar {
    async fn claim(&self, options: SqliteOptions, with: OpenWith) -> Result<Arc<dyn Store>> {
        let clock = with.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let store = options.synchronous(self.really).clock(clock).open().await?;
        let mut info = store.info().clone();
        info.durability = self.claims;
        Ok(Arc::new(Claiming { store: Arc::new(store), info }))
    }
}

#[async_trait]
impl Harness for SqliteLiar {
    fn manifest(&self) -> Manifest {
        Manifest { durability: self.claims, ..SqliteHarness.manifest() }
    }
    async fn provision(&self) -> Result<Site> {
        SqliteHarness.provision().await
    }
    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        self.claim(SqliteOptions::new(site.as_str()), with).await
    }
    async fn open_on(&self, site: &Site, disk: &Disk, with: OpenWith) -> Result<Option<Arc<dyn Store>>> {
        let vfs = turnkeep_test_vfs::register(disk, Path::new(site.as_str())).unwrap();
        let files = disk.watching(&Names::of(Path::new(site.as_str())));
        self.claim(SqliteOptions::new(site.as_str()).vfs(vfs).files(files), with).await.map(Some)
    }
    async fn lay_out(&self, image: &Image) -> Result<Option<Site>> {
        SqliteHarness.lay_out(image).await
    }
    async fn destroy(&self, site: &Site) -> Result<()> {
        SqliteHarness.destroy(site).await
    }
}

/// A store that says something else of itself.
#[derive(Debug)]
struct Claiming {
    store: Arc<dyn Store>,
    info: StoreInfo,
}

#[async_trait]
impl Layer for Claiming {
    fn behind(&self) -> &dyn Store {
        &*self.store
    }

    fn info(&self) -> &StoreInfo {
        &self.info
    }
}

/// What a device does with a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// Says that it is done, and does nothing.
    NeverSyncs,
    /// Says that it is done, and does it every third time.
    SyncsLate,
    /// Syncs files and never a folder.
    ForgetsNames,
}

/// redb on a device that lies.
#[derive(Debug)]
pub(crate) struct RedbLiar(pub(crate) Device);

#[async_trait]
impl Harness for RedbLiar {
    fn manifest(&self) -> Manifest {
        RedbHarness.manifest()
    }
    async fn provision(&self) -> Result<Site> {
        RedbHarness.provision().await
    }
    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        RedbHarness.open(site, with).await
    }
    async fn open_on(&self, site: &Site, disk: &Disk, with: OpenWith) -> Result<Option<Arc<dyn Store>>> {
        let (watched, device) = (disk.clone(), self.0);
        let names = Names::of(Path::new(site.as_str()));
        let clock = with.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let options = RedbOptions::new(site.as_str()).clock(clock);
        let files = match device {
            Device::ForgetsNames => Files::watched(Arc::new(ForgetsNames(disk.watch(&names)))),
            _ => disk.watching(&names),
        };
        let options = options.files(files).medium(move |path, file| {
            let id = watched.file(&names.short(path), || {
                let mut bytes = vec![0; file.metadata()?.len() as usize];
                file.read_exact_at(&mut bytes, 0).map(|()| bytes)
            });
            Box::new(Lying { id: id.unwrap(), file, disk: watched.clone(), device, syncs: AtomicU64::new(0) })
        });
        RedbHarness.open_as(site, options).await.map(Some)
    }
    async fn lay_out(&self, image: &Image) -> Result<Option<Site>> {
        RedbHarness.lay_out(image).await
    }
    async fn destroy(&self, site: &Site) -> Result<()> {
        RedbHarness.destroy(site).await
    }
}

#[derive(Debug)]
struct Lying {
    file: File,
    disk: Disk,
    id: FileId,
    device: Device,
    syncs: AtomicU64,
}

impl Medium for Lying {
    fn size(&self) -> io::Result<u64> {
        self.file.metadata().map(|found| found.len())
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.act(Call::SetLen(self.id, len), || self.file.set_len(len))
    }
    fn sync(&self) -> io::Result<()> {
        let count = self.syncs.fetch_add(1, Ordering::SeqCst);
        let late = self.device == Device::SyncsLate && !count.is_multiple_of(3);
        if self.device == Device::NeverSyncs || late {
            return Ok(());
        }
        self.disk.act(Call::Sync(self.id, Flush::Data), || Ok(()))
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.act(Call::Write(self.id, offset, data), || self.file.write_all_at(data, offset))
    }
}

/// Looks on, but for syncs of folders.
#[derive(Debug)]
struct ForgetsNames(Arc<dyn FileWatch>);

impl FileWatch for ForgetsNames {
    fn act(&self, act: FileAct<'_>, work: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        if matches!(act, FileAct::SyncFolder(_)) { work() } else { self.0.act(act, work) }
    }
}
