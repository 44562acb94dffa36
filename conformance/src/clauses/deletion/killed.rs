//! Killed while a session is deleted, and while its rows are purged.

use turnkeep_core::model::{Row, SessionRow};
use turnkeep_core::{ErrorKind, SessionRef};

use super::{count_rows, full, purge, purged};
use crate::clause::Running;
use crate::context::Context;
use crate::crash::{self, Books, Moment};
use crate::kit::{Kit, put, user};
use crate::verdict::Outcome;

/// Entries of the session that is deleted: some slices of a purge.
const ENTRIES: usize = 3_200;

async fn large(kit: &Kit, id: &str) -> Outcome<SessionRef> {
    let session = full(kit, id).await?;
    kit.append(&session, (0..ENTRIES).map(|at| user(&format!("entry {at}"))).collect()).await?;
    Ok(session)
}

/// Deletes the session that is called like the role, and purges it.
pub(super) fn delete<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let kit = cx.kit().await?;
        let session = kit.there(role).await?;
        crash::begin("delete")?;
        kit.delete(&session).await?;
        crash::done("delete")?;
        crash::begin("purge")?;
        purge(&kit).await?;
        crash::done("purge")
    })
}

/// Smoke: 3 kills, full: 18, soak: 300, of three kinds.
pub(super) async fn del_004_a_kill_leaves_a_session_or_deletes_it(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let stays = full(&kit, "stays").await?;
    let kept = everything(&kit, &stays).await?;
    // What the first use of the tables leaves for good is no residue of the second.
    let first = full(&kit, "first").await?;
    kit.put(put("beside", "k", "0")).await?;
    kit.delete(&first).await?;
    purge(&kit).await?;
    let tables = count_rows(cx).await?;
    cx.leave(kit).await?;
    for kill in 0..cx.scaled(3, 18, 300) {
        let kit = cx.kit().await?;
        let session = large(&kit, "large").await?;
        let before = everything(&kit, &session).await?;
        cx.leave(kit).await?;
        // In the delete, right after it, when its purge has just begun, and in the purge.
        let moment = match kill % 3 {
            0 => Moment::line(1).later(cx.pick("DEL-004", kill, 4_000)),
            1 => Moment::line(2),
            _ => Moment::line(2).or_call(cx.pick("DEL-004", kill, 60)),
        };
        let books = cx.killed("large", moment).await?;
        let kit = cx.kit().await?;
        if whole_or_gone(&kit, &session, &before, &books).await? {
            cx.count("whole after the kill", 1);
            kit.delete(&session).await?;
        } else {
            cx.count("gone after the kill", 1);
        }
        // A first word, after which whoever opened the store has nothing to do but this.
        kit.put(put("beside", "k", "1")).await?;
        purged(&kit, false, "a purge that was killed does not go on by itself once the store is open again")
            .await?;
        purge(&kit).await?;
        ensure_eq!(count_rows(cx).await?, tables, "rows of all tables after a purge that was killed");
        ensure_eq!(everything(&kit, &stays).await?, kept, "the session beside the deleted one");
        cx.leave(kit).await?;
    }
    Ok(())
}

async fn everything(kit: &Kit, session: &SessionRef) -> Outcome<(SessionRow, Vec<Row>)> {
    Ok((kit.row(session).await?, kit.rows(kit.rows_of(session)).await?))
}

/// Whether the session is there; then all of it is.
async fn whole_or_gone(
    kit: &Kit,
    session: &SessionRef,
    before: &(SessionRow, Vec<Row>),
    books: &Books,
) -> Outcome<bool> {
    if kit.find(session.id.as_str()).await?.is_some() {
        ensure!(!books.is_done("delete"), "a deleted session is back after a kill");
        ensure_eq!(everything(kit, session).await?, *before, "a session whose delete did not land");
        return Ok(true);
    }
    let gone = ErrorKind::NotFound;
    ensure_eq!(kit.ids(kit.list()).await?, ["stays"], "sessions in the list after a delete that landed");
    ensure_refused!(
        kit.store.entries(&kit.every_entry(session)).await,
        gone,
        "the entries of a deleted session"
    );
    ensure_refused!(kit.store.rows(&kit.rows_of(session)).await, gone, "the rows of a deleted session");
    ensure!(kit.record("c", "of large").await?.is_none(), "a record of a deleted session is there");
    Ok(false)
}
