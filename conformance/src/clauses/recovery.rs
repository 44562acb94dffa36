//! Recovery: what a client that went away leaves behind is no obstacle.

mod cycles;
mod reopen;
mod runs;

use std::time::Duration;

use turnkeep_core::commit::{LeaseGrant, Op, Takeover};
use turnkeep_core::model::{LeasePurpose, Liveness, RunState};
use turnkeep_core::{Durability, ErrorKind, SessionKey};

use crate::clause::{Kind, Need};
use crate::context::Context;
use crate::harness::Damage;
use crate::kit::{Kit, name, run, user};
use crate::verdict::{Outcome, Stop};
use cycles::rec_004_contents_are_exact_after_many_kills;
use reopen::rec_001_a_store_opens_after_a_kill_at_any_point;
use runs::{rec_002_the_verdict_of_a_run_is_the_same_each_time, rec_003_recovery_that_is_killed_converges};

/// How long a clause may take that kills many processes.
const PATIENT: Duration = Duration::from_secs(300);

clauses! { ($) recovery_tests;
    "REC-001" rec_001_a_store_opens_after_a_kill_at_any_point {
        title: "Killed at any point, from the first moment of a fresh store to its close, a store opens again without help, has what was acknowledged, each commit whole, and takes the next words at once.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: PATIENT,
        why: "A person whose program was killed has no other tool than to start it again.",
        catches: "a backend that needs a repair, or makes its files in steps that a kill can separate",
        peer: Some(reopen::live),
    }
    "REC-002" rec_002_the_verdict_of_a_run_is_the_same_each_time {
        title: "A run that was killed in flight reads the same at every reopening, running or completed as the books allow; closed once as interrupted it stays so, and one that was completed stays completed.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: PATIENT,
        why: "A run that is found failed today and finished tomorrow is executed twice.",
        catches: "a backend that makes a run's state durable apart from its entries",
        peer: Some(runs::turns),
    }
    "REC-003" rec_003_recovery_that_is_killed_converges {
        title: "Recovery that is killed itself, however often, ends where an undisturbed one ends: every run that was left is interrupted once, its turn ended once, its lease free.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: PATIENT,
        why: "A machine that dies once often dies again while it comes back.",
        catches: "a backend that splits a recovery's commit, or knows a dead owner only in the process that saw it",
        peer: Some(runs::many),
    }
    "REC-004" rec_004_contents_are_exact_after_many_kills {
        title: "After many cycles of kill and reopening a store has exactly the acknowledged commits, in order, and of each one in flight all or nothing, as its request tells.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: PATIENT,
        why: "An error that one kill makes seldom, many make surely.",
        catches: "a backend that loses, repeats or mixes up what it replays when it opens",
        peer: Some(cycles::go_on),
    }
    "REC-005" rec_005_an_append_works_right_after_reopening {
        title: "Right after reopening, without waiting and without a manual step, the next append works and continues the numbers.",
        needs: &[Need::Persistent],
        why: "A store that needs repair before it takes a word loses that word.",
        catches: "a backend that comes back read-only, or counts anew",
    }
    "REC-006" rec_006_a_dead_owners_lease_ends {
        title: "A lease whose owner went away without releasing it can be taken once it expired, and at once where dead owners are known; a living owner's is kept.",
        why: "A lock that outlives its owner locks a person out of their own session.",
        links: &["aaif-goose/goose#7624"],
        catches: "a backend whose lease ends only by release",
    }
    "REC-007" rec_007_damage_is_reported_and_never_read_as_empty {
        title: "A truncated or bit-flipped store answers Corrupt where the damage is met; it never reads as empty and never as different words.",
        needs: &[Need::Persistent],
        why: "A parse failure that becomes an empty history is then overwritten with a new one.",
        links: &["trusty-tools#6196"],
        catches: "a backend that recreates what it cannot read",
    }
}

async fn rec_005_an_append_works_right_after_reopening(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, vec![user("one"), user("two")]).await?;
    let fence = kit.acquire(&session, 60_000).await?;
    kit.apply(kit.commit().fence(fence).op(Op::StartRun { session: session.clone(), run: run("r") })).await?;
    // Dropped, not closed: as a process that ends without saying so.
    drop(kit);
    let kit = cx.kit().await?;
    let mut other = kit.create("other").await?;
    ensure_eq!(kit.say(&other, "at once").await?.get(), 1, "the first number of a new session");
    ensure_eq!(kit.texts(&session).await?, ["one", "two"], "the history after reopening");
    ensure_eq!(
        kit.find_run(&session, "r").await?.map(|run| run.state),
        Some(RunState::Running),
        "the run that was left"
    );
    let mut kit = cx.reopen(kit).await?;
    for round in 2..6_u32 {
        ensure_eq!(kit.say(&other, "again").await?.get(), round, "the number in round {round}");
        drop(kit);
        kit = cx.kit().await?;
        other = kit.row(&other).await?.session_ref();
    }
    Ok(())
}

async fn try_take(kit: &Kit, grant: LeaseGrant) -> turnkeep_core::Result<turnkeep_core::Receipt> {
    kit.store.commit(kit.commit().op(Op::AcquireLease(grant))).await
}

async fn rec_006_a_dead_owners_lease_ends(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let known = cx.manifest.capabilities.owner_liveness;
    let ttl = cx.lease_ms();
    let take = |takeover| LeaseGrant { takeover, ..kit.session_grant(&session, ttl) };

    let holder = cx.kit().await?;
    holder.acquire(&session, ttl).await?;
    for takeover in [Takeover::IfExpired, Takeover::IfOwnerDead] {
        let taken = try_take(&kit, take(takeover)).await;
        ensure_refused!(
            taken,
            ErrorKind::LeaseHeld,
            "{takeover:?} while the owner lives and nothing expired"
        );
    }
    if known {
        cx.pass_ms(ttl + 1).await;
        ensure_eq!(
            kit.lease(&session).await?.map(|l| (l.expired, l.liveness)),
            Some((true, Liveness::Alive)),
            "the lease of a living owner after its time"
        );
        let taken = try_take(&kit, take(Takeover::IfOwnerDead)).await;
        ensure_refused!(taken, ErrorKind::LeaseHeld, "IfOwnerDead while the owner lives, though expired");
    }
    drop(holder);
    if known {
        kit.until_dead(&session).await?;
    } else {
        let taken = try_take(&kit, take(Takeover::IfExpired)).await;
        ensure_refused!(taken, ErrorKind::LeaseHeld, "a lease that has not expired, its owner unknown");
        cx.pass_ms(ttl + 1).await;
    }
    let mut grant = take(Takeover::IfOwnerDead);
    grant.purpose = LeasePurpose::Recovery;
    let fence = kit.acquire_as(grant).await?;
    ensure_eq!(fence.epoch, 2, "the epoch after the takeover");
    kit.apply(kit.appending(&session, vec![user("taken over")]).fence(fence)).await?;

    let lost = cx.kit().await?;
    let other = lost.create("expired").await?;
    lost.acquire(&other, ttl).await?;
    cx.leave(lost).await?;
    cx.pass_ms(ttl + 1).await;
    kit.acquire(&other, ttl).await?;
    Ok(())
}

/// How a damaged store may answer: with what it had, or with `Corrupt`. Anything else is a lie.
fn honest<T>(answer: turnkeep_core::Result<T>, what: &str) -> Outcome<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            ensure_refused!(Err::<(), _>(error), ErrorKind::Corrupt, "{what} of a damaged store");
            Ok(None)
        }
    }
}

async fn rec_007_damage_is_reported_and_never_read_as_empty(cx: &Context) -> Outcome {
    for damage in [Damage::Truncate, Damage::FlipBits] {
        let site = cx.harness.provision().await.map_err(|error| Stop::error(format!("no site: {error}")))?;
        let outcome = damaged(cx, &site, damage).await;
        cx.close_all().await;
        let removed = cx.harness.destroy(&site).await;
        outcome?;
        removed.map_err(|error| Stop::error(format!("the site could not be removed: {error}")))?;
    }
    Ok(())
}

async fn damaged(cx: &Context, site: &crate::Site, damage: Damage) -> Outcome {
    const ENTRIES: usize = 400;
    let kit = Kit::new(cx.try_open_at(site).await?, cx);
    let session = kit.create("s").await?;
    let filler = "words that fill pages ".repeat(40);
    let texts: Vec<String> = (0..ENTRIES).map(|at| format!("entry {at} {filler}")).collect();
    kit.append(&session, texts.iter().map(|text| user(text)).collect()).await?;
    kit.store.close().await?;
    drop(kit);
    let done = cx.harness.damage(site, damage).await;
    if !done.map_err(|error| Stop::error(format!("{damage:?} could not be done: {error}")))? {
        return Err(Stop::not_run(format!("the harness offers no {damage:?}")));
    }
    let Some(store) = honest(cx.try_open_at(site).await, "opening")? else { return Ok(()) };
    let kit = Kit::new(store, cx);
    let key = SessionKey { workspace: kit.workspace.clone(), id: name("s") };
    let mut reported = false;
    match honest(kit.store.session(&key).await, "reading the session")? {
        Some(row) => ensure!(row.is_some(), "after {damage:?} the session reads as absent, not as damaged"),
        None => reported = true,
    }
    let mut query = kit.every_entry(&session);
    query.limit = 50;
    let mut read = 0;
    for _page in 0..ENTRIES {
        let Some(page) = honest(kit.store.entries(&query).await, "reading entries")? else {
            reported = true;
            break;
        };
        for entry in &page.items {
            ensure_eq!(entry.text.as_ref(), texts.get(read), "after {damage:?}, the words at place {read}");
            read += 1;
        }
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    ensure!(
        reported || read == ENTRIES,
        "after {damage:?} only {read} of {ENTRIES} entries are read, as if all was well"
    );
    ensure!(
        reported,
        "the harness did {damage:?} but all {ENTRIES} entries are intact: damage something that is read"
    );
    Ok(())
}
