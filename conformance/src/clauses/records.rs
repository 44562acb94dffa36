//! Records: versioned documents, changed by compare-and-swap.

use turnkeep_core::commit::{Op, Put};
use turnkeep_core::model::Version;
use turnkeep_core::query::{OwnerFilter, RecordQuery};
use turnkeep_core::{Collection, ErrorKind, Expect, Guard};

use crate::clause::Kind;
use crate::context::Context;
use crate::kit::{Kit, gather, name, payload, put, spawn, user};
use crate::verdict::Outcome;

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
        title: "Of many that claim one key, one wins, and the others read the winner's record.",
        kind: Kind::Stochastic,
        why: "A tool call with side effects must run once.",
        catches: "a backend that checks Absent before it writes",
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
        ensure_eq!(record.map(|r| (r.version, r.payload)), Some((version, payload(json))), "the record that was put");
    }
    let before = kit.snapshot().await?;
    let never = Version { birth: versions[0].birth.wrapping_add(1), count: versions[2].count };
    for expect in [Expect::Absent, Expect::Version(versions[0]), Expect::Version(versions[1]), Expect::Version(never)] {
        kit.refused(kit.commit().op(Op::PutRecord(expecting(expect, "3"))), ErrorKind::VersionConflict).await?;
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
    ensure_eq!(record.map(|r| (r.version.count, r.payload)), Some((2, payload("2"))), "a record put twice in one commit");
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
        let keys: Vec<_> = kit.records(kit.collection("c")).await?.iter().map(|r| r.key.as_str().to_owned()).collect();
        ensure_eq!(keys.iter().position(|key| key == "k"), Some(keys.len() - 2), "its place in the list of round {round}");
        let delete = Op::DeleteRecord { collection: name("c"), key: name("k"), owner: None, expect: Expect::Version(version) };
        kit.apply(kit.commit().op(delete)).await?;
        ensure!(kit.record("c", "k").await?.is_none(), "the record is still there after its delete");
    }
    let ordinals: Vec<_> = kit.records(kit.collection("c")).await?.iter().map(|r| r.ordinal).collect();
    ensure_eq!(ordinals, [1, 3, 5, 7, 9, 11], "ordinals, of which none is given twice");
    let nothing = Op::DeleteRecord { collection: name("c"), key: name("k"), owner: None, expect: Expect::Any };
    kit.apply(kit.commit().op(nothing)).await?;

    // One commit may delete and make again.
    let old = kit.put(put("c", "k", "1")).await?;
    let swap = kit
        .commit()
        .op(Op::DeleteRecord { collection: name("c"), key: name("k"), owner: None, expect: Expect::Version(old) })
        .op(Op::PutRecord(expecting(Expect::Absent, "2")));
    kit.apply(swap).await?;
    let record = kit.record("c", "k").await?;
    ensure!(record.is_some_and(|record| record.version != old), "a record made again in one commit kept its version");
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
        let consumed = Put { status: Some(name("consumed")), expect: Expect::Version(version), ..guidance.clone() };
        kit.appending(&session, vec![user("looked left")]).op(Op::PutRecord(consumed))
    };
    kit.apply(consume(version)).await?;
    let before = kit.snapshot().await?;
    kit.refused(consume(version), ErrorKind::VersionConflict).await?;
    let guard = Guard::Record { collection: name("guidance"), key: name("g"), expect: Expect::Version(version) };
    kit.refused(kit.appending(&session, vec![user("again")]).guard(guard), ErrorKind::VersionConflict).await?;
    kit.unchanged(&before, "consuming twice").await?;
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
        let winners: Vec<_> = answers.iter().filter(|(won, ..)| *won).map(|(_, mine, _)| mine.clone()).collect();
        ensure_eq!(winners.len(), 1, "winners of round {round}");
        for (_, mine, seen) in &answers {
            ensure_eq!(seen.as_ref(), winners.first(), "the winner that {mine} reads");
        }
    }
    let owned = claims(&kits[0], &name("host-claims"), OwnerFilter::Session(session)).await?;
    ensure_eq!(owned.len(), 8, "claims of the session");
    ensure_eq!(claims(&kits[0], &name("host-claims"), OwnerFilter::Unowned).await?.len(), 0, "claims of nobody");
    Ok(())
}
