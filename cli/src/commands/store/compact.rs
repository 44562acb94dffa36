//! `turnkeep store compact`

use serde::Serialize;

use super::{chores, unless_interrupted};
use crate::args::Global;
use crate::commands::progress;
use crate::exit;
use crate::failure::Outcome;
use crate::open;
use crate::output::Out;
use crate::output::words::{bytes, count_of};

#[derive(Serialize)]
struct Answer {
    compact: Data,
}

#[derive(Serialize)]
struct Data {
    bytes_before: u64,
    bytes_after: u64,
    purged_rows: u64,
}

pub(crate) async fn run(global: &Global, out: &mut Out) -> Outcome<u8> {
    let url = open::place(global).await?;
    url.must_exist()?;
    let store = url.open(global, false).await?;
    let chores = chores(store.as_ref(), "compact")?;
    let before = chores.stats().await?.bytes;
    let spinner = progress::spinner("giving space back");
    let work = unless_interrupted(async {
        // Rows of deleted sessions are what gives most space back.
        let purged = chores.purge().await?;
        chores.compact().await?;
        Ok(purged)
    });
    let purged = work.await;
    spinner.finish_and_clear();
    let purged = purged?;
    let after = chores.stats().await?.bytes;
    store.close().await?;
    if out.json {
        let compact = Data { bytes_before: before, bytes_after: after, purged_rows: purged.rows };
        out.json(&Answer { compact })?;
        return Ok(exit::OK);
    }
    out.line(format!(
        "{} before, {} now; {} of deleted sessions removed for good",
        bytes(before),
        bytes(after),
        count_of(purged.rows, "row", "rows")
    ))?;
    Ok(exit::OK)
}
