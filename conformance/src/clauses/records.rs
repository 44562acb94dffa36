//! Records: versioned documents, changed by compare-and-swap.

use turnkeep_core::commit::{Op, Put};
use turnkeep_core::id::Collection;
use turnkeep_core::model::{Record, Version};
use turnkeep_core::query::{OwnerFilter, RecordQuery};
use turnkeep_core::{ErrorKind, Expect, Guard, SessionRef};

use crate::clause::{Kind, Running};
use crate::context::Context;
use crate::kit::{Kit, gather, name, payload, put, spawn, user};
use crate::peer;
use crate::verdict::{Outcome, Stop};

clauses! { ($) records_tests;
    "REK-001" rek_001_every_put_gives_a_new_version {
        title: "Every put gives a new version; a put under Absent or a version that does not hold answers VersionConflict and changes nothing.",
        why: "Bindings and claims are moved by compare-and-swap; an equal version for two states breaks it.",
        catches: "a backend that leaves the version alone when the content is equal",
    }
    "REK-002" rek_002_a_record_made_again_matches_no_old_version {
        title: "A record made again after a delete has a version that no earlier one equals, and a new place in lists.",
        why: "A slow writer with an old version must not overwrite a new record of the same key.",
        catches: "a backend that counts versions per key from 1",
    }
    "REK-003" rek_003_an_expectation_and_an_append_stand_or_fall_together {
        title: "A record expectation and an append in one commit stand or fall together, in guards and in ops.",
        why: "Consuming guidance and answering it are one step.",
        catches: "a backend that writes records in a transaction of their own",
    }
    "REK-004" rek_004_one_winner_among_many_claimants {
        title: "Of many that claim one key, in one or several processes, one wins, and the others read the winner's record; no change made by version is lost.",
        kind: Kind::Stochastic,
        peer: Some(count_elsewhere),
        why: "A tool call with side effects must run once.",
        catches: "a backend that checks Absent before it writes",
    }
    "REK-005" rek_005_a_record_moves_with_its_owner {
        title: "A record given to another owner goes to the end of the new owner's list, moves the revision of both, and dies with the new one only; an exclusive one keeps its owner.",
        why: "A binding that stays with its former session is lost when that session is deleted.",
        catches: "a backend that keeps the owner of the first put, or deletes by a stale owner index",
    }
}

fn expecting(expect: Expect, json: &str) -> Put {
    Put { expect, ..put("c", "k", json) }
}

async fn rek_001_every_put_gives_a_new_version(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let mut versions: Vec<Version> = Vec::new();
    for (expect, json) in [(Expect::Absent, "1"), (Expect::Any, "1"), (Expect::Any, "2")] {
        let version = kit.put(expecting(expect, json)).await?;
        ensure!(!versions.contains(&version), "version {version:?} was given twice");
        versions.push(version);
        let record = kit.record("c", "k").await?;
        ensure_eq!(
            record.map(|r| (r.version, r.payload)),
            Some((version, payload(json))),
            "the record that was put"
        );
    }
    let before = kit.snapshot().await?;
    let never = Version { birth: versions[0].birth.wrapping_add(1), count: versions[2].count };
    for expect in
        [Expect::Absent, Expect::Version(versions[0]), Expect::Version(versions[1]), Expect::Version(never)]
    {
        kit.refused(kit.commit().op(Op::PutRecord(expecting(expect, "3"))), ErrorKind::VersionConflict)
            .await?;
        let delete = Op::DeleteRecord { collection: name("c"), key: name("k"), owner: None, expect };
        kit.refused(kit.commit().op(delete), ErrorKind::VersionConflict).await?;
        kit.unchanged(&before, "a put under an expectation that does not hold").await?;
    }
    let missing = Put { expect: Expect::Version(versions[2]), ..put("c", "other", "1") };
    kit.refused(kit.commit().op(Op::PutRecord(missing)), ErrorKind::VersionConflict).await?;
    let next = kit.put(expecting(Expect::Version(versions[2]), "3")).await?;
    ensure!(!versions.contains(&next), "version {next:?} was given twice");

    // One commit may put a key twice; the second sees the first.
    let twice = kit
        .commit()
        .op(Op::PutRecord(Put { expect: Expect::Absent, ..put("c", "twice", "1") }))
        .op(Op::PutRecord(put("c", "twice", "2")));
    kit.apply(twice).await?;
    let record = kit.record("c", "twice").await?;
    ensure_eq!(
        record.map(|r| (r.version.count, r.payload)),
        Some((2, payload("2"))),
        "a record put twice in one commit"
    );
    Ok(())
}

async fn rek_002_a_record_made_again_matches_no_old_version(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    kit.put(put("c", "first", "0")).await?;
    let mut versions = Vec::new();
    for round in 0..5_u64 {
        let version = kit.put(expecting(Expect::Absent, &round.to_string())).await?;
        kit.put(put("c", &format!("after {round}"), "0")).await?;
        ensure!(!versions.contains(&version), "round {round} gave version {version:?} again");
        for old in &versions {
            let stale = kit.commit().op(Op::PutRecord(expecting(Expect::Version(*old), "9")));
            kit.refused(stale, ErrorKind::VersionConflict).await?;
        }
        versions.push(version);
        let keys: Vec<_> =
            kit.records(kit.collection("c")).await?.iter().map(|r| r.key.as_str().to_owned()).collect();
        ensure_eq!(
            keys.iter().position(|key| key == "k"),
            keys.len().checked_sub(2),
            "its place in the list of round {round}"
        );
        let delete = Op::DeleteRecord {
            collection: name("c"),
            key: name("k"),
            owner: None,
            expect: Expect::Version(version),
        };
        kit.apply(kit.commit().op(delete)).await?;
        ensure!(kit.record("c", "k").await?.is_none(), "the record is still there after its delete");
    }
    let ordinals: Vec<_> = kit.records(kit.collection("c")).await?.iter().map(|r| r.ordinal).collect();
    ensure_eq!(ordinals, [1, 3, 5, 7, 9, 11], "ordinals, of which none is given twice");
    let nothing =
        Op::DeleteRecord { collection: name("c"), key: name("k"), owner: None, expect: Expect::Any };
    kit.apply(kit.commit().op(nothing)).await?;

    // One commit may delete and make again.
    let old = kit.put(put("c", "k", "1")).await?;
    let swap = kit
        .commit()
        .op(Op::DeleteRecord {
            collection: name("c"),
            key: name("k"),
            owner: None,
            expect: Expect::Version(old),
        })
        .op(Op::PutRecord(expecting(Expect::Absent, "2")));
    kit.apply(swap).await?;
    let record = kit.record("c", "k").await?;
    ensure!(
        record.is_some_and(|record| record.version != old),
        "a record made again in one commit kept its version"
    );

    // The same by way of the owner, who takes the record along.
    let session = kit.create("s").await?;
    let owned =
        |session: &SessionRef, expect| Put { owner: Some(session.clone()), expect, ..put("c", "o", "1") };
    let old = kit.put(owned(&session, Expect::Absent)).await?;
    kit.delete(&session).await?;
    ensure!(kit.record("c", "o").await?.is_none(), "a record outlived its owner");
    let again = kit.create("s").await?;
    kit.refused(
        kit.commit().op(Op::PutRecord(owned(&again, Expect::Version(old)))),
        ErrorKind::VersionConflict,
    )
    .await?;
    let version = kit.put(owned(&again, Expect::Absent)).await?;
    ensure!(version != old, "the record of a recreated session has the version of its former life");

    // And in the very commit that takes it along, before anybody can have purged it.
    let before = kit.record("c", "o").await?;
    cx.pass_ms(25).await;
    let gone = Op::DeleteSession { session: again, force: false };
    let beside = kit.create("beside").await?;
    let put = Op::PutRecord(owned(&beside, Expect::Absent));
    kit.apply(kit.commit().op(gone).op(put)).await?;
    let seen = kit.record("c", "o").await?;
    let afresh = before.zip(seen).is_some_and(|(old, new)| {
        new.version.birth != old.version.birth && new.version.count == 1 && new.created_at > old.created_at
    });
    ensure!(afresh, "a record made again in the commit that deletes its owner is not a new one");
    Ok(())
}

async fn rek_003_an_expectation_and_an_append_stand_or_fall_together(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let mut guidance = put("guidance", "g", "\"look left\"");
    guidance.owner = Some(session.clone());
    guidance.status = Some(name("waiting"));
    let version = kit.put(guidance.clone()).await?;
    let consume = |version| {
        let consumed =
            Put { status: Some(name("consumed")), expect: Expect::Version(version), ..guidance.clone() };
        kit.appending(&session, vec![user("looked left")]).op(Op::PutRecord(consumed))
    };
    kit.apply(consume(version)).await?;
    let before = kit.snapshot().await?;
    kit.refused(consume(version), ErrorKind::VersionConflict).await?;
    let guard =
        Guard::Record { collection: name("guidance"), key: name("g"), expect: Expect::Version(version) };
    kit.refused(kit.appending(&session, vec![user("again")]).guard(guard), ErrorKind::VersionConflict)
        .await?;
    kit.unchanged(&before, "consuming twice").await?;
    let append = || Op::Append { session: session.clone(), entries: vec![user("again")] };
    let stale = |expect| Op::PutRecord(Put { expect, ..guidance.clone() });
    let gone = |expect| Op::DeleteRecord {
        collection: name("guidance"),
        key: name("g"),
        owner: Some(session.clone()),
        expect,
    };
    for expect in [Expect::Absent, Expect::Version(version)] {
        let refused = [
            ("a put before the append", kit.commit().op(stale(expect)).op(append())),
            ("a put between two appends", kit.commit().op(append()).op(stale(expect)).op(append())),
            ("a delete after the append", kit.commit().op(append()).op(gone(expect))),
            (
                "a put after another put",
                kit.commit().op(Op::PutRecord(put("c", "k", "1"))).op(append()).op(stale(expect)),
            ),
        ];
        for (what, commit) in refused {
            kit.refused(commit, ErrorKind::VersionConflict).await?;
            kit.unchanged(&before, what).await?;
        }
    }
    // The other way round: the record is as expected, the append is refused.
    let beside = kit
        .commit()
        .op(Op::PutRecord(put("guidance", "g", "1")))
        .op(Op::Append { session: kit.life("nobody"), entries: vec![user("lost")] });
    kit.refused(beside, ErrorKind::NotFound).await?;
    kit.unchanged(&before, "a put beside an append that is refused").await?;
    ensure_eq!(kit.texts(&session).await?, ["looked left"], "the history");
    let waiting = RecordQuery { status: Some(name("waiting")), ..kit.collection("guidance") };
    ensure_eq!(kit.records(waiting).await?.len(), 0, "guidance that waits");
    Ok(())
}

async fn claims(kit: &Kit, collection: &Collection, owner: OwnerFilter) -> Outcome<Vec<String>> {
    let query = RecordQuery { owner, ..RecordQuery::new(kit.workspace.clone(), collection.clone()) };
    Ok(kit.records(query).await?.into_iter().map(|record| record.payload.as_str().to_owned()).collect())
}

async fn rek_004_one_winner_among_many_claimants(cx: &Context) -> Outcome {
    const CLAIMANTS: usize = 8;
    let kits = cx.kits(CLAIMANTS).await?;
    let session = kits[0].create("s").await?;
    for round in 0..8 {
        let mut claimants = Vec::new();
        for (claimant, kit) in kits.iter().cloned().enumerate() {
            let mine = format!("\"claimant {claimant}\"");
            let claim = Put {
                owner: Some(session.clone()),
                expect: Expect::Absent,
                ..put("host-claims", &format!("call {round}"), &mine)
            };
            claimants.push(spawn(async move {
                let won = match kit.store.commit(kit.commit().op(Op::PutRecord(claim))).await {
                    Ok(_) => true,
                    Err(error) => {
                        ensure_refused!(Err::<(), _>(error), ErrorKind::VersionConflict, "a claim that lost");
                        false
                    }
                };
                let winner = kit.record("host-claims", &format!("call {round}")).await?;
                Ok((won, mine, winner.map(|record| record.payload.as_str().to_owned())))
            }));
        }
        let answers = gather(claimants).await?;
        let winners: Vec<_> =
            answers.iter().filter(|(won, ..)| *won).map(|(_, mine, _)| mine.clone()).collect();
        ensure_eq!(winners.len(), 1, "winners of round {round}");
        for (_, mine, seen) in &answers {
            ensure_eq!(seen.as_ref(), winners.first(), "the winner that {mine} reads");
        }
    }
    let owned = claims(&kits[0], &name("host-claims"), OwnerFilter::Session(session)).await?;
    ensure_eq!(owned.len(), 8, "claims of the session");
    ensure_eq!(
        claims(&kits[0], &name("host-claims"), OwnerFilter::Unowned).await?.len(),
        0,
        "claims of nobody"
    );

    let mut peers = Vec::new();
    if cx.manifest.capabilities.multi_process {
        for at in 0..2 {
            peers.push(cx.start_peer(&format!("process {at}"))?);
        }
    }
    let counters = (CLAIMANTS + peers.len()) as u64;
    let mut racers = Vec::new();
    for (claimant, kit) in kits.iter().cloned().enumerate() {
        racers.push(spawn(async move { count_and_claim(&kit, &format!("client {claimant}")).await }));
    }
    let mut won: u64 = gather(racers).await?.into_iter().sum();
    for peer in peers {
        won += peer.ended().await?.iter().filter_map(|line| line.parse::<u64>().ok()).sum::<u64>();
    }
    ensure_eq!(won, KEYS, "claims granted over all processes");
    let counted = kits[0].record("shared", "counter").await?.map(|record| record.payload.as_str().to_owned());
    ensure_eq!(counted, Some((counters * COUNTED).to_string()), "changes that {counters} counters made");
    Ok(())
}

/// Keys that all processes claim.
const KEYS: u64 = 20;
/// Changes that each of them counts.
const COUNTED: u64 = 15;

fn count_elsewhere<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let won = count_and_claim(&cx.kit().await?, role).await?;
        peer::tell(&won.to_string())
    })
}

/// Claims each key and counts in one record; gives how many keys it got.
async fn count_and_claim(kit: &Kit, claimant: &str) -> Outcome<u64> {
    let mine = serde_json::Value::from(claimant).to_string();
    let mut won = 0;
    for at in 0..KEYS {
        let key = format!("call {at}");
        let claim = Put { expect: Expect::Absent, ..put("shared", &key, &mine) };
        match kit.store.commit(kit.commit().op(Op::PutRecord(claim))).await {
            Ok(_) => won += 1,
            Err(error) => {
                ensure_refused!(Err::<(), _>(error), ErrorKind::VersionConflict, "a claim that came second");
                let winner = kit.record("shared", &key).await?;
                let other = winner.as_ref().is_some_and(|record| record.payload.as_str() != mine);
                ensure!(other, "the loser of {key} does not read the winner: {winner:?}");
            }
        }
        if at < COUNTED {
            count_up(kit).await?;
        }
    }
    Ok(won)
}

/// Adds one to the counter, however often another one was first.
async fn count_up(kit: &Kit) -> Outcome {
    for _ in 0..10_000 {
        let now = kit.record("shared", "counter").await?;
        let (count, expect) = match &now {
            Some(Record { payload, version, .. }) => {
                (payload.as_str().parse().unwrap_or(0_u64), Expect::Version(*version))
            }
            None => (0, Expect::Absent),
        };
        let next = Put { expect, ..put("shared", "counter", &(count + 1).to_string()) };
        match kit.store.commit(kit.commit().op(Op::PutRecord(next))).await {
            Ok(_) => return Ok(()),
            Err(error) => {
                ensure_refused!(Err::<(), _>(error), ErrorKind::VersionConflict, "a change that came second");
            }
        }
    }
    Err(Stop::fail("a change by version never succeeds while others change the record"))
}

/// Keys and ordinals of a session's bindings.
async fn bindings(kit: &Kit, owner: &SessionRef) -> Outcome<Vec<(String, u64)>> {
    let query = RecordQuery { owner: OwnerFilter::Session(owner.clone()), ..kit.collection("bindings") };
    let records = kit.records(query).await?;
    Ok(records.into_iter().map(|record| (record.key.as_str().to_owned(), record.ordinal)).collect())
}

async fn rek_005_a_record_moves_with_its_owner(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let (a, b) = (kit.create("a").await?, kit.create("b").await?);
    let give =
        |key: &str, owner: Option<&SessionRef>| Put { owner: owner.cloned(), ..put("bindings", key, "1") };
    for key in ["x", "y", "z", "x"] {
        kit.put(give(key, Some(&a))).await?;
    }
    kit.put(give("w", Some(&b))).await?;
    let list =
        |list: &[(&str, u64)]| list.iter().map(|(key, at)| ((*key).to_owned(), *at)).collect::<Vec<_>>();
    ensure_eq!(bindings(&kit, &a).await?, list(&[("x", 1), ("y", 2), ("z", 3)]), "the records of a");
    let (rev_a, rev_b) = (kit.row(&a).await?.revision, kit.row(&b).await?.revision);
    let (mark_a, mark_b) = (kit.mark(&a).await?, kit.mark(&b).await?);
    let version = kit.record("bindings", "x").await?.map(|record| record.version);
    kit.put(Put { expect: version.map_or(Expect::Absent, Expect::Version), ..give("x", Some(&b)) }).await?;
    ensure_eq!(bindings(&kit, &a).await?, list(&[("y", 2), ("z", 3)]), "the records of the former owner");
    ensure_eq!(bindings(&kit, &b).await?, list(&[("w", 1), ("x", 2)]), "the records of the new owner");
    ensure_eq!(kit.row(&a).await?.revision, rev_a + 1, "the revision of the former owner");
    ensure_eq!(kit.row(&b).await?.revision, rev_b + 1, "the revision of the new owner");
    ensure!(
        kit.mark(&a).await? != mark_a && kit.mark(&b).await? != mark_b,
        "a change of owner moved no mark"
    );
    kit.put(give("y", None)).await?;
    kit.delete(&a).await?;
    ensure_eq!(
        bindings(&kit, &b).await?,
        list(&[("w", 1), ("x", 2)]),
        "the records of b after a was deleted"
    );
    ensure!(kit.record("bindings", "z").await?.is_none(), "a record outlived its owner");
    let unowned = RecordQuery { owner: OwnerFilter::Unowned, ..kit.collection("bindings") };
    let unowned: Vec<_> = kit.records(unowned).await?.into_iter().map(|record| record.key).collect();
    ensure_eq!(unowned, [name("y")], "what nobody owns after a was deleted");
    kit.put(give("z", Some(&b))).await?;
    ensure_eq!(
        bindings(&kit, &b).await?,
        list(&[("w", 1), ("x", 2), ("z", 3)]),
        "a key of a deleted owner, used again"
    );

    let exclusive = |owner: Option<&SessionRef>| Put { owner: owner.cloned(), ..put("lineage", "l", "1") };
    kit.put(exclusive(Some(&b))).await?;
    let c = kit.create("c").await?;
    let before = kit.snapshot().await?;
    for owner in [Some(&c), None] {
        kit.refused(kit.commit().op(Op::PutRecord(exclusive(owner))), ErrorKind::Invalid).await?;
        let (collection, key, owner) = (name("lineage"), name("l"), owner.cloned());
        let delete = Op::DeleteRecord { collection, key, owner, expect: Expect::Any };
        kit.refused(kit.commit().op(delete), ErrorKind::VersionConflict).await?;
        kit.unchanged(&before, "taking an exclusive record from its owner").await?;
    }
    Ok(())
}
