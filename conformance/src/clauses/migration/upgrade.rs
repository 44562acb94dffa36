//! Upgrades that are cut short.

use std::time::Duration;

use turnkeep_core::Error;

use super::{golden_stores, remove, same_as_written};
use crate::clause::Running;
use crate::context::Context;
use crate::disk::{Disk, Image, Log};
use crate::harness::{Fixture, OpenWith};
use crate::peer;
use crate::verdict::{Outcome, Stop};

pub(super) async fn mig_002_an_upgrade_that_is_cut_short_loses_nothing_case_72(cx: &Context) -> Outcome {
    let today = cx.kit().await?.store.info().format;
    for format in 1..today {
        kills(cx, format).await?;
        if let Some(log) = recorded(cx, format).await? {
            power_losses(cx, format, &log).await?;
        }
    }
    Ok(())
}

/// A fresh copy of the golden store of a format. The others are removed again.
async fn lay_out(cx: &Context, format: u32) -> Outcome<Fixture> {
    let mut wanted = None;
    for fixture in golden_stores(cx).await? {
        if fixture.format == format {
            wanted = Some(fixture);
        } else {
            remove(cx, &fixture.site).await?;
        }
    }
    wanted.ok_or_else(|| Stop::not_run(format!("the harness has no golden store of format {format}")))
}

/// A small upgrade takes no longer. What takes longer is met on the images of its disk.
const WITHIN_MICROS: u64 = 10_000;

/// Opens the store in a process that is killed at some moment, then here.
async fn kills(cx: &Context, format: u32) -> Outcome {
    let rounds = cx.scaled(4, 12, 60);
    for round in 0..rounds {
        let fixture = lay_out(cx, format).await?;
        let mut peer = cx.start_peer_at("upgrade", &fixture.site)?;
        peer.hear().await?;
        tokio::time::sleep(Duration::from_micros(cx.pick("upgrade", round, WITHIN_MICROS))).await;
        let killed = peer.kill().await?;
        cx.count("kills", u64::from(!killed.too_late));
        whole(cx, &fixture).await?;
    }
    Ok(())
}

/// What the other process does: it says that it begins, and opens the store.
pub(super) fn upgrade_once<'a>(cx: &'a Context, _role: &'a str) -> Running<'a> {
    Box::pin(async {
        peer::tell("opening")?;
        cx.try_open().await?;
        peer::tell("open")
    })
}

/// Whether the store opens in today's format with all that it had, and can be used.
async fn whole(cx: &Context, fixture: &Fixture) -> Outcome {
    let outcome = async {
        let kit = same_as_written(cx, fixture).await?;
        let today = kit.store.info().format;
        crate::golden::go_on(&*kit.store, "after the upgrade").await?;
        kit.store.close().await?;
        drop(kit);
        let again = cx.try_open_at(&fixture.site).await?;
        ensure_eq!(again.info().format, today, "the format when opened once more");
        again.close().await?;
        Ok(())
    };
    let outcome = outcome.await;
    cx.close_all().await;
    remove(cx, &fixture.site).await?;
    outcome
}

/// What an upgrade does to its files, if the harness can tell.
async fn recorded(cx: &Context, format: u32) -> Outcome<Option<Log>> {
    let fixture = lay_out(cx, format).await?;
    let disk = Disk::new();
    let opened = cx.harness.open_on(&fixture.site, &disk, OpenWith { clock: cx.shared_clock() }).await;
    let opened = opened.map_err(|error: Error| Stop::fail(format!("upgrading on a test disk: {error}")))?;
    if let Some(store) = &opened {
        store.close().await?;
    }
    remove(cx, &fixture.site).await?;
    Ok(opened.map(|_| disk.log()))
}

async fn power_losses(cx: &Context, format: u32, log: &Log) -> Outcome {
    let mut looked = 0;
    for image in log.images(cx.seed(), cx.scaled(60, 400, 2_000)) {
        let about = image.about.clone();
        let fixture = laid_out(cx, format, &image).await?;
        whole(cx, &fixture).await.map_err(|stop| stop.about(&about))?;
        looked += 1;
    }
    ensure!(looked > 0, "an upgrade did nothing to its files");
    cx.count("images", looked);
    Ok(())
}

async fn laid_out(cx: &Context, format: u32, image: &Image) -> Outcome<Fixture> {
    let fixture = lay_out(cx, format).await?;
    remove(cx, &fixture.site).await?;
    let laid = cx.harness.lay_out(image).await;
    let laid = laid.map_err(|error| Stop::error(format!("an image could not be laid out: {error}")))?;
    let site = laid.ok_or_else(|| Stop::not_run("the harness lays out no images of a power loss"))?;
    Ok(Fixture { site, ..fixture })
}
