//! Power losses at every moment of the usual work.

use std::path::{Path, PathBuf};

use turnkeep_core::ErrorKind;

use super::images::{Holds, Opener, check, is_whole};
use super::workload::{Recorder, State, record};
use crate::context::Context;
use crate::disk::{Disk, Image, MAIN, Mark};
use crate::harness::Site;
use crate::verdict::{Outcome, Stop};

/// Smoke: about 24 images. Full: 600, so that this and its sibling look at over 1,000.
pub(super) async fn dur_002_every_power_loss_leaves_an_atomic_prefix(cx: &Context) -> Outcome {
    power_goes(cx, Holds::APrefix, cx.seed()).await
}

/// As many images as its sibling looks at, others.
pub(super) async fn dur_003_no_power_loss_takes_an_acknowledged_commit(cx: &Context) -> Outcome {
    power_goes(cx, Holds::WhatWasAcknowledged, !cx.seed()).await
}

async fn power_goes(cx: &Context, holds: Holds, seed: u64) -> Outcome {
    let recorded = record(cx, &Disk::new(), cx.scaled(1, 2, 4)).await?;
    cx.count("moments", recorded.log.ops().count() as u64);
    cx.count("commits", recorded.states.len() as u64 - 1);
    let images = recorded.log.clone();
    check(cx, recorded, images.images(seed, cx.scaled(24, 600, 20_000)), holds).await?;
    Ok(())
}

/// Smoke: 20 images. Full: 200.
pub(super) async fn dur_006_the_very_first_commit_lasts(cx: &Context) -> Outcome {
    let mut recorder = Recorder::new(cx, &Disk::new()).await?;
    let kit = recorder.kit.clone();
    let session = recorder.one(kit.create("first")).await?;
    recorder.one(kit.say(&session, "the first word")).await?;
    let recorded = recorder.recorded();
    kit.store.close().await?;
    cx.count("moments", recorded.log.ops().count() as u64);
    let log = recorded.log.clone();
    let images = log.images(cx.seed(), cx.scaled(20, 200, 4_000));
    check(cx, recorded, images, Holds::WhatWasAcknowledged).await?;
    Ok(())
}

/// The note that a backup was begun, and that it was done.
const BEGUN: u64 = 1;
const DONE: u64 = 2;

/// Smoke: 24 images. Full: 300.
pub(super) async fn dur_007_chores_may_be_cut_anywhere(cx: &Context) -> Outcome {
    let folder = std::env::temp_dir().join(format!("turnkeep-copies-{}", cx.drawn_name()));
    std::fs::create_dir_all(&folder)
        .map_err(|error| Stop::error(format!("no folder for a backup: {error}")))?;
    let outcome = chores(cx, &folder).await;
    let removed = std::fs::remove_dir_all(&folder);
    outcome?;
    removed.map_err(|error| Stop::error(format!("the folder of a backup could not be removed: {error}")))
}

async fn chores(cx: &Context, folder: &Path) -> Outcome {
    let disk = Disk::new();
    let mut recorder = Recorder::new(cx, &disk).await?;
    recorder.round(cx, 0).await?;
    // What the store does when it is alone, and when others still read.
    recorder.hand_over(cx).await?;
    recorder.purge().await?;
    let copy: PathBuf = folder.join("copy");
    disk.mark(Mark::Noted(BEGUN));
    let copied = match recorder.kit.store.maintenance() {
        Some(chores) => offered(chores.backup(&copy).await)?,
        None => false,
    };
    disk.mark(Mark::Noted(DONE));
    let at_copy = State::read(&recorder.kit).await?;
    let kit = recorder.kit.clone();
    let session = recorder.one(kit.create("between")).await?;
    recorder.one(kit.say(&session, "after the copy")).await?;
    if let Some(chores) = kit.store.maintenance() {
        offered(chores.compact().await)?;
    }
    recorder.one(kit.say(&session, "after the compaction")).await?;
    recorder.restart(cx).await?;
    let kit = recorder.kit.clone();
    recorder.one(kit.say(&session, "after a restart")).await?;
    kit.store.close().await?;

    let recorded = recorder.recorded();
    cx.count("moments", recorded.log.ops().count() as u64);
    let holds = if cx.manifest.durability >= turnkeep_core::Durability::D3 {
        Holds::WhatWasAcknowledged
    } else {
        Holds::APrefix
    };
    let log = recorded.log.clone();
    let images: Vec<Image> = log.images(cx.seed(), cx.scaled(24, 300, 4_000)).collect();
    if copied {
        let name = copy_name(folder);
        // Backups are large against the rest of an image, and most moments have none.
        let begun = images.iter().filter(|image| image.noted >= BEGUN);
        for image in begun.step_by(cx.scaled(2, 3, 3)) {
            backup_is_whole_or_absent(&Opener::new(cx), image, &name, &at_copy).await?;
            cx.count("images of a backup", 1);
        }
    }
    check(cx, recorded, images.into_iter(), holds).await?;
    Ok(())
}

/// What a disk calls the copy.
fn copy_name(folder: &Path) -> String {
    format!("{}/copy", folder.file_name().unwrap_or_default().to_string_lossy())
}

/// Whether a chore was done; `false` if the store does not have it.
fn offered(answer: turnkeep_core::Result<()>) -> Outcome<bool> {
    match answer {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn backup_is_whole_or_absent(opener: &Opener, image: &Image, name: &str, expected: &State) -> Outcome {
    if !image.files.contains_key(name) {
        ensure!(image.noted < DONE, "{}: a backup that was done is not there", image.about);
        return Ok(());
    }
    opener.laid_out(&image.renamed(name, MAIN), |opener, site| backup_reads(opener, site, expected)).await
}

async fn backup_reads(opener: Opener, site: Site, expected: &State) -> Outcome {
    let kit = opener.open(&site).await.map_err(|stop| stop.about("the backup"))?;
    let state = State::read(&kit).await?;
    let differs = state.differs(expected);
    ensure!(differs.is_none(), "the backup: {}", differs.unwrap_or_default());
    is_whole(&kit.store).await?;
    kit.store.close().await?;
    Ok(())
}
