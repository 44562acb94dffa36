//! RES-009: a ledger does not grow for ever.

use std::time::Duration;

use turnkeep_core::commit::{Op, Request};
use turnkeep_core::limits::REQUEST_MS;

use crate::context::Context;
use crate::kit::{Kit, put};
use crate::verdict::{Outcome, Stop};

/// Requests that are made and then expire.
const REQUESTS: u64 = 40;
/// Commits after which the receipts must be gone.
const COMMITS: usize = 200;

/// Rows of all tables.
async fn rows(cx: &Context) -> Outcome<u64> {
    let counted = cx.harness.residue(&cx.site).await;
    let counted = counted.map_err(|error| Stop::error(format!("counting rows failed: {error}")))?;
    let counted = counted.ok_or_else(|| Stop::not_run("the harness counts no rows"))?;
    Ok(counted.iter().map(|table| table.rows).sum())
}

pub(super) async fn res_009_receipts_that_nobody_can_ask_for_are_removed(cx: &Context) -> Outcome {
    let clock =
        cx.clock().ok_or_else(|| Stop::not_run("the backend takes no clock, and seven days are long"))?;
    let mut kit = cx.kit().await?;
    let change = |kit: &Kit| kit.commit().op(Op::PutRecord(put("c", "k", "1")));
    let mut beside = kit.in_workspace("beside");
    kit.apply(change(&kit)).await?;
    beside.apply(change(&beside)).await?;
    let before = rows(cx).await?;
    for at in 0..REQUESTS {
        let kit = if at % 2 == 0 { &kit } else { &beside };
        kit.apply(change(kit).request(Request::in_workspace(kit.request_id()))).await?;
    }
    let made = rows(cx).await?.saturating_sub(before);
    ensure!(made >= REQUESTS, "the harness does not count the receipts");
    let last = change(&kit).request(Request::in_workspace(kit.request_id()));
    kit.apply(last.clone()).await?;
    // While one can be asked for, it stays, whatever else is removed.
    clock.advance_ms(REQUEST_MS);
    for _ in 0..COMMITS / 10 {
        kit.apply(change(&kit)).await?;
    }
    ensure!(kit.apply(last).await?.replayed, "a receipt was removed while it could be asked for");
    clock.advance_ms(REQUEST_MS);
    // How often a running store looks is its own affair; one that is opened looks soon.
    if cx.manifest.capabilities.persistent {
        drop(beside);
        kit = cx.reopen(kit).await?;
        beside = kit.in_workspace("beside");
    }
    // One that stays must not hide those behind it.
    kit.apply(change(&kit).request(Request::in_workspace(kit.request_id()))).await?;
    for _ in 0..COMMITS {
        kit.apply(change(&kit)).await?;
        beside.apply(change(&beside)).await?;
        if let Some(maintenance) = kit.store.maintenance() {
            maintenance.purge().await?;
        }
        if rows(cx).await? == before + made / REQUESTS {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(Stop::fail(format!(
        "{} rows more than before the requests, {COMMITS} commits and purges after they expired",
        rows(cx).await?.saturating_sub(before)
    )))
}
