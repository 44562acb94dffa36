//! `turnkeep store …`

pub(crate) mod backup;
pub(crate) mod compact;
pub(crate) mod copy;
pub(crate) mod info;
pub(crate) mod migrate;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod verify;

use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnkeep::{Error, Maintenance, Store};

use super::interrupt::Interrupts;
use crate::args::Global;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::open::Url;

/// The chores of a store.
fn chores<'a>(store: &'a dyn Store, operation: &'static str) -> Outcome<&'a dyn Maintenance> {
    Ok(store.maintenance().ok_or_else(|| Error::unsupported(operation))?)
}

/// Opens a store also when a first look finds it damaged.
async fn damaged(url: &Url, global: &Global) -> Outcome<Arc<dyn Store>> {
    url.open(global, true).await.map_err(|failure| match failure.code() {
        exit::DAMAGED => failure
            .hint("too little of it is left for verify or repair; restore a backup: turnkeep store restore"),
        _ => failure,
    })
}

/// Waits for work, or for Ctrl-C, which ends it.
async fn unless_interrupted<T>(work: impl Future<Output = turnkeep::Result<T>>) -> Outcome<T> {
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        done = work => Ok(done?),
        () = interrupts.next() => Err(cancelled("nothing was changed")),
    }
}

fn cancelled(what: &str) -> Failure {
    Failure::told(exit::CANCELLED, format!("cancelled with Ctrl-C; {what}"))
}

/// A name beside a file that nothing has yet: `state.sqlite3.backup-20261129T203000Z`, and for another one in the same
/// second `…Z-2`.
fn beside(path: &Path, what: &str) -> PathBuf {
    let name = path.file_name().map(OsString::from).unwrap_or_default();
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let named = |more: &str| {
        let mut name = name.clone();
        name.push(format!(".{what}-{now}{more}"));
        path.with_file_name(name)
    };
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err();
    let more = (2..100).map(|count| named(&format!("-{count}")));
    std::iter::once(named("")).chain(more).find(is_free).unwrap_or_else(|| named(""))
}
