//! Tools that let a clause read as a short story: build, do, read, compare.

mod act;
mod build;
mod read;
mod tasks;

use std::fmt::Debug;
use std::str::FromStr;
use std::sync::Arc;

use turnkeep_core::{Clock, Error, ManualClock, Store, Timestamp, WorkspaceId};

use crate::context::{Context, Draw};

pub(crate) use act::fence_of;
pub(crate) use build::{event, grant, keyed, no, note, payload, put, run, user};
pub(crate) use read::Snapshot;
pub(crate) use tasks::{Watch, gather, polled, spawn};

/// A client of the site, with a workspace and the means to build things.
#[derive(Clone, Debug)]
pub(crate) struct Kit {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) workspace: WorkspaceId,
    clock: Option<ManualClock>,
    draw: Draw,
}

impl Kit {
    pub(crate) fn new(store: Arc<dyn Store>, cx: &Context) -> Self {
        Self { store, workspace: name("w"), clock: cx.clock().cloned(), draw: cx.drawer() }
    }

    /// A client that reads no clock of a context.
    pub(crate) fn of(store: Arc<dyn Store>, draw: Draw) -> Self {
        Self { store, workspace: name("w"), clock: None, draw }
    }

    /// The same client, in another workspace.
    pub(crate) fn in_workspace(&self, workspace: &str) -> Self {
        Self { workspace: name(workspace), ..self.clone() }
    }

    /// The store's time, as far as the suite knows it.
    pub(crate) fn now(&self) -> Timestamp {
        match &self.clock {
            Some(clock) => clock.now(),
            None => turnkeep_core::SystemClock.now(),
        }
    }
}

/// An id that the suite itself writes.
///
/// # Panics
/// When the suite wrote one that no id may be: a bug of the suite.
#[track_caller]
pub(crate) fn name<T: FromStr<Err = Error>>(text: &str) -> T {
    match text.parse() {
        Ok(name) => name,
        Err(error) => panic!("the suite's own id {text:?} is refused: {error}"),
    }
}

/// A value for a message, not longer than a person reads.
pub(crate) fn brief(value: &(impl Debug + ?Sized)) -> String {
    const MOST: usize = 400;
    let text = format!("{value:?}");
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}
