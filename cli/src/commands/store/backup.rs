//! `turnkeep store backup`

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use turnkeep::core::local::place;
use turnkeep::core::store::StoreStats;

use super::{beside, cancelled, chores};
use crate::args::{BackupStore, Global};
use crate::commands::interrupt::Interrupts;
use crate::commands::progress;
use crate::exit;
use crate::failure::Outcome;
use crate::open;
use crate::output::words::{bytes, count};
use crate::output::{Out, text};

/// How often is looked how large the backup is.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct Answer {
    backup: Data,
}

#[derive(Serialize)]
struct Data {
    file: PathBuf,
    bytes: u64,
    /// Always: a backup that is not whole gets no name.
    verified: bool,
    store: StoreStats,
}

pub(crate) async fn run(global: &Global, backup: BackupStore, out: &mut Out) -> Outcome<u8> {
    let url = open::place(global).await?;
    let to = match (&backup.to, url.path()) {
        (Some(to), _) => to.clone(),
        (None, Some(store)) => beside(store, "backup"),
        (None, None) => PathBuf::from("backup"),
    };
    url.must_exist()?;
    let mut interrupts = Interrupts::listen()?;
    // What earlier ones left that were killed, under names of another time.
    if let Some(store) = url.path() {
        place::tidy(store);
    }
    let store = url.open(global, false).await?;
    let chores = chores(store.as_ref(), "backup")?;
    let stats = chores.stats().await?;
    let bar = progress::bar("backing up");
    bar.set_length(stats.bytes);
    let left = unfinished(&to);
    let done = {
        let work = chores.backup(&to);
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => break Some(done),
                () = interrupts.next() => break None,
                () = tokio::time::sleep(LOOK) => bar.set_position(unfinished(&to).iter().map(|(_, size)| size).sum()),
            }
        }
    };
    bar.finish_and_clear();
    let Some(done) = done else {
        // What is unfinished is nobody's any more, but for what was there before.
        for (path, _) in unfinished(&to).iter().filter(|(path, _)| !left.iter().any(|(old, _)| old == path)) {
            let _ = fs::remove_file(path);
        }
        return Err(cancelled("there is no backup"));
    };
    done?;
    store.close().await?;
    let size = fs::metadata(&to).map_or(0, |found| found.len());
    if out.json {
        out.json(&Answer { backup: Data { file: to, bytes: size, verified: true, store: stats } })?;
        return Ok(exit::OK);
    }
    out.line(format!(
        "backed up {} to {}",
        count(stats.sessions, "session"),
        text::line(&to.display().to_string())
    ))?;
    out.pairs(&[
        ("size", bytes(size)),
        ("verified", "yes: the copy was opened and read before it got its name".to_owned()),
        ("restore", format!("turnkeep store restore {}", text::line(&to.display().to_string()))),
    ])?;
    Ok(exit::OK)
}

/// Files beside a backup that are to become it, and their sizes.
fn unfinished(to: &Path) -> Vec<(PathBuf, u64)> {
    let Some(name) = to.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = match to.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let ours = |file: &fs::DirEntry| {
        let found = file.file_name();
        let base = found.to_str().map(|found| found.strip_suffix("-journal").unwrap_or(found));
        let middle = base.and_then(|base| base.strip_prefix(name)?.strip_suffix(".unfinished"));
        middle.is_some_and(|bits| bits.len() == 17 && bits.starts_with('.'))
    };
    let size = |file: &fs::DirEntry| file.metadata().map_or(0, |found| found.len());
    files.flatten().filter(ours).map(|file| (file.path(), size(&file))).collect()
}
