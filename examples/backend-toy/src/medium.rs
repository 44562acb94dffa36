//! The few things that a store does to files. Tests put a disk here that remembers, and fails when it is told to.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use turnkeep_core::local::owner::private;

/// Where the files of a store are.
pub trait Medium: fmt::Debug + Send + Sync + 'static {
    /// Opens a file that is there.
    ///
    /// # Errors
    /// What the system answers.
    fn open(&self, path: &Path) -> io::Result<Box<dyn MediumFile>>;

    /// Makes an empty file, in place of one that may be there. Only its user may read it.
    ///
    /// # Errors
    /// What the system answers.
    fn create(&self, path: &Path) -> io::Result<Box<dyn MediumFile>>;

    /// Gives a file another name, in place of what may have that name. Both are in one folder.
    ///
    /// # Errors
    /// What the system answers.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Returns once the names in a folder are durable. Without this a file that was synced may be gone after a power
    /// loss, because nothing leads to it.
    ///
    /// # Errors
    /// What the system answers.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// An open file.
pub trait MediumFile: fmt::Debug + Send + Sync + 'static {
    /// All of it.
    ///
    /// # Errors
    /// What the system answers.
    fn read(&self) -> io::Result<Vec<u8>>;

    /// Writes at an offset; the file grows where that is needed.
    ///
    /// # Errors
    /// What the system answers. Part of the bytes may be written then.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file off.
    ///
    /// # Errors
    /// What the system answers.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns once everything written before is durable.
    ///
    /// # Errors
    /// What the system answers. Nobody knows then what is durable.
    fn sync(&self) -> io::Result<()>;
}

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl Medium for FileSystem {
    fn open(&self, path: &Path) -> io::Result<Box<dyn MediumFile>> {
        Ok(Box::new(private().open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn MediumFile>> {
        Ok(Box::new(private().create(true).truncate(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    #[cfg(unix)]
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    /// Elsewhere folders cannot be synced, and the file system does it by itself.
    #[cfg(not(unix))]
    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl MediumFile for File {
    fn read(&self) -> io::Result<Vec<u8>> {
        use std::io::{Read, Seek, SeekFrom};
        let (mut file, mut bytes) = (self, Vec::new());
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        use std::io::{Seek, SeekFrom, Write};
        let mut file = self;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
