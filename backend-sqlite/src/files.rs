//! The files of a store, and what can be told from them before the engine looks.

use std::fs;
use std::path::{Path, PathBuf};

use turnkeep_core::local::place;
use turnkeep_core::{Error, ErrorKind, Result};

/// Bytes of the smallest page. The engine takes a shorter file for an empty database and would write over it.
const SMALLEST_DATABASE: u64 = 512;

/// Where everything of one database lies: the canonical path and what stands beside it.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) db: PathBuf,
    pub(crate) wal: PathBuf,
    pub(crate) shm: PathBuf,
    pub(crate) journal: PathBuf,
    pub(crate) write_lock: PathBuf,
    pub(crate) owners: PathBuf,
}

impl Files {
    /// Finds the canonical place of a database, so that two ways to one file share one set of locks. Makes the
    /// folder (mode 0700) when it is absent.
    ///
    /// # Errors
    /// `Invalid` for a path that can be no file, else what the file system answers.
    pub(crate) fn locate(path: &Path) -> Result<Self> {
        let db = place::locate(path)?;
        let beside = |suffix: &str| place::beside(&db, suffix);
        Ok(Self {
            wal: beside("-wal"),
            shm: beside("-shm"),
            journal: beside("-journal"),
            write_lock: beside(".write.lock"),
            owners: beside(".owners"),
            db,
        })
    }

    /// Whether the database is still to be made: absent or without a byte.
    ///
    /// # Errors
    /// `Invalid` for something that is no file, `ReadOnly` or `Io` when its modes forbid the use, `Corrupt` when it
    /// is too short.
    pub(crate) fn is_fresh(&self) -> Result<bool> {
        let Some(found) = place::look_at(&self.db)? else { return Ok(true) };
        if found.len() >= SMALLEST_DATABASE {
            return Ok(false);
        }
        if found.len() > 0 {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the file is too short to be a database: cut off, or of another program; restore a backup, or name \
                 another file",
            )
            .with("path", self.db.display())
            .with("bytes", found.len()));
        }
        Ok(true)
    }

    /// A log without its database holds commits that nothing else has. A new database would throw them away. Asked
    /// only with the right to write: the log of somebody who is just making the database is no orphan, nor is the
    /// journal that somebody left who was stopped while making it.
    pub(crate) fn check_no_orphan(&self) -> Result<()> {
        let has_bytes = |path: &Path| fs::metadata(path).is_ok_and(|found| found.len() > 0);
        let log = if has_bytes(&self.wal) {
            &self.wal
        } else if has_bytes(&self.journal) && !self.is_journal_of_making()? {
            &self.journal
        } else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::Corrupt,
            "the database file is missing or empty, but its log is there and may hold the newest commits; put the \
             database file back beside it, or move the log away to begin anew",
        )
        .with("database", self.db.display())
        .with("log", log.display()))
    }

    /// Whether the rollback journal takes the database back to nothing: it says that the database had no page when it
    /// was begun, or it never was completed and counts for nothing.
    fn is_journal_of_making(&self) -> Result<bool> {
        /// What a journal begins with that counts; then come its number of records, a nonce, and the size before.
        const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        let mut head = [0; 20];
        let file = fs::File::open(&self.journal);
        match file.and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head)) {
            Ok(()) => Ok(head[..8] != MAGIC || head[16..] == [0; 4]),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(true),
            Err(error) => Err(Error::io("cannot read the journal of the database", &self.journal, error)),
        }
    }

    /// Makes the empty database file that only its user may read. One that is there is left as it is, but for its
    /// modes while it is empty.
    ///
    /// # Errors
    /// What the file system answers.
    pub(crate) fn create(&self, files: &turnkeep_core::local::Files) -> Result<()> {
        match files.create(&self.db) {
            Ok(_) => {
                files.sync_folder(self.db.parent());
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => make_private(&self.db)
                .map_err(|error| Error::io("cannot make the database file private", &self.db, error)),
            Err(error) => Err(Error::io("cannot create the database file", &self.db, error)),
        }
    }

    /// Those that are there.
    pub(crate) fn present(&self) -> Vec<PathBuf> {
        let all = [&self.db, &self.wal, &self.shm, &self.journal, &self.write_lock, &self.owners];
        all.into_iter().filter(|path| path.exists()).cloned().collect()
    }
}

#[cfg(unix)]
fn make_private(path: &Path) -> std::io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_private(_path: &Path) -> std::io::Result<()> {
    Ok(())
}
