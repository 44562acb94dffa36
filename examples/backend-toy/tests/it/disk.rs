//! A test disk under the store: it is asked before everything that is done to a file, and told afterwards.

use std::io;
use std::path::Path;

use turnkeep_conformance::disk::{Call, Disk, FileId, Flush, Names};
use turnkeep_toy::{FileSystem, Medium, MediumFile};

/// The file system, by way of a test disk.
#[derive(Debug)]
pub(crate) struct OnDisk {
    names: Names,
    disk: Disk,
}

impl OnDisk {
    pub(crate) fn new(log: &Path, disk: &Disk) -> Self {
        Self { names: Names::of(log), disk: disk.clone() }
    }
}

impl Medium for OnDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn MediumFile>> {
        let file = FileSystem.open(path)?;
        let id = self.disk.file(&self.names.short(path), || file.read())?;
        Ok(Box::new(FileOnDisk { file, disk: self.disk.clone(), id }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn MediumFile>> {
        let name = self.names.short(path);
        let entered = self.disk.enter(Call::Create(&name))?;
        let file = FileSystem.create(path)?;
        let id = entered.done().ok_or_else(|| io::Error::other("the disk knows no file that was made"))?;
        Ok(Box::new(FileOnDisk { file, disk: self.disk.clone(), id }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (old, new) = (self.names.short(from), self.names.short(to));
        self.disk.act(Call::Rename(&old, &new), || FileSystem.rename(from, to))
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let name = self.names.folder(folder);
        self.disk.act(Call::SyncFolder(&name), || FileSystem.sync_folder(folder))
    }
}

#[derive(Debug)]
struct FileOnDisk {
    file: Box<dyn MediumFile>,
    disk: Disk,
    id: FileId,
}

impl MediumFile for FileOnDisk {
    fn read(&self) -> io::Result<Vec<u8>> {
        self.disk.act(Call::Read(self.id), || self.file.read())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.act(Call::Write(self.id, offset, bytes), || self.file.write(offset, bytes))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.act(Call::SetLen(self.id, len), || self.file.set_len(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.act(Call::Sync(self.id, Flush::Data), || self.file.sync())
    }
}
