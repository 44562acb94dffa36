//! The files: one append for each commit, repaired where one was cut off, and put aside when they are large.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use turnkeep_core::id::SessionId;
use turnkeep_core::local::owner::{create_private_folder, private};
use turnkeep_core::mutant;

use super::stem;

/// A file this large is put aside, and another begun. Nothing is deleted.
const LARGE_BYTES: u64 = 8 * 1024 * 1024;
/// The most files of one session that are looked for.
const MOST_FILES: u32 = 10_000;

/// The file that is written now, or one that was put aside.
pub(super) fn path(folder: &Path, session: &SessionId, aside: Option<u32>) -> PathBuf {
    let stem = stem(session);
    folder.join(match aside {
        None => format!("{stem}.jsonl"),
        Some(number) => format!("{stem}.{number}.jsonl"),
    })
}

/// Every file of a session that is there, the oldest first.
pub(super) fn all(folder: &Path, session: &SessionId) -> Vec<PathBuf> {
    let aside =
        (1..MOST_FILES).map(|number| path(folder, session, Some(number))).take_while(|path| path.exists());
    let mut all: Vec<PathBuf> = aside.collect();
    all.extend(Some(path(folder, session, None)).filter(|path| path.exists()));
    all
}

/// Appends whole lines with one write, so that those of several processes do not mix.
pub(super) fn append(folder: &Path, session: &SessionId, lines: String) -> io::Result<()> {
    let now = path(folder, session, None);
    let mut file = match open(&now) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_private_folder(folder)?;
            open(&now)?
        }
        opened => opened?,
    };
    // For putting aside only, and never waited for: a stopped process must not hold up a turn.
    match file.try_lock() {
        Ok(()) if file.metadata()?.len() >= LARGE_BYTES => {
            put_aside(folder, session, &now)?;
            file = open(&now)?;
        }
        Ok(()) | Err(TryLockError::WouldBlock) => {}
        // A file system without locks keeps one large file.
        Err(TryLockError::Error(_)) => {}
    }
    let lines = if ends_torn(&mut file)? && !mutant::is("audit/tail-not-repaired") {
        format!("\n{lines}")
    } else {
        lines
    };
    file.write_all(lines.as_bytes())
}

fn open(path: &Path) -> io::Result<File> {
    private().read(true).append(true).create(true).open(path)
}

/// Whether a write of somebody was cut off at the end.
fn ends_torn(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// Gives the file of now the next free name. Whoever opened it before goes on in it.
fn put_aside(folder: &Path, session: &SessionId, now: &Path) -> io::Result<()> {
    let free = (1..MOST_FILES).map(|number| path(folder, session, Some(number))).find(|path| !path.exists());
    match free {
        Some(free) => std::fs::rename(now, free),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_put_aside_and_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let session = SessionId::new("s").unwrap();
        let line = format!("{}\n", "x".repeat(1023));
        let now = path(folder.path(), &session, None);
        std::fs::write(&now, line.repeat(8 * 1024)).unwrap();
        append(folder.path(), &session, line.clone()).unwrap();
        append(folder.path(), &session, line.clone()).unwrap();
        let all = all(folder.path(), &session);
        assert_eq!(all, [path(folder.path(), &session, Some(1)), now.clone()]);
        assert_eq!(std::fs::read_to_string(&now).unwrap(), line.repeat(2));
        assert_eq!(std::fs::metadata(&all[0]).unwrap().len(), LARGE_BYTES);
    }
}
