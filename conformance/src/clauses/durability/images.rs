//! Opening what a power loss left, and comparing it with what had been said.

use std::sync::Arc;

use tokio::task::JoinSet;
use turnkeep_core::{Clock, Error, ErrorKind, Store};

use super::workload::{Recorded, State};
use crate::context::{Context, Draw};
use crate::disk::{Disk, Image};
use crate::harness::{Harness, OpenWith, Site};
use crate::kit::{Kit, user};
use crate::verdict::{Outcome, Stop};

/// What an image must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// The result of some of the commits that had been handed in, from the first on: D2.
    APrefix,
    /// The same, and every acknowledged commit among them: D3.
    WhatWasAcknowledged,
}

/// Images that are looked at at the same time.
const AT_ONCE: usize = 3;

/// Opens images, outside of the site of a clause.
#[derive(Clone, Debug)]
pub(super) struct Opener {
    harness: Arc<dyn Harness>,
    clock: Option<Arc<dyn Clock>>,
    draw: Draw,
}

impl Opener {
    pub(super) fn new(cx: &Context) -> Self {
        Self { harness: Arc::clone(&cx.harness), clock: cx.shared_clock(), draw: cx.drawer() }
    }

    /// A fresh site with these files.
    pub(super) async fn lay_out(&self, image: &Image) -> Outcome<Site> {
        let laid = self.harness.lay_out(image).await;
        let laid = laid.map_err(|error| Stop::error(format!("an image could not be laid out: {error}")))?;
        laid.ok_or_else(|| Stop::not_run("the harness lays out no images of a power loss"))
    }

    /// Lays an image out, gives the site to `look`, and removes it whatever comes out.
    pub(super) async fn laid_out<T, F: Future<Output = Outcome<T>>>(
        &self,
        image: &Image,
        look: impl FnOnce(Self, Site) -> F,
    ) -> Outcome<T> {
        let site = self.lay_out(image).await?;
        let looked = look(self.clone(), site.clone()).await;
        let removed = self.remove(&site).await;
        let looked = looked.map_err(|stop| stop.about(&image.about))?;
        removed.map(|()| looked)
    }

    /// Opens a site on a disk; what that answers, unjudged.
    pub(super) async fn open_on(&self, site: &Site, disk: &Disk) -> Outcome<Result<Kit, Error>> {
        match self.harness.open_on(site, disk, OpenWith { clock: self.clock.clone() }).await {
            Ok(Some(store)) => Ok(Ok(Kit::of(store, self.draw.clone()))),
            Ok(None) => Err(Stop::not_run("the harness puts no disk under the store")),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Removes a site.
    pub(super) async fn remove(&self, site: &Site) -> Outcome {
        let removed = self.harness.destroy(site).await;
        removed.map_err(|error| Stop::error(format!("a site could not be removed: {error}")))
    }

    /// Opens a site as anybody would.
    pub(super) async fn open(&self, site: &Site) -> Outcome<Kit> {
        let opened = self.harness.open(site, OpenWith { clock: self.clock.clone() }).await;
        let store = opened.map_err(|error| Stop::fail(format!("the store does not open: {error}")))?;
        Ok(Kit::of(store, self.draw.clone()))
    }
}

/// Whether nothing is damaged, as far as the store can say.
pub(super) async fn is_whole(store: &Arc<dyn Store>) -> Outcome {
    let Some(maintenance) = store.maintenance() else { return Ok(()) };
    match maintenance.verify().await {
        Ok(report) => {
            ensure!(report.damage.is_empty(), "verifying finds damage: {:?}", report.damage);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the store takes the next words, with the next numbers.
pub(super) async fn goes_on(kit: &Kit, state: &State) -> Outcome {
    if let Some(row) = state.free_session() {
        let session = row.session_ref();
        let next = row.next_entry();
        ensure_eq!(
            Some(kit.say(&session, "goes on").await?),
            next,
            "the number of the next entry of {session}"
        );
    }
    let fresh = kit.create("after the power loss").await?;
    kit.append(&fresh, vec![user("one"), user("two")]).await?;
    ensure_eq!(kit.texts(&fresh).await?, ["one", "two"], "what was written after reopening");
    Ok(())
}

/// After how many commits the store was as it is now.
fn found(state: &State, states: &[State], image: &Image, holds: Holds) -> Outcome<usize> {
    let (begun, acked) = (image.begun, image.acked);
    let fits = |at: &usize| states.get(*at).is_some_and(|expected| state.differs(expected).is_none());
    let end = usize::try_from(begun).unwrap_or(usize::MAX).min(states.len() - 1);
    let said = usize::try_from(acked).unwrap_or(usize::MAX).min(end);
    match (said..=end).find(fits).or_else(|| (0..said).rev().find(fits)) {
        Some(at) if at < said && holds == Holds::WhatWasAcknowledged => Err(Stop::fail(format!(
            "an acknowledged commit is lost: {acked} were acknowledged, and the store has the first {at}"
        ))),
        Some(at) => Ok(at),
        None => {
            let near = states.get(said).and_then(|expected| state.differs(expected)).unwrap_or_default();
            Err(Stop::fail(format!(
                "the store holds no prefix of the {begun} commits that were handed in; beside the {acked} that were \
                 acknowledged: {near}"
            )))
        }
    }
}

async fn look(opener: Opener, site: Site, image: Image, states: Arc<Vec<State>>, holds: Holds) -> Outcome {
    let kit = opener.open(&site).await?;
    let looked = async {
        let state = State::read(&kit).await?;
        found(&state, &states, &image, holds)?;
        is_whole(&kit.store).await?;
        goes_on(&kit, &state).await
    };
    let looked = looked.await;
    let closed = kit.store.close().await;
    looked?;
    closed?;
    Ok(())
}

/// Opens images and compares them with what was recorded. The first that is wrong ends it.
pub(super) async fn check(
    cx: &Context,
    recorded: Recorded,
    images: impl Iterator<Item = Image>,
    holds: Holds,
) -> Outcome<u64> {
    let (opener, states) = (Opener::new(cx), Arc::new(recorded.states));
    let (mut tasks, mut checked) = (JoinSet::new(), 0);
    let ended = |ended: Result<Outcome, tokio::task::JoinError>| {
        ended.map_err(|error| Stop::fail(format!("opening an image panicked: {error}")))?
    };
    for image in images {
        if tasks.len() >= AT_ONCE
            && let Some(task) = tasks.join_next().await
        {
            ended(task)?;
        }
        let (opener, states) = (opener.clone(), Arc::clone(&states));
        tasks.spawn(async move {
            let about = image.clone();
            opener.laid_out(&about, |opener, site| look(opener, site, image, states, holds)).await
        });
        checked += 1;
    }
    while let Some(task) = tasks.join_next().await {
        ended(task)?;
    }
    cx.count("images", checked);
    Ok(checked)
}
