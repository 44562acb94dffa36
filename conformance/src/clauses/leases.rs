//! Leases: one holder at a time, and a former one can no longer write.

mod dead;
mod exclusive;

use turnkeep_core::commit::{Commit, Fence, LeaseGrant, Op, Takeover};
use turnkeep_core::model::{LeaseName, LeasePurpose, LeaseState, Liveness};
use turnkeep_core::query::Mark;
use turnkeep_core::{Error, ErrorKind, LeaseToken, OwnerId, SessionRef, Timestamp, digest};

use crate::clause::{Kind, Need};
use crate::context::Context;
use crate::kit::{Kit, gather, name, put, spawn, user};
use crate::verdict::{Outcome, Stop};
use dead::lea_007_a_dead_owner_is_known_at_once;
use exclusive::{fenced_work, lea_004_exclusive_work_needs_the_lease_and_shared_work_does_not};

clauses! { ($) leases_tests;
    "LEA-001" lea_001_one_holder_at_a_time {
        title: "A lease has one holder at a time; everybody else is answered LeaseHeld with the purpose and the remaining time, and nothing ever shows the token.",
        kind: Kind::Stochastic,
        why: "Whoever cannot get in must know why and for how long, without learning how to get in.",
        catches: "a backend that looks at a lease outside the transaction that takes it, or gives rows with the token back",
    }
    "LEA-002" lea_002_a_lease_changes_hands_by_the_rules_only {
        title: "A held lease changes hands only after its expiry or release, by proven death of its owner, or by force; each new holder has the next epoch, also after reopening.",
        why: "An epoch that is given twice lets a former holder pass for the new one.",
        catches: "a backend that takes over whenever asked, forgets the epoch with the release, or counts it in memory",
    }
    "LEA-003" lea_003_a_late_write_by_the_former_holder_is_refused {
        title: "A write fenced by a lease that was released, taken over, or whose session was deleted and made again answers LeaseLost and changes nothing; expiry alone refuses nobody.",
        why: "A process that was stopped for a minute goes on as if it still held the session.",
        links: &["langchain-ai/langgraph#8796"],
        catches: "a backend that checks the expiry of a fence instead of owner, token and epoch",
    }
    "LEA-004" lea_004_exclusive_work_needs_the_lease_and_shared_work_does_not {
        title: "While a session is held, exclusive work without the fence answers LeaseHeld and shared work passes; over an expired lease exclusive work leaves a tombstone with the next epoch, but answers ActiveRun while a run is active.",
        why: "People write to running sessions; nobody else may change the conversation.",
        catches: "a backend that forgets the lease in one of its operations, or asks for it in all of them",
    }
    "LEA-005" lea_005_several_leases_are_taken_all_or_none {
        title: "A commit that takes or fences several leases gets all of them or none, in whatever order they are named.",
        kind: Kind::Stochastic,
        why: "Two holders of one half each wait for each other for ever.",
        catches: "a backend that takes leases one after the other",
    }
    "LEA-006" lea_006_renewing_tells_a_holder_that_it_lost {
        title: "Renewing moves the expiry of a lease that is still held, never to an earlier time and without touching its session; a lost one answers LeaseLost.",
        why: "The renewal is how a holder learns that it must stop.",
        catches: "a backend whose renewal takes the lease back, or moves the revision of the session",
    }
    "LEA-007" lea_007_a_dead_owner_is_known_at_once {
        title: "Where the store can tell, the lease of an owner that went away is taken over at once, and exclusive work needs no wait.",
        needs: &[Need::OwnerLiveness],
        why: "After a crash a person continues their session now, not when a timeout ends.",
        catches: "a backend that waits for the expiry of a dead owner",
    }
}

/// A value that an error names.
fn named(error: &Error, what: &str) -> Option<String> {
    error.context().find(|(name, _)| *name == what).map(|(_, value)| value.to_owned())
}

fn taking(kit: &Kit, grant: LeaseGrant) -> Commit {
    kit.commit().op(Op::AcquireLease(grant))
}

/// The fence that a grant gives in an epoch.
fn fence(grant: &LeaseGrant, epoch: u64) -> Fence {
    Fence { name: grant.name.clone(), owner: grant.owner, token: grant.token, epoch }
}

async fn epoch_of(kit: &Kit, lease: &LeaseName) -> Outcome<u64> {
    let view = kit.lease_named(lease.clone()).await?;
    view.map(|view| view.epoch).ok_or_else(|| Stop::fail("the lease is not there"))
}

/// Whether a text gives a secret away, as digits of any kind.
fn silent(secret: &[u8; 16], text: &str, what: &str) -> Outcome {
    let hex = OwnerId::from_bytes(*secret).to_string();
    let digest = digest::to_hex(&LeaseToken::from_bytes(*secret).digest());
    let shown = [hex.clone(), hex.to_uppercase(), format!("{secret:?}"), digest];
    ensure!(!shown.iter().any(|shown| text.contains(shown)), "{what} shows the token of a lease");
    Ok(())
}

async fn lea_001_one_holder_at_a_time(cx: &Context) -> Outcome {
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    // Long enough for the slowest machine: here nothing expires.
    let ttl = 600_000;
    let secret = cx.drawer().next();
    let token = LeaseToken::from_bytes(secret);
    for lease in [LeaseName::Session(session.clone()), LeaseName::Named(name("channel/1"))] {
        for purpose in LeasePurpose::ALL {
            let grant =
                LeaseGrant { name: lease.clone(), purpose, token, ..kit.session_grant(&session, ttl) };
            let held = kit.acquire_as(grant.clone()).await?;
            let wanted = LeaseGrant { name: lease.clone(), ..other.session_grant(&session, ttl) };
            let own_other_token = LeaseGrant { token: kit.token(), ..grant.clone() };
            for (client, grant) in [(&other, wanted), (&kit, own_other_token)] {
                let error = client.refused(taking(client, grant), ErrorKind::LeaseHeld).await?;
                ensure_eq!(
                    named(&error, "purpose").as_deref(),
                    Some(purpose.as_str()),
                    "the purpose that {error} names"
                );
                let remaining = named(&error, "remaining_ms").and_then(|ms| ms.parse::<u64>().ok());
                let Some(remaining) = remaining else {
                    return Err(Stop::fail(format!("no remaining time in: {error}")));
                };
                ensure!(remaining <= ttl, "{remaining} ms remain of {} ms", ttl);
                if cx.clock().is_some() {
                    ensure_eq!(remaining, ttl, "what remains while the clock stands still");
                }
                silent(&secret, &format!("{error} {error:?}"), "a refusal")?;
                ensure!(error.is_retryable(), "somebody else's lease is worth waiting for");
            }
            let view = other.lease_named(lease.clone()).await?;
            let Some(view) = view else { return Err(Stop::fail("a held lease is not there")) };
            ensure_eq!(
                (view.state, view.owner, view.purpose),
                (LeaseState::Held, grant.owner, purpose),
                "the lease as others see it"
            );
            ensure_eq!(view.expires_at.since_ms(view.acquired_at) as u64, ttl, "how long the lease lasts");
            let rows = kit.rows(kit.rows_of(&session)).await?;
            silent(&secret, &format!("{view:?} {rows:?} {:?}", kit.find("s").await?), "a read")?;
            ensure!(view.liveness != Liveness::Dead, "a living owner reads as dead");
            kit.release(&held).await?;
            kit.release(&held).await?;
            let view = other.lease_named(lease.clone()).await?;
            ensure_eq!(
                view.map(|view| view.state),
                Some(LeaseState::Released),
                "the lease after its release"
            );
        }
    }
    ensure!(
        kit.lease_named(LeaseName::Named(name("never"))).await?.is_none(),
        "a lease that nobody took is there"
    );
    let nobody = LeaseName::Session(kit.life("nobody"));
    kit.refused(
        taking(&kit, LeaseGrant { name: nobody, ..kit.session_grant(&session, 1_000) }),
        ErrorKind::NotFound,
    )
    .await?;

    for round in 0..10 {
        let lease = LeaseName::Named(name(&format!("race {round}")));
        let mut racers = Vec::new();
        for racer in cx.kits(4).await? {
            let grant = LeaseGrant { name: lease.clone(), ..racer.session_grant(&session, 600_000) };
            let commit = taking(&racer, grant.clone());
            racers.push(spawn(async move {
                match racer.store.commit(commit).await {
                    Ok(_) => Ok(Some(grant.owner)),
                    Err(error) => {
                        ensure_refused!(
                            Err::<(), _>(error),
                            ErrorKind::LeaseHeld,
                            "a client that came second"
                        );
                        Ok(None)
                    }
                }
            }));
        }
        let won: Vec<_> = gather(racers).await?.into_iter().flatten().collect();
        let holder = kit.lease_named(lease.clone()).await?.map(|view| view.owner);
        ensure_eq!(won, holder.into_iter().collect::<Vec<_>>(), "who was granted the lease of round {round}");
        ensure_eq!(epoch_of(&kit, &lease).await?, 1, "the epoch of round {round}");
    }
    Ok(())
}

async fn lea_002_a_lease_changes_hands_by_the_rules_only(cx: &Context) -> Outcome {
    let ttl = cx.lease_ms();
    let (mut kit, other) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    let lease = LeaseName::Session(session.clone());
    let wanted = |client: &Kit, takeover| LeaseGrant { takeover, ..client.session_grant(&session, ttl) };
    let mut epoch = 0;

    let first = wanted(&kit, Takeover::IfExpired);
    let held = kit.acquire_as(first.clone()).await?;
    ensure_eq!(held.epoch, epoch + 1, "the first epoch");
    epoch += 1;
    for takeover in [Takeover::IfExpired, Takeover::IfOwnerDead] {
        other.refused(taking(&other, wanted(&other, takeover)), ErrorKind::LeaseHeld).await?;
    }
    ensure_eq!(kit.acquire_as(first).await?.epoch, epoch, "the epoch after taking again what one holds");
    ensure_eq!(epoch_of(&kit, &lease).await?, epoch, "the epoch after takeovers that were refused");

    cx.expire(ttl).await;
    let liveness = other.lease(&session).await?.map(|view| (view.expired, view.liveness));
    let knows = cx.manifest.capabilities.owner_liveness;
    ensure_eq!(
        liveness,
        Some((true, if knows { Liveness::Alive } else { Liveness::Unknown })),
        "an expired lease of a living owner"
    );
    let if_dead = taking(&other, wanted(&other, Takeover::IfOwnerDead));
    if knows {
        other.refused(if_dead, ErrorKind::LeaseHeld).await?;
        epoch += 1;
        ensure_eq!(
            other.acquire_as(wanted(&other, Takeover::IfExpired)).await?.epoch,
            epoch,
            "the epoch after expiry"
        );
    } else {
        epoch += 1;
        other.apply(if_dead).await?;
        ensure_eq!(epoch_of(&other, &lease).await?, epoch, "the epoch after expiry");
    }
    epoch += 1;
    let forced = kit.acquire_as(wanted(&kit, Takeover::Force)).await?;
    ensure_eq!(forced.epoch, epoch, "the epoch after a takeover by force");
    kit.release(&forced).await?;
    epoch += 1;
    let again = other.acquire_as(wanted(&other, Takeover::IfExpired)).await?;
    ensure_eq!(again.epoch, epoch, "the epoch after a release");
    other.release(&again).await?;
    if cx.manifest.capabilities.persistent {
        other.store.close().await?;
        kit = cx.reopen(kit).await?;
        ensure_eq!(epoch_of(&kit, &lease).await?, epoch, "the epoch after reopening");
    }
    epoch += 1;
    let mine = kit.acquire_as(wanted(&kit, Takeover::IfExpired)).await?;
    ensure_eq!(mine.epoch, epoch, "the next epoch after reopening");
    kit.release(&mine).await?;
    if !knows {
        return Ok(());
    }
    // An owner whose handle was closed, and one whose handle was only dropped.
    for close in [true, false] {
        let doomed = cx.kit().await?;
        epoch += 1;
        ensure_eq!(
            doomed.acquire_as(wanted(&doomed, Takeover::IfExpired)).await?.epoch,
            epoch,
            "the epoch of an owner that dies"
        );
        if close {
            doomed.store.close().await?;
        }
        drop(doomed);
        kit.until_dead(&session).await?;
        kit.refused(taking(&kit, wanted(&kit, Takeover::IfExpired)), ErrorKind::LeaseHeld).await?;
        epoch += 1;
        let heir = kit.acquire_as(wanted(&kit, Takeover::IfOwnerDead)).await?;
        ensure_eq!(heir.epoch, epoch, "the epoch after the owner's death");
        kit.release(&heir).await?;
    }
    Ok(())
}

async fn lea_003_a_late_write_by_the_former_holder_is_refused(cx: &Context) -> Outcome {
    let ttl = cx.lease_ms();
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    let write =
        |session: &SessionRef, fence: &Fence| kit.appending(session, vec![user("late")]).fence(fence.clone());

    let held = kit.acquire(&session, ttl).await?;
    for wrong in [
        Fence { token: kit.token(), ..held.clone() },
        Fence { owner: other.store.info().owner, ..held.clone() },
        Fence { epoch: held.epoch + 1, ..held.clone() },
        Fence { epoch: held.epoch - 1, ..held.clone() },
        Fence { name: LeaseName::Named(name("s")), ..held.clone() },
    ] {
        let before = kit.snapshot().await?;
        kit.refused(write(&session, &wrong), ErrorKind::LeaseLost).await?;
        kit.unchanged(&before, "a fence of somebody else").await?;
    }
    // Late, but nobody took over.
    cx.expire(ttl).await;
    kit.apply(write(&session, &held)).await?;

    let lost = |what: &'static str, fence: Fence, session: SessionRef| {
        let kit = kit.clone();
        async move {
            let before = kit.snapshot().await?;
            for commit in fenced_work(&kit, &session) {
                kit.refused(commit.fence(fence.clone()), ErrorKind::LeaseLost).await?;
                kit.unchanged(&before, what).await?;
            }
            Ok::<(), Stop>(())
        }
    };
    other.acquire(&session, ttl).await?;
    lost("a write after a takeover by expiry", held, session.clone()).await?;
    let forced = LeaseGrant { takeover: Takeover::Force, ..kit.session_grant(&session, ttl) };
    let held = kit.acquire_as(forced.clone()).await?;
    // The same owner with the same token, after a release: only the epoch tells the two holdings apart.
    kit.release(&held).await?;
    lost("a write after a release", held.clone(), session.clone()).await?;
    let again = kit.acquire_as(LeaseGrant { takeover: Takeover::IfExpired, ..forced.clone() }).await?;
    lost("a write with the epoch before", held, session.clone()).await?;
    kit.apply(write(&session, &again)).await?;
    kit.apply(
        kit.commit().fence(again.clone()).op(Op::DeleteSession { session: session.clone(), force: false }),
    )
    .await?;
    lost("a write to a deleted session", again.clone(), session.clone()).await?;
    let reborn = kit.create("s").await?;
    lost("a write to a former life", again.clone(), session).await?;
    let same_grant = LeaseGrant { name: LeaseName::Session(reborn.clone()), ..forced };
    kit.acquire_as(same_grant).await?;
    lost("a write with the fence of a former life", again, reborn).await
}

async fn lea_005_several_leases_are_taken_all_or_none(cx: &Context) -> Outcome {
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    let names = || ["a", "b", "c"].map(|id| LeaseName::Named(name(id)));
    let all = |client: &Kit, order: [usize; 3]| -> (Commit, Vec<LeaseGrant>) {
        let names = names();
        let grants: Vec<_> = order
            .into_iter()
            .filter_map(|at| names.get(at).cloned())
            .map(|name| LeaseGrant { name, ..client.session_grant(&session, 600_000) })
            .collect();
        (
            grants.iter().cloned().fold(client.commit(), |commit, grant| commit.op(Op::AcquireLease(grant))),
            grants,
        )
    };
    for taken in names() {
        let grant = LeaseGrant { name: taken.clone(), ..kit.session_grant(&session, 600_000) };
        let held = kit.acquire_as(grant).await?;
        let epochs = epochs(&kit).await?;
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            other.refused(all(&other, order).0, ErrorKind::LeaseHeld).await?;
        }
        ensure_eq!(self::epochs(&kit).await?, epochs, "owners and epochs after a set that was refused");
        kit.release(&held).await?;
    }
    let (commit, grants) = all(&kit, [0, 1, 2]);
    kit.apply(commit).await?;
    let mut fences = Vec::new();
    for grant in &grants {
        fences.push(fence(grant, epoch_of(&kit, &grant.name).await?));
    }
    let write = |fences: &[Fence]| {
        fences.iter().cloned().fold(kit.appending(&session, vec![user("x")]), Commit::fence)
    };
    kit.apply(write(&fences)).await?;
    for lost in 0..3 {
        let mut wrong = fences.clone();
        if let Some(fence) = wrong.get_mut(lost) {
            fence.epoch += 1;
        }
        let before = kit.snapshot().await?;
        kit.refused(write(&wrong), ErrorKind::LeaseLost).await?;
        kit.unchanged(&before, &format!("a commit whose fence {lost} is lost")).await?;
    }
    for fence in &fences {
        kit.release(fence).await?;
    }

    let mut racers = Vec::new();
    for (at, racer) in cx.kits(4).await?.into_iter().enumerate() {
        let order = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]][at % 4];
        let session = session.clone();
        racers.push(spawn(async move {
            let mut won = 0;
            for _ in 0..40 {
                let names = ["a", "b", "c"].map(|id| LeaseName::Named(name(id)));
                let grants = order.map(|at| LeaseGrant {
                    name: names[at].clone(),
                    ..racer.session_grant(&session, 600_000)
                });
                let commit = grants
                    .iter()
                    .cloned()
                    .fold(racer.commit(), |commit, grant| commit.op(Op::AcquireLease(grant)));
                match racer.store.commit(commit).await {
                    Ok(_) => {
                        won += 1;
                        let mut release = racer.commit();
                        for grant in &grants {
                            let view = racer.lease_named(grant.name.clone()).await?;
                            let Some(view) = view else {
                                return Err(Stop::fail("a taken lease is not there"));
                            };
                            ensure_eq!(
                                view.owner,
                                grant.owner,
                                "the holder of one lease of a set that was taken whole"
                            );
                            release = release.op(Op::ReleaseLease { fence: fence(grant, view.epoch) });
                        }
                        racer.apply(release).await?;
                    }
                    Err(error) => {
                        ensure_refused!(
                            Err::<(), _>(error),
                            ErrorKind::LeaseHeld,
                            "a set that somebody else holds"
                        );
                        tokio::task::yield_now().await;
                    }
                }
            }
            Ok(won)
        }));
    }
    let won: u32 = gather(racers).await?.into_iter().sum();
    ensure!(won > 0, "nobody ever got the whole set");
    Ok(())
}

/// Owners and epochs of the leases a, b and c.
async fn epochs(kit: &Kit) -> Outcome<Vec<Option<(u64, LeaseState)>>> {
    let mut epochs = Vec::new();
    for id in ["a", "b", "c"] {
        let view = kit.lease_named(LeaseName::Named(name(id))).await?;
        epochs.push(view.map(|view| (view.epoch, view.state)));
    }
    Ok(epochs)
}

async fn lea_006_renewing_tells_a_holder_that_it_lost(cx: &Context) -> Outcome {
    let ttl = cx.lease_ms();
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    let renewing = |fence: &Fence, ttl_ms| kit.commit().op(Op::RenewLease { fence: fence.clone(), ttl_ms });
    let held = kit.acquire(&session, ttl).await?;
    let (row, mark): (_, Mark) = (kit.row(&session).await?, kit.mark(&session).await?);
    let first = expiry(&kit, &session).await?;
    kit.apply(renewing(&held, 1)).await?;
    ensure_eq!(expiry(&kit, &session).await?, first, "the expiry after a renewal for a shorter time");
    kit.apply(renewing(&held, ttl * 4)).await?;
    let later = expiry(&kit, &session).await?;
    ensure!(
        later.since_ms(first) >= i64::try_from(ttl * 3).unwrap_or(0),
        "the renewal moved the expiry from {first:?} to {later:?} only"
    );
    ensure_eq!(kit.row(&session).await?, row, "the session after renewals");
    ensure_eq!(kit.mark(&session).await?, mark, "the mark after renewals");
    cx.expire(ttl).await;
    let wanted = || taking(&other, other.session_grant(&session, ttl));
    other.refused(wanted(), ErrorKind::LeaseHeld).await?;

    // Expired and not taken over: the holder may go on.
    cx.pass_ms(ttl * 4).await;
    kit.apply(renewing(&held, ttl)).await?;
    other.refused(wanted(), ErrorKind::LeaseHeld).await?;
    cx.expire(ttl).await;
    other.apply(wanted()).await?;
    let theirs = other.lease(&session).await?;
    let before = kit.snapshot().await?;
    kit.refused(renewing(&held, ttl), ErrorKind::LeaseLost).await?;
    let beside = renewing(&held, ttl).op(Op::PutRecord(put("c", "k", "1")));
    kit.refused(beside, ErrorKind::LeaseLost).await?;
    kit.refused(kit.commit().op(Op::ReleaseLease { fence: held.clone() }), ErrorKind::LeaseLost).await?;
    kit.unchanged(&before, "renewing a lost lease").await?;
    ensure_eq!(other.lease(&session).await?, theirs, "the lease of the new holder");

    let forced = LeaseGrant { takeover: Takeover::Force, ..kit.session_grant(&session, ttl) };
    let held = kit.acquire_as(forced).await?;
    kit.release(&held).await?;
    kit.refused(renewing(&held, ttl), ErrorKind::LeaseLost).await?;
    for wrong in [0, 86_400_001] {
        kit.refused(renewing(&held, wrong), ErrorKind::Invalid).await?;
    }
    let held = kit.acquire(&session, ttl).await?;
    kit.apply(
        kit.commit().fence(held.clone()).op(Op::DeleteSession { session: session.clone(), force: false }),
    )
    .await?;
    kit.refused(renewing(&held, ttl), ErrorKind::LeaseLost).await?;
    kit.create("s").await?;
    kit.refused(renewing(&held, ttl), ErrorKind::LeaseLost).await?;
    Ok(())
}

async fn expiry(kit: &Kit, session: &SessionRef) -> Outcome<Timestamp> {
    let view = kit.lease(session).await?;
    view.map(|view| view.expires_at).ok_or_else(|| Stop::fail("a held lease is not there"))
}
