//! There and back again.

use std::sync::Arc;

use turnkeep_core::SessionRef;
use turnkeep_core::commit::Op;
use turnkeep_core::model::{Profile, Row};
use turnkeep_memory::MemoryOptions;

use crate::clauses::restore::copy::{same_reads, source};
use crate::clauses::restore::restore;
use crate::context::Context;
use crate::kit::Kit;
use crate::verdict::{Outcome, Stop};

/// Copies a session to another store through its rows, as an export and an import do.
async fn copied(from: &Kit, session: &SessionRef, to: &Kit) -> Outcome<SessionRef> {
    let rows = from.rows(from.rows_of(session)).await?;
    let Some(Row::Session(image)) = rows.first() else {
        return Err(Stop::fail("the rows of a session do not begin with the session itself"));
    };
    let (copy, fence) = to.begin_restore(session.id.as_str(), Profile::default()).await?;
    let digest = restore(to, &copy, &fence, &rows).await?;
    let seal = Op::SealSession { session: copy.clone(), leaf: image.leaf, rows: rows.len() as u64, digest };
    to.apply(to.commit().fence(fence.clone()).op(seal).op(Op::ReleaseLease { fence })).await?;
    Ok(copy)
}

pub(super) async fn mig_004_a_copy_to_another_backend_and_back_is_equal(cx: &Context) -> Outcome {
    let site = cx.harness.provision().await.map_err(|error| Stop::error(format!("no site: {error}")))?;
    let outcome = there_and_back(cx, &site).await;
    cx.close_all().await;
    cx.harness.destroy(&site).await.map_err(|error| Stop::error(format!("the site stays: {error}")))?;
    outcome
}

async fn there_and_back(cx: &Context, site: &crate::harness::Site) -> Outcome {
    let kit = cx.kit().await?;
    let first = source(&kit).await?;
    let options = match cx.shared_clock() {
        Some(clock) => MemoryOptions::new().clock(clock),
        None => MemoryOptions::new(),
    };
    let elsewhere = Kit::new(Arc::new(options.build()), cx);
    let second = copied(&kit, &first, &elsewhere).await?;
    same_reads(&kit, &first, &elsewhere, &second).await?;
    let back = Kit::new(cx.try_open_at(site).await?, cx);
    let third = copied(&elsewhere, &second, &back).await?;
    same_reads(&elsewhere, &second, &back, &third).await?;
    same_reads(&kit, &first, &back, &third).await
}
