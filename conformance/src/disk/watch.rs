//! What a backend does to files as such, told to a disk.

use std::io;
use std::sync::Arc;

use turnkeep_core::local::{FileAct, FileWatch, Files};

use super::{Call, Disk, Flush, Names};

/// A disk that looks on.
#[derive(Debug)]
struct Watch {
    disk: Disk,
    names: Names,
}

impl Disk {
    /// Files whose making, naming, removal and syncs this disk notes and may refuse.
    #[must_use]
    pub fn watching(&self, names: &Names) -> Files {
        Files::watched(self.watch(names))
    }

    /// What looks on for [`watching`](Self::watching), for whoever wants to stand in between.
    #[must_use]
    pub fn watch(&self, names: &Names) -> Arc<dyn FileWatch> {
        Arc::new(Watch { disk: self.clone(), names: names.clone() })
    }
}

impl FileWatch for Watch {
    fn act(&self, act: FileAct<'_>, work: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let short = |path| self.names.short(path);
        match act {
            FileAct::Create(path) => self.disk.act(Call::Create(&short(path)), work),
            FileAct::Sync(path) => {
                let file = self.disk.file(&short(path), || std::fs::read(path))?;
                self.disk.act(Call::Sync(file, Flush::Full), work)
            }
            FileAct::Link(from, to) => self.disk.act(Call::Link(&short(from), &short(to)), work),
            FileAct::Rename(from, to) => self.disk.act(Call::Rename(&short(from), &short(to)), work),
            FileAct::Remove(path) => self.disk.act(Call::Remove(&short(path)), work),
            FileAct::SyncFolder(path) => self.disk.act(Call::SyncFolder(&self.names.folder(path)), work),
        }
    }
}
