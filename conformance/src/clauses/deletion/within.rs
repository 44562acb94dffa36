//! DEL-006: filled and deleted in one commit.

use turnkeep_core::commit::{NewEntry, Op, Parent, Put};
use turnkeep_core::query::{OwnerFilter, RecordQuery, RowQuery};
use turnkeep_core::{Commit, ErrorKind, Expect, SessionRef};

use super::{count_rows, purge};
use crate::context::Context;
use crate::kit::{Kit, event, keyed, name, no, put, run, user};
use crate::verdict::Outcome;

/// Gives a session something of everything, with the same names in each.
fn fill(kit: &Kit, commit: Commit, session: &SessionRef) -> Commit {
    let of = || session.clone();
    let branch = NewEntry { parent: Parent::Root, ..user("a second root") };
    commit
        .op(Op::AcquireLease(kit.session_grant(session, 60_000)))
        .op(Op::Append { session: of(), entries: vec![keyed("k", "one"), user("two"), branch] })
        .op(Op::StartRun { session: of(), run: run("r") })
        .op(Op::AppendEvents {
            session: of(),
            stream: name("log"),
            expect_next: None,
            events: vec![event("n", 1), event("n", 2)],
        })
        .op(Op::DropEvents { session: of(), stream: name("log"), through: Some(1), close: false })
        .op(Op::PutRecord(Put { owner: Some(of()), ..put("c", session.id.as_str(), "1") }))
}

fn forget(key: &str) -> Op {
    Op::DeleteRecord { collection: name("c"), key: name(key), owner: None, expect: Expect::Any }
}

pub(super) async fn del_006_what_one_commit_fills_and_deletes_is_gone(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    // What the first session and the first record of a workspace leave for good is no residue.
    let first = kit.create("first").await?;
    kit.delete(&first).await?;
    kit.put(put("c", "first", "1")).await?;
    kit.apply(kit.commit().op(forget("first"))).await?;
    purge(&kit).await?;
    let before_all = count_rows(cx).await?;
    // What is there before: a session that the commit works on and deletes, and two records that it takes over.
    let old = kit.create("old").await?;
    kit.append(&old, vec![user("before")]).await?;
    for key in ["taken by gone", "taken by kept"] {
        kit.put(put("c", key, "\"before\"")).await?;
    }
    let beside = kit.put(put("c", "beside", "1")).await?;

    let (gone, kept) = (kit.create("gone").await?, kit.create("kept").await?);
    let mut commit = fill(&kit, fill(&kit, kit.commit(), &gone), &kept);
    commit = commit.op(Op::Append { session: old.clone(), entries: vec![user("within")] });
    for (key, owner) in [("taken by gone", &gone), ("taken by kept", &kept)] {
        commit = commit.op(Op::PutRecord(Put { owner: Some(owner.clone()), ..put("c", key, "\"within\"") }));
    }
    for session in [&gone, &old] {
        commit = commit.op(Op::DeleteSession { session: session.clone(), force: true });
    }
    made_and_deleted(&kit).await?;
    // A record that went with its owner reads as absent for the rest of the commit, and no other one does.
    commit = commit.op(Op::PutRecord(Put { expect: Expect::Absent, ..put("c", "gone", "\"anew\"") }));
    commit = commit.op(Op::DeleteRecord {
        collection: name("c"),
        key: name("beside"),
        owner: None,
        expect: Expect::Version(beside),
    });
    let before = kit.workspace_mark().await?;
    kit.apply(commit).await?;
    ensure!(kit.workspace_mark().await? != before, "the mark of the workspace stood still");

    let reader = cx.kit().await?;
    for session in [&gone, &old] {
        let id = session.id.as_str();
        ensure!(reader.find(id).await?.is_none(), "{id} is found after its delete");
        ensure_refused!(
            reader.store.entries(&reader.every_entry(session)).await,
            ErrorKind::NotFound,
            "entries of {id}"
        );
        ensure!(reader.lease(session).await?.is_none(), "the lease of {id} is there");
    }
    ensure_eq!(reader.ids(reader.list()).await?, ["kept"], "sessions in the list");
    let anew =
        reader.record("c", "gone").await?.map(|record| (record.owner, record.payload.as_str().to_owned()));
    ensure_eq!(anew, Some((None, "\"anew\"".to_owned())), "the record put after its owner was deleted");
    ensure!(reader.record("c", "taken by gone").await?.is_none(), "the record that it took along is back");
    let loose = reader.rows(RowQuery::unowned(reader.workspace.clone())).await?;
    ensure_eq!(loose.len(), 1, "records that nobody owns");
    reader.apply(reader.commit().op(forget("gone"))).await?;

    ensure_eq!(reader.texts(&kept).await?, ["one", "two", "a second root"], "entries of the other session");
    ensure!(reader.find_run(&kept, "r").await?.is_some(), "the run of the other session is gone");
    let events = reader.events(reader.stream(&kept, "log")).await?;
    ensure_eq!(events.len(), 1, "events of the other session");
    let more = Op::AppendEvents {
        session: kept.clone(),
        stream: name("log"),
        expect_next: Some(3),
        events: vec![event("n", 3)],
    };
    reader.apply(reader.commit().op(more)).await?;
    ensure!(reader.lease(&kept).await?.is_some(), "the lease of the other session is gone");
    reader.put(Put { owner: Some(kept.clone()), ..put("c", "later", "1") }).await?;
    let owned = RecordQuery { owner: OwnerFilter::Session(kept.clone()), ..reader.collection("c") };
    let owned: Vec<_> = reader
        .records(owned)
        .await?
        .into_iter()
        .map(|record| (record.ordinal, record.key.as_str().to_owned()))
        .collect();
    let expected = [(1, "kept"), (2, "taken by kept"), (3, "later")].map(|(at, key)| (at, key.to_owned()));
    ensure_eq!(owned, expected, "records of the other session, with their places");
    reader.apply(reader.commit().op(Op::DeleteSession { session: kept.clone(), force: true })).await?;
    let again = reader.create("kept").await?;
    reader.append(&again, vec![keyed("k", "new")]).await?;
    ensure_eq!(reader.row(&again).await?.head, Some(no(1)), "the first number of the new life");
    reader.delete(&again).await?;
    purge(&reader).await?;
    ensure_eq!(count_rows(cx).await?, before_all, "rows in all tables once everything is deleted and purged");
    Ok(())
}

/// Whoever makes a session and deletes it at once means something else; another one made there does not change it.
async fn made_and_deleted(kit: &Kit) -> Outcome {
    let (made, other) = (kit.life("made"), kit.life("other"));
    let commit = kit
        .commit()
        .op(Op::CreateSession(kit.new_session(&other)))
        .op(Op::CreateSession(kit.new_session(&made)))
        .op(Op::DeleteSession { session: made, force: true });
    let before = kit.snapshot().await?;
    kit.refused(commit, ErrorKind::Invalid).await?;
    kit.unchanged(&before, "making and deleting a session in one commit").await?;
    let old = kit.create("replaced").await?;
    let beside = kit
        .commit()
        .op(Op::CreateSession(kit.new_session(&other)))
        .op(Op::DeleteSession { session: old.clone(), force: false })
        .op(Op::DeleteSession { session: other, force: false });
    kit.refused(beside, ErrorKind::Invalid).await?;
    let again = kit
        .commit()
        .op(Op::DeleteSession { session: old.clone(), force: false })
        .op(Op::CreateSession(kit.new_session(&old)));
    kit.refused(again, ErrorKind::Invalid).await?;
    let old = kit.find("replaced").await?;
    let old = old.ok_or_else(|| crate::verdict::Stop::fail("a refused commit deleted a session"))?;
    kit.delete(&old.session_ref()).await?;
    Ok(())
}
