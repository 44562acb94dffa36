//! Power losses at every moment of the usual work.

use super::images::{Holds, check};
use super::workload::record;
use crate::context::Context;
use crate::disk::Disk;
use crate::verdict::Outcome;

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
