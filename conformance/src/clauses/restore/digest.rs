//! RST-005: the seal tells rows and ranges apart.

use turnkeep_core::SessionRef;
use turnkeep_core::commit::{Fence, Op, Put};
use turnkeep_core::model::{Profile, Row};
use turnkeep_core::{ErrorKind, Expect};

use super::{restore, restoring_row, source};
use crate::context::Context;
use crate::kit::{Kit, name, no, payload, put, user};
use crate::verdict::Outcome;

/// A change of one row, and its words.
type Change = (&'static str, fn(&mut Row) -> bool);

/// Each changes the first row that it fits.
const CHANGES: &[Change] = &[
    ("when the session was made", |row| match row {
        Row::Session(image) => {
            image.created_at = image.created_at.plus_ms(1);
            true
        }
        _ => false,
    }),
    ("the words of an entry", |row| match row {
        Row::Entry(entry) => {
            entry.payload = payload("\"other words\"");
            true
        }
        _ => false,
    }),
    ("who speaks", |row| match row {
        Row::Entry(entry) => {
            entry.role = Some(name("somebody else"));
            true
        }
        _ => false,
    }),
    ("the model of a run", |row| match row {
        Row::Run(run) => {
            run.model = Some("another".to_owned());
            true
        }
        _ => false,
    }),
    ("the content of an event", |row| match row {
        Row::Event { event, .. } => {
            event.payload = payload("{\"n\":99}");
            true
        }
        _ => false,
    }),
    ("the content of a record", |row| match row {
        Row::Record(record) => {
            record.payload = payload("{\"n\":99}");
            true
        }
        _ => false,
    }),
];

pub(super) async fn rst_005_a_seal_tells_every_row_apart(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let source = source(&kit).await?;
    let rows = kit.rows(kit.rows_of(&source)).await?;
    let (whole, _) = built(&kit, "whole", &rows).await?;
    for (at, (what, change)) in CHANGES.iter().enumerate() {
        let mut other = rows.clone();
        ensure!(other.iter_mut().any(change), "the suite's source has no row to change: {what}");
        let workspace = format!("other-{at}");
        let copy = kit.in_workspace(&workspace);
        let (session, fence) = copy.begin_restore("copy", Profile::default()).await?;
        restore(&copy, &session, &fence, &other).await?;
        let state = restoring_row(&copy, &session).await?.restore.unwrap_or_default();
        ensure!(state.digest != whole.1, "the digest is the same with another row: {what}");
        refused_seal(&copy, &session, &fence, whole, what).await?;
    }
    copied(&kit).await
}

/// Rows and digest of a session that is being built.
type Built = (u64, [u8; 32]);

async fn built(kit: &Kit, workspace: &str, rows: &[Row]) -> Outcome<(Built, SessionRef)> {
    let copy = kit.in_workspace(workspace);
    let (session, fence) = copy.begin_restore("copy", Profile::default()).await?;
    restore(&copy, &session, &fence, rows).await?;
    let state = restoring_row(&copy, &session).await?.restore.unwrap_or_default();
    Ok(((state.rows, state.digest), session))
}

/// What was sent is not what is there: the seal says so, and the session stays hidden.
async fn refused_seal(kit: &Kit, session: &SessionRef, fence: &Fence, sent: Built, what: &str) -> Outcome {
    let (rows, digest) = sent;
    let seal = Op::SealSession { session: session.clone(), leaf: None, rows, digest };
    let answer = kit.store.commit(kit.commit().fence(fence.clone()).op(seal)).await;
    ensure_refused!(answer, ErrorKind::Corrupt, "a seal over other rows: {what}");
    ensure!(kit.find(session.id.as_str()).await?.is_none(), "a session is in use after a refused seal");
    Ok(())
}

/// The digest of a copy is that of its source and its range.
async fn copied(kit: &Kit) -> Outcome {
    let sources = [kit.create("one").await?, kit.create("two").await?];
    for source in &sources {
        kit.append(source, (0..5).map(|at| user(&format!("entry {at}"))).collect()).await?;
    }
    let mut seen: Vec<Built> = Vec::new();
    for (at, (source, through)) in [(0, 4), (0, 5), (1, 4)].into_iter().enumerate() {
        let copy = kit.in_workspace(kit.workspace.as_str());
        let (child, fence) = copy.begin_restore(&format!("child-{at}"), Profile::default()).await?;
        // In two slices: how it was cut plays no part.
        for (after, through) in [(None, 2), (Some(no(2)), through)] {
            let (from, to) = (sources[source].clone(), child.clone());
            let slice = Op::CopyEntries { from, to, after, through: no(through) };
            copy.apply(copy.commit().fence(fence.clone()).op(slice)).await?;
        }
        let state = restoring_row(&copy, &child).await?.restore.unwrap_or_default();
        ensure_eq!(state.rows, u64::from(through), "entries copied");
        for other in &seen {
            ensure!(other.1 != state.digest, "two copies of other sources or ranges have one digest");
            refused_seal(&copy, &child, &fence, (state.rows, other.1), "another source or range").await?;
        }
        seen.push((state.rows, state.digest));
    }
    Ok(())
}

pub(super) async fn rst_006_a_sealed_session_is_in_use_for_the_rest_of_its_commit(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let source = source(&kit).await?;
    let rows = kit.rows(kit.rows_of(&source)).await?;
    let copy = kit.in_workspace("copy");
    let (session, fence) = copy.begin_restore("copy", Profile::default()).await?;
    restore(&copy, &session, &fence, &rows).await?;
    let state = restoring_row(&copy, &session).await?.restore.unwrap_or_default();
    let record = rows.iter().find_map(|row| match row {
        Row::Record(record) => Some(record),
        _ => None,
    });
    let record = record.ok_or_else(|| crate::verdict::Stop::error("the suite's source owns no record"))?;
    let used = |expect| {
        Op::PutRecord(Put {
            owner: Some(session.clone()),
            expect,
            ..put(record.collection.as_str(), record.key.as_str(), "\"changed\"")
        })
    };
    let seal =
        Op::SealSession { session: session.clone(), leaf: None, rows: state.rows, digest: state.digest };
    let begun = || copy.commit().fence(fence.clone()).op(seal.clone());
    // Its records are there from the seal on, so they cannot be made anew.
    copy.refused(begun().op(used(Expect::Absent)), ErrorKind::VersionConflict).await?;
    let mark = copy.workspace_mark().await?;
    let whole = begun()
        .op(used(Expect::Any))
        .op(Op::Append { session: session.clone(), entries: vec![user("the first words after it")] })
        .op(Op::ReleaseLease { fence: fence.clone() });
    copy.apply(whole).await?;
    ensure!(copy.workspace_mark().await? != mark, "the mark of the workspace stood still at the seal");
    let last = copy.texts(&session).await?.pop();
    ensure_eq!(last.as_deref(), Some("the first words after it"), "the words after the seal");
    let seen = copy.record(record.collection.as_str(), record.key.as_str()).await?;
    ensure_eq!(
        seen.map(|record| record.payload),
        Some(payload("\"changed\"")),
        "the record changed after the seal"
    );
    Ok(())
}
