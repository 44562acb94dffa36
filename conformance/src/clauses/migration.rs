//! Migration: a format is opened only by who knows it, and whoever knows it loses nothing of it.

mod copy;
mod upgrade;

use std::collections::BTreeMap;

use turnkeep_core::commit::{Op, SessionPatch};
use turnkeep_core::{Commit, ErrorKind};

use crate::clause::{Kind, Need};
use crate::context::Context;
use crate::golden;
use crate::harness::{Damage, Fixture, Site};
use crate::kit::{Kit, put, user};
use crate::verdict::{Outcome, Stop};
use copy::mig_004_a_copy_to_another_backend_and_back_is_equal;
use upgrade::{mig_002_an_upgrade_that_is_cut_short_loses_nothing_case_72, upgrade_once};

clauses! { ($) migration_tests;
    "MIG-001" mig_001_every_format_opens_with_exact_contents {
        title: "A store of every format that was ever written, today's included, opens with every row, lease and stored receipt as it was written, and takes new commits.",
        needs: &[Need::Persistent],
        why: "After an upgrade people look for yesterday's conversation first.",
        links: &["open-webui/open-webui#29290"],
        catches: "a backend that changed what it writes without a new format, or begins anew what it cannot read",
    }
    "MIG-002" mig_002_an_upgrade_that_is_cut_short_loses_nothing_case_72 {
        title: "An upgrade that a kill or a power loss cuts short leaves the old store or the new one, whole: the next opening completes it, and the recorded version is never ahead of the contents.",
        kind: Kind::Stochastic,
        needs: &[Need::Persistent, Need::OlderFormat],
        why: "An upgrade is the one time when every row is at stake.",
        links: &["open-webui/open-webui#29290"],
        catches: "a backend that raises the version before the rows are moved, or moves them in place",
        cases: &["case-72"],
        timeout: std::time::Duration::from_secs(180),
        peer: Some(upgrade_once),
    }
    "MIG-003" mig_003_a_newer_format_is_refused_untouched_case_43 {
        title: "A store of a newer format is refused with NewerFormat, again and again, and not one of its bytes changes.",
        needs: &[Need::Persistent],
        why: "An older program that opens a newer store writes what the newer one cannot read, or shows a blank screen.",
        links: &["openai/codex#16924", "anomalyco/opencode#14970"],
        catches: "a backend that ignores the version, or migrates downwards",
        cases: &["case-43"],
    }
    "MIG-004" mig_004_a_copy_to_another_backend_and_back_is_equal {
        title: "A session that is copied to another backend and back through its rows equals itself in every read, with the exceptions of RST-001.",
        why: "Whoever cannot take their history along is locked in.",
        catches: "a backend that gives or takes rows in a form of its own",
    }
    "MIG-005" mig_005_a_writer_of_the_old_format_is_refused_after_the_upgrade {
        title: "A store that is open while another process raises the format refuses every commit and chore from then on with NewerFormat, and writes nothing.",
        needs: &[Need::Persistent, Need::MultiProcess],
        why: "A long-running program goes on writing the old form into what a newer one has upgraded.",
        catches: "a backend that looks at the version only when it opens",
    }
}

/// The golden stores of the harness, laid out; `not_run` if it has none.
async fn golden_stores(cx: &Context) -> Outcome<Vec<Fixture>> {
    let laid = cx.harness.fixtures().await;
    let laid =
        laid.map_err(|error| Stop::error(format!("the golden stores could not be laid out: {error}")))?;
    laid.ok_or_else(|| Stop::not_run("the harness has no golden stores"))
}

/// Fails if the harness has a golden store of an older format than this.
pub(crate) async fn no_older_golden_store(cx: &Context, today: u32) -> Outcome {
    let laid = cx.harness.fixtures().await;
    let laid =
        laid.map_err(|error| Stop::error(format!("the golden stores could not be laid out: {error}")))?;
    let mut formats = Vec::new();
    for fixture in laid.unwrap_or_default() {
        formats.push(fixture.format);
        remove(cx, &fixture.site).await?;
    }
    ensure!(
        formats.iter().all(|format| *format >= today),
        "the store says that its format {today} is the first, but there are golden stores of {formats:?}"
    );
    Ok(())
}

async fn remove(cx: &Context, site: &Site) -> Outcome {
    let removed = cx.harness.destroy(site).await;
    removed.map_err(|error| Stop::error(format!("a golden store could not be removed: {error}")))
}

/// Opens a golden store and compares all of it with what was written.
async fn same_as_written(cx: &Context, fixture: &Fixture) -> Outcome<Kit> {
    let format = fixture.format;
    let opened = cx.try_open_at(&fixture.site).await;
    let store =
        opened.map_err(|error| Stop::fail(format!("a store of format {format} does not open: {error}")))?;
    let lines = golden::read(&*store).await?;
    ensure_eq!(lines.len(), fixture.lines.len(), "rows of a store of format {format}");
    for (line, written) in lines.iter().zip(&fixture.lines) {
        ensure_eq!(line, written, "a row of a store of format {format}");
    }
    if let Some(maintenance) = store.maintenance() {
        match maintenance.verify().await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            verified => {
                ensure!(verified?.damage.is_empty(), "verifying finds damage in a store of format {format}")
            }
        }
    }
    Ok(Kit::new(store, cx))
}

async fn mig_001_every_format_opens_with_exact_contents(cx: &Context) -> Outcome {
    let today = cx.kit().await?.store.info().format;
    ensure!(today > 0, "StoreInfo names no format; the first is 1");
    let stores: BTreeMap<u32, Fixture> =
        golden_stores(cx).await?.into_iter().map(|fixture| (fixture.format, fixture)).collect();
    let outcome = every_format(cx, &stores, today).await;
    cx.close_all().await;
    for fixture in stores.values() {
        remove(cx, &fixture.site).await?;
    }
    outcome
}

async fn every_format(cx: &Context, stores: &BTreeMap<u32, Fixture>, today: u32) -> Outcome {
    for format in 1..=today {
        let Some(fixture) = stores.get(&format) else {
            return Err(Stop::not_run(format!("the harness has no golden store of format {format}")));
        };
        let kit = same_as_written(cx, fixture).await?;
        ensure_eq!(kit.store.info().format, today, "the format after opening one of format {format}");
        ensure!(
            golden::repeat(&*kit.store).await?.replayed,
            "a stored receipt of format {format} is unknown"
        );
        let number = golden::go_on(&*kit.store, "after years").await?;
        ensure_eq!(number.map(turnkeep_core::EntryNo::get), Some(3), "the next number in format {format}");
        let before = golden::read(&*kit.store).await?;
        kit.store.close().await?;
        drop(kit);
        let again = cx.try_open_at(&fixture.site).await?;
        ensure_eq!(golden::read(&*again).await?, before, "rows of format {format}, opened a second time");
        again.close().await?;
    }
    Ok(())
}

async fn mig_003_a_newer_format_is_refused_untouched_case_43(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, vec![user("one"), user("two")]).await?;
    kit.store.close().await?;
    drop(kit);
    raise(cx).await?;
    let image = || async {
        let image = cx.harness.image(&cx.site).await;
        image.map_err(|error| Stop::error(format!("the bytes could not be read: {error}")))
    };
    let before = image().await?;
    ensure!(before.is_some(), "a harness that raises the version must also give the image of a store");
    for attempt in 0..3 {
        let opened = cx.try_open().await;
        ensure_refused!(opened, ErrorKind::NewerFormat, "opening a newer format, attempt {attempt}");
        ensure_eq!(image().await?, before, "the bytes of the store after attempt {attempt}");
    }
    Ok(())
}

async fn raise(cx: &Context) -> Outcome {
    let done = cx.harness.damage(&cx.site, Damage::NewerFormat).await;
    if done.map_err(|error| Stop::error(format!("the version could not be raised: {error}")))? {
        return Ok(());
    }
    Err(Stop::not_run("the harness cannot raise the format version"))
}

async fn mig_005_a_writer_of_the_old_format_is_refused_after_the_upgrade(cx: &Context) -> Outcome {
    let (kit, idle) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    kit.append(&session, vec![user("one"), user("two")]).await?;
    kit.put(put("c", "k", "1")).await?;
    let fence = kit.acquire(&session, 60_000).await?;
    let doomed = kit.create("doomed").await?;
    kit.append(&doomed, (0..2_500).map(|at| user(&format!("{at}"))).collect()).await?;
    if let Some(maintenance) = kit.store.maintenance() {
        // Nothing of a chore is left to do, so that counts cannot move by themselves.
        kit.delete(&doomed).await?;
        maintenance.purge().await?;
    }
    let doomed = kit.create("doomed").await?;
    kit.say(&doomed, "x").await?;
    let before = kit.snapshot().await?;
    let count = || async {
        let rows = cx.harness.residue(&cx.site).await;
        rows.map_err(|error| Stop::error(format!("counting rows failed: {error}")))
    };
    let rows = count().await?;
    raise(cx).await?;
    let patch = SessionPatch { pinned: Some(true), ..SessionPatch::default() };
    for (kit, client) in [(&kit, "the client that wrote last"), (&idle, "a client that wrote nothing")] {
        let fresh = kit.life("fresh");
        let writes: [(&str, Commit); 6] = [
            ("an append", kit.appending(&session, vec![user("late")]).fence(fence.clone())),
            ("a new session", kit.commit().op(Op::CreateSession(kit.new_session(&fresh)))),
            ("a patch", kit.commit().op(Op::PatchSession { session: session.clone(), patch: patch.clone() })),
            ("a record", kit.commit().op(Op::PutRecord(put("c", "k", "2")))),
            ("a release", kit.commit().op(Op::ReleaseLease { fence: fence.clone() })),
            ("a deletion", kit.commit().op(Op::DeleteSession { session: doomed.clone(), force: true })),
        ];
        for (what, commit) in writes {
            let answer = kit.store.commit(commit).await;
            ensure_refused!(answer, ErrorKind::NewerFormat, "{what} by {client} after the upgrade");
        }
    }
    if let Some(maintenance) = kit.store.maintenance() {
        let compacted = maintenance.compact().await;
        let purged = maintenance.purge().await.map(drop);
        for (what, answer) in [("compacting", compacted), ("purging", purged)] {
            // What the store does not have does nothing.
            if !matches!(&answer, Err(error) if error.kind() == ErrorKind::Unsupported) {
                ensure_refused!(answer, ErrorKind::NewerFormat, "{what} after the upgrade");
            }
        }
    }
    ensure_eq!(count().await?, rows, "rows in the tables after what was refused");
    // Reading on is harmless; refusing that too is honest.
    match kit.store.sessions(&kit.list()).await {
        Err(error) => drop(ensure_refused!(Err::<(), _>(error), ErrorKind::NewerFormat, "reading on")),
        Ok(_) => kit.unchanged(&before, "what was refused").await?,
    }
    ensure_refused!(cx.try_open().await, ErrorKind::NewerFormat, "opening after the upgrade");
    Ok(())
}
