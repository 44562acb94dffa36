//! A disk that fails where a test says so, and counts what is asked of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use turnkeep_redb::{Medium, RedbOptions, RedbStore};

/// What an engine asks of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Read,
    /// At this place.
    Write(u64),
    SetLen,
    Sync,
}

type Rule = Box<dyn FnMut(Call) -> Option<io::ErrorKind> + Send>;

#[derive(Default)]
struct State {
    rule: Option<Rule>,
    syncs: u64,
}

/// Clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Disk")
    }
}

impl Disk {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a call ends with what `rule` answers for it.
    pub(crate) fn fails(&self, rule: impl FnMut(Call) -> Option<io::ErrorKind> + Send + 'static) {
        self.state().rule = Some(Box::new(rule));
    }

    /// The `nth` call from now on that is one of `which` fails, and it alone. The first is 0.
    pub(crate) fn fails_once(
        &self,
        nth: usize,
        which: impl Fn(Call) -> bool + Send + 'static,
        with: io::ErrorKind,
    ) {
        let mut left = Some(nth);
        self.fails(move |call| {
            if !which(call) {
                return None;
            }
            let now = left?;
            left = now.checked_sub(1);
            left.is_none().then_some(with)
        });
    }

    /// Works again.
    pub(crate) fn works(&self) {
        self.state().rule = None;
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    pub(crate) fn under(&self, options: RedbOptions) -> RedbOptions {
        let disk = self.clone();
        options.medium(move |_, file| Box::new(Faulty { file, disk: disk.clone() }))
    }

    pub(crate) fn open(&self, path: &Path) -> RedbStore {
        self.under(RedbOptions::new(path)).open_blocking().unwrap()
    }

    fn ask(&self, call: Call) -> io::Result<()> {
        let mut state = self.state();
        let failure = state.rule.as_mut().and_then(|rule| rule(call));
        failure.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

#[derive(Debug)]
struct Faulty {
    file: File,
    disk: Disk,
}

impl Medium for Faulty {
    fn size(&self) -> io::Result<u64> {
        self.file.metadata().map(|found| found.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.ask(Call::Read)?;
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.ask(Call::SetLen)?;
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state().syncs += 1;
        self.disk.ask(Call::Sync)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.ask(Call::Write(offset))?;
        self.file.write_all_at(data, offset)
    }
}
