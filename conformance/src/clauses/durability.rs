//! Durability: what was acknowledged is there afterwards, as far as the class goes.

pub(super) mod failing;
mod images;
mod killed;
mod power;
mod workload;

use std::time::Duration;

use turnkeep_core::commit::Op;
use turnkeep_core::query::RowQuery;
use turnkeep_core::{Durability, ErrorKind};

use crate::clause::{Kind, Need};
use crate::context::Context;
use crate::kit::{event, gather, keyed, name, put, run, spawn, user};
use crate::verdict::Outcome;
use failing::{
    dur_004_a_failed_sync_is_an_error_and_ends_acknowledging,
    dur_005_a_full_disk_is_full_and_work_goes_on_once_there_is_room_case_11,
    dur_009_whatever_call_fails_no_answer_is_wrong,
};
use killed::dur_001_acknowledged_commits_survive_a_kill;
use power::{
    dur_002_every_power_loss_leaves_an_atomic_prefix, dur_003_no_power_loss_takes_an_acknowledged_commit,
    dur_006_the_very_first_commit_lasts, dur_007_chores_may_be_cut_anywhere,
};

clauses! { ($) durability_tests;
    "DUR-001" dur_001_acknowledged_commits_survive_a_kill {
        title: "A process that is killed while several clients of it write loses nothing that one of them was told, and leaves nothing twice or half; other processes at work go on.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: Duration::from_secs(300),
        why: "What a person saw confirmed must not depend on how the program ended.",
        catches: "a backend that acknowledges what it still has to write",
        peer: Some(killed::write),
    }
    "DUR-002" dur_002_every_power_loss_leaves_an_atomic_prefix {
        title: "Wherever the power goes, the store opens by itself and holds exactly what some number of commits made, from the first on; nothing is torn, and the next words are taken.",
        durability: Durability::D2,
        needs: &[Need::Persistent],
        timeout: Duration::from_secs(180),
        why: "A process that is killed proves nothing: the page cache survives it. Half a turn, or a store that has to be repaired by hand, is what a power loss leaves where writes may arrive in any order.",
        catches: "a backend that syncs less than its format needs, such as SQLite with synchronous=OFF",
    }
    "DUR-003" dur_003_no_power_loss_takes_an_acknowledged_commit {
        title: "Wherever the power goes, every commit that had been acknowledged is there, whole.",
        durability: Durability::D3,
        needs: &[Need::Persistent],
        timeout: Duration::from_secs(180),
        why: "An acknowledgement is a promise, and somebody acted on it.",
        catches: "a backend that acknowledges before its sync, such as SQLite with synchronous=NORMAL, or one that never syncs",
    }
    "DUR-004" dur_004_a_failed_sync_is_an_error_and_ends_acknowledging {
        title: "A commit whose sync failed answers CommitUnknown, and until the store is opened again each commit and each chore that writes answers Poisoned; what had been acknowledged is there then, and what is unknown is whole or absent.",
        durability: Durability::D3,
        needs: &[Need::Persistent],
        timeout: Duration::from_secs(120),
        why: "After a failed sync the system may have thrown the words away and forgotten that it did; a second try that succeeds proves nothing.",
        catches: "a backend that tries the sync again, or goes on",
    }
    "DUR-005" dur_005_a_full_disk_is_full_and_work_goes_on_once_there_is_room_case_11 {
        title: "On a full disk a commit answers Full and changes nothing, everything that was there stays readable, and once there is room the same handle goes on.",
        durability: Durability::D2,
        needs: &[Need::Persistent],
        timeout: Duration::from_secs(120),
        why: "Disks do fill, and a store that is left half-written then cannot be opened when there is room again.",
        links: &["anomalyco/opencode#7607", "cberner/redb#620"],
        catches: "a backend that cannot say whether a commit landed that found no room, or has to be opened again",
        cases: &["case-11"],
    }
    "DUR-006" dur_006_the_very_first_commit_lasts {
        title: "From the first acknowledged commit of a new store on, no power loss takes it: its files and their names in the folder are durable by then.",
        durability: Durability::D3,
        needs: &[Need::Persistent],
        timeout: Duration::from_secs(120),
        why: "A synced file whose name was not synced is gone with all that is in it.",
        links: &["etcd-io/etcd#6368"],
        catches: "a backend that makes its file and does not sync the folder",
    }
    "DUR-007" dur_007_chores_may_be_cut_anywhere {
        title: "Checkpoints, purges, a compaction and a backup may be cut by a power loss anywhere: the store holds what it held, and a backup is whole or not there, and there once it was done.",
        durability: Durability::D2,
        needs: &[Need::Persistent],
        timeout: Duration::from_secs(120),
        why: "Chores move words that were safe; a cut in the middle must not be the moment in which they are nowhere.",
        catches: "a backend that removes before it has synced, or names a copy before it is whole",
    }
    "DUR-008" dur_008_a_clean_close_loses_nothing {
        title: "After a close, which waits for what is under way, every acknowledged commit is there and every row is as it was; a closed handle answers Closed.",
        needs: &[Need::Persistent],
        why: "A program that ends in order must not lose its last words.",
        catches: "a backend that closes before its queue is empty",
    }
    "DUR-009" dur_009_whatever_call_fails_no_answer_is_wrong {
        title: "Whatever call on its files fails, once and at whatever moment, every answer is right or an error that says so; a read that failed puts nothing in doubt; what was acknowledged is there after reopening, what was refused is not.",
        durability: Durability::D2,
        needs: &[Need::Persistent],
        timeout: Duration::from_secs(180),
        why: "An error of a device that is swallowed once becomes lost words later.",
        catches: "a backend that ignores an error of a write, a read or a removal",
    }
}

async fn dur_008_a_clean_close_loses_nothing(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, (0..50).map(|at| keyed(&format!("k{at}"), &format!("entry {at}"))).collect())
        .await?;
    kit.start(&session, run("r")).await?;
    let events = Op::AppendEvents {
        session: session.clone(),
        stream: name("notes"),
        expect_next: None,
        events: vec![event("n", 1)],
    };
    let mut owned = put("c", "owned", "1");
    owned.owner = Some(session.clone());
    kit.apply(kit.commit().op(events).op(Op::PutRecord(owned)).op(Op::PutRecord(put("c", "loose", "2"))))
        .await?;
    kit.acquire(&session, 60_000).await?;
    let other = kit.create("other").await?;

    // Commits race with the close: each is acknowledged and there, or refused and absent.
    let mut racers = Vec::new();
    for racer in 0..20 {
        let (kit, other) = (kit.clone(), other.clone());
        racers.push(spawn(async move {
            let text = format!("racer {racer}");
            match kit.store.commit(kit.appending(&other, vec![user(&text)])).await {
                Ok(_) => Ok(Some(text)),
                Err(error) => {
                    ensure_refused!(Err::<(), _>(error), ErrorKind::Closed, "a commit during the close");
                    Ok(None)
                }
            }
        }));
    }
    tokio::task::yield_now().await;
    let (row, rows, lease) =
        (kit.row(&session).await?, kit.rows(kit.rows_of(&session)).await?, kit.lease(&session).await?);
    let loose = kit.rows(RowQuery::unowned(kit.workspace.clone())).await?;
    kit.store.close().await?;
    let mut acknowledged: Vec<_> = gather(racers).await?.into_iter().flatten().collect();
    let closed = ErrorKind::Closed;
    ensure_refused!(kit.store.commit(kit.appending(&session, vec![user("late")])).await, closed, "a commit");
    ensure_refused!(kit.store.entries(&kit.committed(&session)).await, closed, "a read");
    ensure_refused!(kit.store.sessions(&kit.list()).await, closed, "a list");
    drop(kit);

    let kit = cx.kit().await?;
    ensure_eq!(kit.row(&session).await?, row, "the session's row after reopening");
    ensure_eq!(kit.rows(kit.rows_of(&session)).await?, rows, "the session's rows after reopening");
    ensure_eq!(kit.rows(RowQuery::unowned(kit.workspace.clone())).await?, loose, "records that nobody owns");
    let epoch = |lease: Option<turnkeep_core::model::LeaseView>| {
        lease.map(|lease| (lease.epoch, lease.owner, lease.expires_at))
    };
    ensure_eq!(epoch(kit.lease(&session).await?), epoch(lease), "the lease after reopening");
    let mut stored = kit.texts(&other).await?;
    stored.sort();
    acknowledged.sort();
    ensure_eq!(
        stored,
        acknowledged,
        "commits that raced with the close: the acknowledged ones and no others"
    );
    Ok(())
}
