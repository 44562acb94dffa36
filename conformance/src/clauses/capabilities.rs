//! Capabilities: what is declared works, and what is not declared refuses and does nothing.

use turnkeep_core::query::SearchQuery;
use turnkeep_core::{ErrorKind, Result};

use crate::clause::Need;
use crate::context::Context;
use crate::kit::{Kit, user};
use crate::verdict::{Outcome, Stop};

clauses! { ($) capabilities_tests;
    "CAP-001" cap_001_what_is_not_declared_refuses_and_does_nothing {
        title: "A capability that is declared works, and a compaction gives room back; one that is not answers Unsupported and changes nothing.",
        why: "A call that degrades silently is believed to have worked.",
        catches: "a backend whose missing search answers an empty page",
    }
    "CAP-002" cap_002_a_backup_is_never_written_over_something {
        title: "A backup is a new file; one that would overwrite something is refused, and what is there stays.",
        needs: &[Need::Backup],
        why: "Yesterday's backup is worth more than a second one of today.",
        catches: "a backend that opens the target for writing before it looks",
    }
    "CAP-003" cap_003_verify_finds_nothing_wrong_with_a_good_store {
        title: "Verifying a store that is well reports no damage and changes nothing, and the statistics count what is there.",
        why: "A verification that cries wolf is not run again.",
        catches: "a backend whose verification does not know all of its own rows",
    }
}

/// Fails unless an answer fits its declaration.
fn declared<T>(answer: Result<T>, declared: bool, what: &str) -> Outcome {
    match (answer, declared) {
        (Ok(_), true) => Ok(()),
        (Err(error), true) => Err(Stop::fail(format!("{what} is declared and answered: {error}"))),
        (answer, false) => {
            ensure_refused!(answer, ErrorKind::Unsupported, "{what}, which is not declared");
            Ok(())
        }
    }
}

async fn cap_001_what_is_not_declared_refuses_and_does_nothing(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, vec![user("a needle in the hay"), user("only hay")]).await?;
    ensure_eq!(kit.texts(&session).await?.len(), 2, "entries to search in");
    let has = cx.manifest.capabilities;
    let before = kit.snapshot().await?;
    let search = SearchQuery::new(kit.workspace.clone(), "needle");
    let hits = kit.store.search(&search).await;
    if let Ok(hits) = &hits {
        let found: Vec<_> = hits.items.iter().map(|hit| hit.entry.get()).collect();
        ensure_eq!(found, [1], "entries that search finds");
    }
    declared(hits, has.search, "search")?;
    let Some(maintenance) = kit.store.maintenance() else {
        ensure!(!has.backup && !has.compact, "backup or compact is declared, but there is no maintenance");
        return Ok(());
    };
    declared(maintenance.compact().await, has.compact, "compact")?;
    if !has.backup {
        let target = std::env::temp_dir().join(format!("turnkeep-no-backup-{}", std::process::id()));
        declared(maintenance.backup(&target).await, false, "backup")?;
        ensure!(!target.exists(), "an unsupported backup left a file");
    }
    kit.unchanged(&before, "capabilities, used or refused").await?;
    if let Ok(workspaces) = maintenance.workspaces().await {
        let another = kit.in_workspace("another");
        let session = another.create("s").await?;
        let after: Vec<_> = maintenance.workspaces().await?.iter().map(|id| id.as_str().to_owned()).collect();
        ensure_eq!((workspaces.len(), after), (1, vec!["another".to_owned(), "w".to_owned()]), "workspaces");
        another.delete(&session).await?;
        ensure_eq!(
            maintenance.workspaces().await?,
            vec![kit.workspace.clone()],
            "workspaces that have anything"
        );
    }
    if has.compact {
        gives_room_back(&kit).await?;
    }
    Ok(())
}

/// What a purge leaves unused, a compaction gives back to the disk.
async fn gives_room_back(kit: &Kit) -> Outcome {
    let maintenance = kit.store.maintenance();
    let maintenance =
        maintenance.ok_or_else(|| Stop::fail("compact is declared, but there is no maintenance"))?;
    let large = kit.create("large").await?;
    for _ in 0..4 {
        let words = "many words, ".repeat(3_000);
        kit.append(&large, (0..8).map(|at| user(&format!("{at} {words}"))).collect()).await?;
    }
    // Whatever a log held is in its place then.
    maintenance.compact().await?;
    let before = maintenance.stats().await?.bytes;
    kit.delete(&large).await?;
    maintenance.purge().await?;
    maintenance.compact().await?;
    let after = maintenance.stats().await?.bytes;
    ensure!(after < before, "a compaction with much to give back left {after} of {before} bytes");
    Ok(())
}

async fn cap_002_a_backup_is_never_written_over_something(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.say(&session, "words").await?;
    let maintenance =
        kit.store.maintenance().ok_or_else(|| Stop::fail("backup is declared, without maintenance"))?;
    let io = |error: std::io::Error| Stop::error(format!("the folder for backups: {error}"));
    let unique = turnkeep_core::digest::to_hex(kit.incarnation().as_bytes());
    let folder = std::env::temp_dir().join(format!("turnkeep-backup-{unique}"));
    std::fs::create_dir(&folder).map_err(io)?;
    let outcome = async {
        let target = folder.join("copy");
        maintenance.backup(&target).await?;
        let first = std::fs::read(&target).map_err(io)?;
        ensure!(!first.is_empty(), "the backup is empty");
        kit.say(&session, "more words").await?;
        ensure!(maintenance.backup(&target).await.is_err(), "a second backup to the same file was accepted");
        ensure!(
            std::fs::read(&target).map_err(io)? == first,
            "a refused backup changed the file that was there"
        );
        let taken = folder.join("taken");
        std::fs::write(&taken, "somebody's notes").map_err(io)?;
        ensure!(maintenance.backup(&taken).await.is_err(), "a backup over somebody's file was accepted");
        ensure!(
            std::fs::read(&taken).map_err(io)? == b"somebody's notes",
            "somebody's file was written over"
        );
        kit.say(&session, "still usable").await?;
        Ok(())
    };
    let outcome = outcome.await;
    std::fs::remove_dir_all(&folder).map_err(io)?;
    outcome
}

async fn cap_003_verify_finds_nothing_wrong_with_a_good_store(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, (0..25).map(|at| user(&format!("{at}"))).collect()).await?;
    kit.start(&session, crate::kit::run("r")).await?;
    kit.put(crate::kit::put("c", "k", "1")).await?;
    kit.apply(kit.commit().op(kit.moving(
        &session,
        &crate::kit::name("r"),
        turnkeep_core::model::RunState::Failed,
    )))
    .await?;
    kit.fork(&session, "child", crate::kit::no(20)).await?;
    let doomed = kit.create("doomed").await?;
    kit.say(&doomed, "x").await?;
    kit.delete(&doomed).await?;
    let before = kit.snapshot().await?;
    ensure_eq!(before.sessions.len(), 2, "sessions to verify");
    let Some(maintenance) = kit.store.maintenance() else { return Ok(()) };
    match maintenance.verify().await {
        Ok(report) => {
            ensure!(report.damage.is_empty(), "damage in a store that is well: {:?}", report.damage);
            ensure!(report.sessions >= 2 && report.entries >= 45, "verify looked at {report:?}");
        }
        Err(error) => {
            ensure_refused!(Err::<(), _>(error), ErrorKind::Unsupported, "verify");
        }
    }
    match maintenance.stats().await {
        Ok(stats) => ensure_eq!((stats.workspaces, stats.sessions), (1, 2), "statistics"),
        Err(error) => {
            ensure_refused!(Err::<(), _>(error), ErrorKind::Unsupported, "stats");
        }
    }
    kit.unchanged(&before, "verify and stats").await?;
    Ok(())
}
