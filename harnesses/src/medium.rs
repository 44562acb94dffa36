//! A disk under redb.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use turnkeep_conformance::Site;
use turnkeep_conformance::disk::{Call, Disk, FileId, Flush, Names};
use turnkeep_redb::{Medium, RedbOptions};

use crate::folder;

/// Puts a disk under the engine.
pub(crate) fn on_disk(options: RedbOptions, site: &Site, disk: &Disk) -> RedbOptions {
    let names = Names::of(&folder::path(site));
    let options = options.files(disk.watching(&names));
    let disk = disk.clone();
    options.medium(move |path, file| Box::new(OnDisk::new(&names.short(path), file, disk.clone())))
}

/// The file of a store, with a disk that is asked and told of everything.
#[derive(Debug)]
struct OnDisk {
    file: File,
    disk: Disk,
    /// What the disk knows the file by; an error if it could not be read.
    id: io::Result<FileId>,
}

impl OnDisk {
    fn new(name: &str, file: File, disk: Disk) -> Self {
        let id = disk.file(name, || {
            let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        });
        Self { file, disk, id }
    }

    fn act<'c, T>(
        &self,
        call: impl FnOnce(FileId) -> Call<'c>,
        work: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        match &self.id {
            Ok(id) => self.disk.act(call(*id), || work(&self.file)),
            Err(error) => Err(io::Error::new(error.kind(), "the file could not be read when it was opened")),
        }
    }
}

impl Medium for OnDisk {
    fn size(&self) -> io::Result<u64> {
        self.file.metadata().map(|found| found.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.act(Call::Read, |file| file.read_exact_at(out, offset))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.act(|id| Call::SetLen(id, len), |file| file.set_len(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.act(|id| Call::Sync(id, Flush::Data), File::sync_data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.act(|id| Call::Write(id, offset, data), |file| file.write_all_at(data, offset))
    }
}
