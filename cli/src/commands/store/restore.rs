//! `turnkeep store restore`

use std::fs;
use std::path::PathBuf;

use serde::Serialize;
use turnkeep::ErrorKind;
use turnkeep::core::store::StoreStats;

use super::{beside, chores};
use crate::args::{Global, RestoreStore};
use crate::commands::progress;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::open;
use crate::output::words::{count, count_of};
use crate::output::{Out, text};

#[derive(Serialize)]
struct Answer {
    restore: Data,
}

#[derive(Serialize)]
struct Data {
    backup: PathBuf,
    store: PathBuf,
    /// Where the store went that was there before.
    kept: Option<PathBuf>,
    size: StoreStats,
}

pub(crate) async fn run(global: &Global, restore: RestoreStore, out: &mut Out) -> Outcome<u8> {
    if let Err(error) = fs::metadata(&restore.from) {
        let shown = restore.from.display();
        return Err(Failure::told(exit::NOT_FOUND, format!("the backup {shown} cannot be read: {error}")));
    }
    let url = open::place(global).await?;
    let Some(path) = url.path().map(ToOwned::to_owned) else {
        return Err(
            Failure::usage("a store in memory cannot be restored").hint("give sqlite:PATH or redb:PATH")
        );
    };
    let there = path.symlink_metadata().is_ok();
    if there && !restore.force {
        let message = format!("there is a store already: {}; it was not touched", path.display());
        let hint = "--force keeps it under another name beside it, and puts the backup in its place";
        return Err(Failure::told(exit::CONFLICT, message).hint(hint));
    }
    let keep = there.then(|| beside(&path, "before-restore"));
    let spinner = progress::spinner("restoring");
    let restored = url.restore(global.wait(), &restore.from, keep.as_deref()).await;
    spinner.finish_and_clear();
    restored.map_err(|error| match error.kind() {
        ErrorKind::Invalid => Failure::from(error).exit(exit::BAD_FILE),
        _ => Failure::from(error),
    })?;
    let store = url.open(global, false).await?;
    let stats = chores(store.as_ref(), "restore")?.stats().await?;
    store.close().await?;
    let shown = |path: &std::path::Path| text::line(&path.display().to_string());
    if out.json {
        out.json(&Answer { restore: Data { backup: restore.from, store: path, kept: keep, size: stats } })?;
        return Ok(exit::OK);
    }
    out.line(format!(
        "restored {} and {} from {}",
        count(stats.sessions, "session"),
        count_of(stats.entries, "entry", "entries"),
        shown(&restore.from)
    ))?;
    out.pairs(&[
        ("store", shown(&path)),
        ("before", keep.map(|keep| format!("kept as {}", shown(&keep))).unwrap_or_default()),
    ])?;
    Ok(exit::OK)
}
