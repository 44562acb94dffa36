//! Where the file of a store lies, and what can be told before an engine looks at it.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::local::owner::create_private_folder;
use crate::local::{Files, random_bits};

/// Finds the canonical place of a store, so that two ways to one file are seen to be one. Makes the folder (mode 0700)
/// when it is absent.
///
/// # Errors
/// `Invalid` for a path that can be no file, else what the file system answers.
pub fn locate(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(invalid("the path of the store names no file", path));
    };
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Error::new(ErrorKind::Invalid, "the path of the store holds a NUL character"));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.exists() {
        create_private_folder(folder)
            .map_err(|error| Error::io("cannot make the folder of the store", folder, error))?;
        Files::default().sync_folder(folder.parent());
    }
    let folder = fs::canonicalize(folder)
        .map_err(|error| Error::io("cannot find the folder of the store", folder, error))?;
    let place = folder.join(name);
    match fs::symlink_metadata(&place) {
        Ok(found) if found.is_symlink() => fs::canonicalize(&place).map_err(|error| {
            Error::io("cannot follow the link that the path of the store is", &place, error)
        }),
        Ok(_) => Ok(place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(place),
        Err(error) => Err(Error::io("cannot look at the file of the store", &place, error)),
    }
}

/// What is at the place of a store; `None` when nothing is.
///
/// # Errors
/// `Invalid` for something that is no file, `ReadOnly` or `Io` when its modes forbid the use.
pub fn look_at(place: &Path) -> Result<Option<Metadata>> {
    let found = match fs::metadata(place) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("cannot look at the file of the store", place, error)),
    };
    if found.is_dir() {
        return Err(invalid("the path of the store is a folder; name a file in it", place));
    }
    if !found.is_file() {
        return Err(invalid("the path of the store is no ordinary file", place));
    }
    // Modes are a statement of the owner's will, also where the user is one that no mode stops.
    if found.permissions().readonly() {
        let message = "the file of the store is read-only; allow writing, or open a copy";
        return Err(Error::new(ErrorKind::ReadOnly, message).with("path", place.display()));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o444 == 0 {
        let message = "the file of the store may not be read; change its mode";
        return Err(Error::new(ErrorKind::Io, message).with("path", place.display()));
    }
    Ok(Some(found))
}

/// The error for a file of a store that holds nothing.
#[must_use]
pub fn empty(path: &Path) -> Error {
    let message = "the file of the store is empty: its contents are lost, or it never was a store; restore a backup, or \
                   remove the file to begin anew";
    Error::new(ErrorKind::Corrupt, message).with("path", path.display())
}

fn invalid(message: &str, path: &Path) -> Error {
    Error::new(ErrorKind::Invalid, message).with("path", path.display())
}

/// The file with a longer name in the same folder.
#[must_use]
pub fn beside(path: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A name beside `path` that nobody else uses, for what is not whole yet. Whoever makes it holds a lock on it, so that
/// [`tidy`] lets it be.
///
/// # Errors
/// `Io` when the operating system gives no random bits.
pub fn unfinished(path: &Path) -> Result<PathBuf> {
    Ok(beside(path, format!(".{:016x}{UNFINISHED}", random_bits()?)))
}

/// Removes what killed processes left unfinished of `path` and of files named after it, such as its backups, and what
/// belongs to that: journals and workshops.
pub fn tidy(path: &Path) {
    let Some(name) = path.file_name() else { return };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(files) = fs::read_dir(folder) else { return };
    for left in files.flatten() {
        let left = left.path();
        let Some(base) = unfinished_file(&left, name) else { continue };
        // Locked until it is gone, so that whoever just made it sees that it goes.
        let held;
        let nobody_is_at_it = match fs::symlink_metadata(&base) {
            Ok(found) if is_published(&found) => true,
            Ok(found) if found.is_file() => {
                held = File::open(&base);
                held.as_ref().is_ok_and(|file| file.try_lock().is_ok())
            }
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if nobody_is_at_it {
            let _ = if is_workshop(&left) { fs::remove_dir_all(&left) } else { fs::remove_file(&left) };
        }
    }
}

/// Whether a file has got its own name too, and was killed before it lost the other. It may be in use by then, even by
/// this process, whose locks on it would end if it was opened and closed here.
#[cfg(unix)]
fn is_published(found: &Metadata) -> bool {
    found.is_file() && std::os::unix::fs::MetadataExt::nlink(found) > 1
}

#[cfg(not(unix))]
fn is_published(_found: &Metadata) -> bool {
    false
}

/// A folder for the making of what needs more than one file. It goes when this is dropped; of a killed process it stays
/// until somebody tidies up.
#[derive(Debug)]
pub struct Workshop {
    folder: PathBuf,
    mark: PathBuf,
    /// Its lock says that somebody is at it.
    _held: File,
}

impl Workshop {
    /// Makes one beside `path`, which only its user may look into.
    ///
    /// # Errors
    /// Whatever the file system answers, and `Io` when the operating system gives no random bits.
    pub fn beside(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("cannot make a folder to work in beside it", path, error);
        let (mark, held) = Self::mark(|| unfinished(path), failed)?;
        let folder = beside(&mark, WORKSHOP);
        let shop = Self { folder: folder.clone(), mark, _held: held };
        create_private_folder(&folder).map_err(failed)?;
        Ok(shop)
    }

    /// Makes a mark and holds it: the mark first, because a folder without one belongs to nobody. A neighbour who tidies
    /// up may be faster than the lock; then another one is made.
    fn mark(
        mut name: impl FnMut() -> Result<PathBuf>,
        failed: impl Fn(io::Error) -> Error,
    ) -> Result<(PathBuf, File)> {
        for _ in 0..TRIES {
            let mark = name()?;
            let held = Files::default().create(&mark).map_err(&failed)?;
            // Without locks there is no tidying either.
            let is_ours = !matches!(held.try_lock(), Err(TryLockError::WouldBlock));
            if is_ours && fs::symlink_metadata(&mark).is_ok() {
                return Ok((mark, held));
            }
            let _ = fs::remove_file(&mark);
        }
        Err(failed(io::ErrorKind::WouldBlock.into()))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        let _ = fs::remove_file(&self.mark);
    }
}

/// What an unfinished file ends with.
const UNFINISHED: &str = ".unfinished";
/// How often a mark is made again that a neighbour tidied up.
const TRIES: u32 = 8;
/// What the folder of a workshop ends with, after the name of its mark.
const WORKSHOP: &str = "-workshop";

fn is_workshop(left: &Path) -> bool {
    left.as_os_str().as_encoded_bytes().ends_with(WORKSHOP.as_bytes())
}

/// The unfinished file that something belongs to, if it is to become `name` or a file named after it.
fn unfinished_file(left: &Path, name: &OsStr) -> Option<PathBuf> {
    let found = left.file_name()?.to_str()?;
    let base = ["-journal", WORKSHOP].iter().find_map(|end| found.strip_suffix(end)).unwrap_or(found);
    let more = base.strip_prefix(name.to_str()?)?.strip_suffix(UNFINISHED)?;
    let (between, bits) = more.rsplit_once('.')?;
    let named_after = between.is_empty() || between.starts_with('.');
    let ours = named_after && bits.len() == 16 && bits.bytes().all(|byte| byte.is_ascii_hexdigit());
    ours.then(|| left.with_file_name(base))
}

/// Makes a file that is whole or not there at all: `make` does so under a name of its own, and only then it gets the
/// name `path`. Answers `false` when somebody had that name by then; nothing of ours is left.
///
/// # Errors
/// What `make` answers, and the file system.
pub fn make_whole(files: &Files, path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<bool> {
    let unfinished = unfinished(path)?;
    let published = |()| {
        let published = files.publish(&unfinished, path);
        published.map_err(|error| Error::io("cannot give the file its name", path, error))
    };
    let made = make(&unfinished).and_then(published);
    if !matches!(made, Ok(true)) {
        // Best effort: what is answered says more than this error would.
        let _ = files.remove(&unfinished);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_is_at_any_more_is_tidied_up_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("t");
        let (dead, alive) = (unfinished(&to).unwrap(), unfinished(&to).unwrap());
        let journal = |path: &Path| PathBuf::from(format!("{}-journal", path.display()));
        let others = ["t", "t.backup", "t.unfinished", "tt.0123456789abcdef.unfinished"];
        let of_a_backup = unfinished(&folder.path().join("t.backup-1")).unwrap();
        fs::write(&of_a_backup, "half").unwrap();
        for path in [&dead, &alive, &journal(&dead), &journal(&alive)] {
            fs::write(path, "half").unwrap();
        }
        let orphan = journal(&unfinished(&to).unwrap());
        fs::write(&orphan, "").unwrap();
        for name in others {
            fs::write(folder.path().join(name), "whole").unwrap();
        }
        let at_work = File::open(&alive).unwrap();
        at_work.try_lock().unwrap();
        tidy(&to);
        assert!(!dead.exists() && !journal(&dead).exists() && !orphan.exists());
        assert!(!of_a_backup.exists());
        assert!(alive.exists() && journal(&alive).exists());
        assert!(others.iter().all(|name| folder.path().join(name).exists()));
    }

    #[cfg(unix)]
    #[test]
    fn a_finished_file_loses_its_second_name_though_it_is_in_use_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("t");
        fs::write(&to, "whole").unwrap();
        let second = unfinished(&to).unwrap();
        fs::hard_link(&to, &second).unwrap();
        let link = unfinished(&to).unwrap();
        std::os::unix::fs::symlink(&to, &link).unwrap();
        let in_use = File::open(&to).unwrap();
        in_use.try_lock().unwrap();
        tidy(&to);
        assert!(!second.exists());
        drop(in_use);
        tidy(&to);
        assert!(link.exists() && fs::read(&to).unwrap() == b"whole");
    }

    #[test]
    fn a_mark_that_a_neighbour_tidies_up_before_it_is_locked_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("t");
        std::thread::scope(|scope| {
            let maker = scope.spawn(|| {
                for _ in 0..2_000 {
                    let shop = Workshop::beside(&to).unwrap();
                    fs::write(shop.folder().join("store"), "half").unwrap();
                    assert!(shop.mark.exists() && shop.folder().join("store").exists());
                }
            });
            while !maker.is_finished() {
                tidy(&to);
            }
        });
        tidy(&to);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_workshop_stays_while_somebody_is_at_it_and_goes_with_him() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("t");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let shop = Workshop::beside(&to).unwrap();
        let dead = beside(&unfinished(&to).unwrap(), WORKSHOP);
        for shop in [shop.folder(), &dead] {
            fs::create_dir_all(shop).unwrap();
            fs::write(shop.join("store"), "half").unwrap();
        }
        tidy(&to);
        assert!(shop.folder().join("store").exists());
        assert!(!dead.exists());
        assert_eq!(names(), 2, "the workshop and its mark");
        drop(shop);
        assert_eq!(names(), 0);
    }
}
