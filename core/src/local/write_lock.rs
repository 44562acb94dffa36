//! Waiting fairly for the right to write, between processes.
//!
//! An engine's own busy handler sleeps and polls, so a busy neighbour starves whoever sleeps longest. Waiters of a
//! file lock are woken in order instead. A blocking wait cannot be given up, so it happens on a thread of its own:
//! the writer stops waiting at its deadline while the thread keeps the place in the line, and gives the lock back at
//! once when it comes and nobody wants it any more.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::local::owner::private;
use crate::mutant;

/// Several times as long as it takes to wake a process up.
const BREATH: Duration = Duration::from_micros(300);

/// A lock file beside a store. One process, or one handle, writes at a time.
#[derive(Debug)]
pub struct WriteLock {
    line: Arc<Line>,
    path: PathBuf,
}

#[derive(Debug)]
struct Line {
    file: File,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug)]
enum State {
    /// Nobody here holds or awaits it.
    Idle,
    /// A thread waits in the line; `wanted` says whether the writer still cares.
    Waiting { wanted: bool },
    /// Ours.
    Held,
    /// The wait ended in an error.
    Failed(std::io::Error),
}

impl WriteLock {
    /// Opens the lock file, and makes it (mode 0600) if it is not there.
    ///
    /// # Errors
    /// `Io` when it cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let file = private().create(true).truncate(false).open(path).map_err(|error| failed(path, error))?;
        let line = Line { file, state: Mutex::new(State::Idle), moved: Condvar::new() };
        Ok(Self { line: Arc::new(line), path: path.to_owned() })
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// `Io` when the file system refuses.
    pub fn try_lock(&self) -> Result<bool> {
        let mut state = self.line.state();
        match &*state {
            State::Held => Ok(true),
            State::Waiting { .. } => Ok(false),
            State::Idle | State::Failed(_) => match self.line.file.try_lock() {
                Ok(()) => {
                    *state = State::Held;
                    Ok(true)
                }
                Err(TryLockError::WouldBlock) => Ok(false),
                Err(TryLockError::Error(error)) => Err(failed(&self.path, error)),
            },
        }
    }

    /// Takes the lock, waiting in line until `deadline`. Answers whether it is held now.
    ///
    /// # Errors
    /// `Io` when the file system refuses.
    pub fn lock_until(&self, deadline: Instant) -> Result<bool> {
        let held = self.stand_in_line(deadline)?;
        if !held {
            self.unlock();
        }
        Ok(held)
    }

    /// Like [`WriteLock::lock_until`], but keeps the place in the line when the time is over, for whoever comes back
    /// soon. [`WriteLock::unlock`] gives the place up.
    ///
    /// # Errors
    /// `Io` when the file system refuses.
    pub fn stand_in_line(&self, until: Instant) -> Result<bool> {
        if self.try_lock()? {
            return Ok(true);
        }
        let mut state = self.line.state();
        match &mut *state {
            State::Waiting { wanted } => *wanted = true,
            _ => {
                *state = State::Waiting { wanted: true };
                let line = Arc::clone(&self.line);
                let spawned =
                    std::thread::Builder::new().name("turnkeep-lock".into()).spawn(move || line.wait());
                if let Err(error) = spawned {
                    *state = State::Idle;
                    return Err(failed(&self.path, error));
                }
            }
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match &mut *state {
                State::Held => return Ok(true),
                State::Failed(_) => {
                    if let State::Failed(error) = std::mem::replace(&mut *state, State::Idle) {
                        return Err(failed(&self.path, error));
                    }
                }
                State::Waiting { .. } if left.is_zero() => return Ok(false),
                State::Idle => return Ok(false),
                State::Waiting { .. } => {}
            }
            state = self.line.moved.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Between two slices of a chore: waits long enough for whoever stands in line. Waking up takes another process
    /// longer than it takes this one to come back, so a chore of many slices would keep it out to the end.
    pub fn let_others(&self) {
        std::thread::sleep(BREATH);
    }

    /// Gives the lock back, or the place in the line for it.
    pub fn unlock(&self) {
        let mut state = self.line.state();
        match &mut *state {
            State::Held => {
                if mutant::is("write-lock/kept") {
                    return;
                }
                let _ = self.line.file.unlock();
                *state = State::Idle;
            }
            State::Waiting { wanted } => *wanted = false,
            State::Idle | State::Failed(_) => {}
        }
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        self.unlock();
    }
}

impl Line {
    /// The state holds no invariant that a panic could break half way.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let waited = self.file.lock();
        let mut state = self.state();
        *state = match (waited, &*state) {
            (Ok(()), State::Waiting { wanted: true }) => State::Held,
            (Ok(()), _) => {
                let _ = self.file.unlock();
                State::Idle
            }
            (Err(error), _) => State::Failed(error),
        };
        self.moved.notify_all();
    }
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::of_io(&error), "the write lock cannot be taken")
        .with("file", path.display())
        .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_its_deadline_and_a_late_lock_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("write.lock");
        let (a, b, c) = (
            WriteLock::open(&path).unwrap(),
            WriteLock::open(&path).unwrap(),
            WriteLock::open(&path).unwrap(),
        );
        assert!(a.try_lock().unwrap());
        assert!(!b.lock_until(Instant::now() + Duration::from_millis(20)).unwrap());
        a.unlock();
        // b's thread still stands in the line, gets the lock, and must give it back unwanted.
        assert!(c.lock_until(Instant::now() + Duration::from_secs(30)).unwrap());
        c.unlock();
        assert!(b.lock_until(Instant::now() + Duration::from_secs(30)).unwrap());
    }
}
