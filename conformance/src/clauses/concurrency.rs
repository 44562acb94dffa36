//! Concurrency: many writers, none lost, one winner, nobody turned away for being second.

mod crowd;
mod stopped;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use turnkeep_core::commit::Op;
use turnkeep_core::model::LeaseName;
use turnkeep_core::{Durability, EntryNo, ErrorKind, Expect, Guard, SessionRef};

use crate::clause::{Kind, Need, Running};
use crate::context::Context;
use crate::kit::{Kit, gather, keyed, name, no, put, spawn, user};
use crate::peer;
use crate::tape::history::{Asked, History, Read};
use crate::verdict::{Outcome, Stop};
use crowd::{con_011_many_processes_append_without_one_error, con_012_many_processes_open_one_fresh_store};
use stopped::con_004_a_stopped_owner_is_refused_once_it_was_taken_over_from;

clauses! { ($) concurrency_tests;
    "CON-001" con_001_no_append_is_lost_or_doubled_case_28 {
        title: "Of many appends through many handles at once, none is lost, none is doubled, and none is refused for being busy.",
        kind: Kind::Stochastic,
        why: "Several windows and sub-agents write to one store, and 'database is locked' loses their words.",
        links: &["Hmbown/CodeWhale#4734", "charmbracelet/crush#2129"],
        catches: "a backend that reads the head and writes the next number in two steps",
        cases: &["case-28"],
    }
    "CON-002" con_002_the_history_is_one_order_that_fits_real_time {
        title: "There is one order of all commits of a session: a commit acknowledged before another began comes first, every read is a prefix, what was acknowledged is there.",
        kind: Kind::Stochastic,
        why: "Causes must come before their effects, whoever wrote them.",
        catches: "a backend that acknowledges before it has ordered",
    }
    "CON-003" con_003_one_of_many_conditional_commits_wins {
        title: "Of many commits at once under the same guard or record expectation, exactly one wins, and the others are told so.",
        kind: Kind::Stochastic,
        why: "Compare-and-swap with two winners is no compare-and-swap.",
        catches: "a backend that evaluates guards outside the transaction",
    }
    "CON-004" con_004_a_stopped_owner_is_refused_once_it_was_taken_over_from {
        title: "An owner that was stopped and taken over from is refused once it goes on, wherever it stood, and one that was not taken over from goes on as if nothing had happened; meanwhile nobody hangs: others go on, or are answered Busy and nothing of theirs is written.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: Duration::from_secs(300),
        why: "A laptop that wakes up goes on with the write it was about to make hours ago.",
        links: &["langchain-ai/langgraph#8796"],
        catches: "a backend that checks fences before it has the right to write, or waits for a stopped process without end",
        peer: Some(stopped::work),
    }
    "CON-005" con_005_epochs_grow_across_reopening {
        title: "Lease epochs only grow, across release, takeover and reopening.",
        needs: &[Need::Persistent],
        why: "An epoch that starts again at 1 lets a holder from before the restart write.",
        catches: "a backend that keeps leases in memory or deletes them on release",
    }
    "CON-006" con_006_leases_go_by_the_stores_clock {
        title: "A lease expires by the store's clock: times that a caller gives, in whatever entry, change nothing about it.",
        why: "Hosts' clocks differ by minutes.",
        catches: "a backend that takes a lease's time from its caller",
    }
    "CON-007" con_007_a_stale_handle_conflicts_and_merges_nothing_case_33 {
        title: "A writer whose picture of the session is stale is refused; after reloading it goes on, and no turn is mixed.",
        why: "Two terminals on one session interleave or silently fork it.",
        links: &["google/adk-python#4751", "anthropics/claude-code#39151"],
        catches: "a backend that merges two writers",
        cases: &["case-33"],
    }
    "CON-008" con_008_a_second_process_works_or_is_told_case_28 {
        title: "Another process on the same store works, and both see each other's commits at once.",
        needs: &[Need::MultiProcess],
        why: "A person runs two agents; neither may lose the other's words.",
        links: &["cberner/redb#811"],
        catches: "a backend that caches what another process changed",
        cases: &["case-28"],
        peer: Some(append_from_elsewhere),
    }
    "CON-009" con_009_contention_waits {
        title: "Writers that read, decide and write at the same time wait for each other; none is answered Busy at once.",
        kind: Kind::Stochastic,
        why: "A transaction that begins as a read and then writes is refused at once, whatever timeout is set.",
        links: &["ovumcy/ovumcy-web#155"],
        catches: "a backend with deferred transactions",
    }
    "CON-010" con_010_many_first_opens_make_one_store {
        title: "Of many clients that open a fresh store at once, each succeeds, and all work on the same one.",
        kind: Kind::Stochastic,
        why: "Replicas that start together race to create the tables.",
        links: &["google/adk-python#1561"],
        catches: "a backend that creates tables without a lock",
    }
    "CON-011" con_011_many_processes_append_without_one_error {
        title: "Of many processes that append to one session at once, none is refused, nothing is lost or doubled, and each is told the number that its entry has.",
        kind: Kind::Stochastic,
        needs: &[Need::MultiProcess],
        why: "Sub-agents are processes, and each of them wants to write when the others do.",
        links: &["Hmbown/CodeWhale#4734"],
        catches: "a backend whose waiting for another process starves or gives up",
        peer: Some(crowd::append),
        timeout: Duration::from_secs(150),
    }
    "CON-012" con_012_many_processes_open_one_fresh_store {
        title: "Of many processes that open one fresh store at once, each succeeds, and all work on the same one, round after round.",
        kind: Kind::Stochastic,
        needs: &[Need::MultiProcess],
        why: "Replicas that start together race to create the file and its tables.",
        links: &["google/adk-python#1561"],
        catches: "a backend that creates its file without a lock between processes",
        peer: Some(crowd::open),
        timeout: Duration::from_secs(150),
    }
}

async fn con_001_no_append_is_lost_or_doubled_case_28(cx: &Context) -> Outcome {
    const WRITERS: usize = 8;
    const EACH: usize = 25;
    let kit = cx.kit().await?;
    let (shared, mut writers) = (kit.create("shared").await?, Vec::new());
    for writer in 0..WRITERS {
        let (kit, shared) = (cx.kit().await?, shared.clone());
        writers.push(spawn(async move {
            let own = kit.create(&format!("own {writer}")).await?;
            let mut numbers = Vec::new();
            for at in 0..EACH {
                let text = format!("writer {writer}, item {at}");
                numbers.push((kit.say(&shared, &text).await?, text.clone()));
                kit.say(&own, &text).await?;
            }
            ensure_eq!(kit.texts(&own).await?.len(), EACH, "entries of the writer's own session");
            Ok(numbers)
        }));
    }
    let mut acknowledged: Vec<_> = gather(writers).await?.into_iter().flatten().collect();
    acknowledged.sort();
    let stored = kit.entries(&shared).await?;
    let stored: Vec<_> =
        stored.into_iter().map(|entry| (entry.number, entry.text.unwrap_or_default())).collect();
    ensure_eq!(stored.len(), WRITERS * EACH, "entries of the shared session");
    ensure_eq!(stored, acknowledged, "each number with the words it was acknowledged for");
    Ok(())
}

async fn con_002_the_history_is_one_order_that_fits_real_time(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let clock = Arc::new(AtomicU64::new(0));
    let mut clients = Vec::new();
    for client in 0..5_u64 {
        let (kit, session, clock) = (cx.kit().await?, session.clone(), Arc::clone(&clock));
        clients.push(spawn(async move {
            let mut history = History::default();
            for at in 0..30_u64 {
                let invoked = clock.fetch_add(1, Ordering::SeqCst);
                if (client + at) % 3 == 0 {
                    let words = kit.texts(&session).await?;
                    let returned = clock.fetch_add(1, Ordering::SeqCst);
                    history.reads.push(Read { invoked, returned, words });
                } else {
                    let words = format!("client {client}, step {at}");
                    let number = kit.say(&session, &words).await?.get();
                    let acknowledged = Some((clock.fetch_add(1, Ordering::SeqCst), number));
                    history.appends.push(Asked { words, invoked, acknowledged });
                }
            }
            Ok(history)
        }));
    }
    let mut all = History::default();
    for history in gather(clients).await? {
        all.appends.extend(history.appends);
        all.reads.extend(history.reads);
    }
    cx.count("appends", all.appends.len() as u64);
    all.check(&kit.texts(&session).await?).map_err(Stop::fail)
}

async fn con_003_one_of_many_conditional_commits_wins(cx: &Context) -> Outcome {
    const RACERS: usize = 8;
    let kits = cx.kits(RACERS).await?;
    let kit = &kits[0];
    let session = kit.create("s").await?;
    for round in 0..10_u32 {
        let row = kit.row(&session).await?;
        let version = kit.put(put("c", "k", &round.to_string())).await?;
        let mut racers = Vec::new();
        for (racer, kit) in kits.iter().cloned().enumerate() {
            let text = format!("round {round}, racer {racer}");
            let guard = match round % 3 {
                0 => Guard::Head { session: session.clone(), head: row.head },
                1 => Guard::Leaf { session: session.clone(), leaf: row.path.leaf },
                _ => Guard::Revision { session: session.clone(), revision: row.revision },
            };
            let by_record = round % 5 == 4;
            let commit = kit.appending(&session, vec![user(&text)]);
            let (commit, kind) = if by_record {
                let expect = Expect::Version(version);
                let claim = turnkeep_core::commit::Put { expect, ..put("c", "k", "\"claimed\"") };
                (commit.op(Op::PutRecord(claim)), ErrorKind::VersionConflict)
            } else {
                (commit.guard(guard), ErrorKind::StaleLeaf)
            };
            racers.push(spawn(async move {
                match kit.store.commit(commit).await {
                    Ok(_) => Ok(Some(text)),
                    Err(error) => {
                        ensure_refused!(Err::<(), _>(error), kind, "a racer that lost");
                        Ok(None)
                    }
                }
            }));
        }
        let won: Vec<_> = gather(racers).await?.into_iter().flatten().collect();
        ensure_eq!(won.len(), 1, "winners of round {round}");
        let texts = kit.texts(&session).await?;
        ensure_eq!(texts.len() as u32, round + 1, "entries after round {round}");
        ensure_eq!(texts.last(), won.first(), "the entry that won round {round}");
    }
    Ok(())
}

async fn con_005_epochs_grow_across_reopening(cx: &Context) -> Outcome {
    let mut kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let lease = LeaseName::Named(name("channel"));
    for round in 1..=5 {
        let fence = kit.acquire(&session, 60_000).await?;
        ensure_eq!(fence.epoch, round, "the epoch of the session's lease in round {round}");
        let named = crate::kit::grant(lease.clone(), kit.store.info().owner, kit.token(), 60_000);
        let named = kit.acquire_as(named).await?;
        ensure_eq!(named.epoch, round, "the epoch of the named lease in round {round}");
        kit.release(&fence).await?;
        kit.release(&named).await?;
        kit = cx.reopen(kit).await?;
        let late = kit.appending(&session, vec![user("late")]).fence(fence);
        kit.refused(late, ErrorKind::LeaseLost).await?;
    }
    ensure_eq!(kit.texts(&session).await?.len(), 0, "late writes that got through");
    Ok(())
}

async fn con_006_leases_go_by_the_stores_clock(cx: &Context) -> Outcome {
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    let ttl = cx.lease_ms();
    let earliest = kit.now();
    let fence = kit.acquire(&session, ttl).await?;
    let latest = kit.now();
    let lease =
        kit.lease(&session).await?.ok_or_else(|| Stop::fail("a lease that was taken is not there"))?;
    let ttl_ms = i64::try_from(ttl).unwrap_or(i64::MAX);
    ensure!(
        lease.expires_at >= earliest.plus_ms(ttl_ms) && lease.expires_at <= latest.plus_ms(ttl_ms),
        "the lease expires at {:?}, taken between {earliest:?} and {latest:?} for {ttl} ms",
        lease.expires_at
    );
    ensure!(lease.acquired_at >= earliest && lease.acquired_at <= latest, "taken at {:?}", lease.acquired_at);
    let mut far = user("from the year 2100");
    far.at = turnkeep_core::Timestamp::from_millis(4_102_444_800_000);
    kit.apply(kit.appending(&session, vec![far]).fence(fence.clone())).await?;
    ensure_eq!(
        other.lease(&session).await?.map(|lease| lease.expired),
        Some(false),
        "expired after a far future entry"
    );
    let take = other.commit().op(Op::AcquireLease(other.session_grant(&session, ttl)));
    other.refused(take, ErrorKind::LeaseHeld).await?;
    cx.pass_ms(ttl + 1).await;
    ensure_eq!(other.lease(&session).await?.map(|lease| lease.expired), Some(true), "expired after its time");
    // Expiry only permits others: nobody took it, so the holder goes on.
    kit.apply(kit.appending(&session, vec![user("late but alone")]).fence(fence.clone())).await?;
    let renew = Op::RenewLease { fence: fence.clone(), ttl_ms: ttl };
    kit.apply(kit.commit().op(renew)).await?;
    let take = other.commit().op(Op::AcquireLease(other.session_grant(&session, ttl)));
    other.refused(take, ErrorKind::LeaseHeld).await?;
    cx.pass_ms(ttl + 1).await;
    ensure_eq!(other.acquire(&session, ttl).await?.epoch, fence.epoch + 1, "the epoch of who took it over");
    Ok(())
}

/// What a terminal does: it appends a turn where it believes the conversation to end.
async fn turn(
    kit: &Kit,
    session: &SessionRef,
    who: &str,
    leaf: Option<EntryNo>,
) -> turnkeep_core::Result<EntryNo> {
    let entries = vec![user(&format!("{who}: question")), user(&format!("{who}: answer"))];
    let guard = Guard::Leaf { session: session.clone(), leaf };
    let receipt = kit.store.commit(kit.appending(session, entries).guard(guard)).await?;
    Ok(receipt.entries(0).last().unwrap_or(EntryNo::FIRST))
}

async fn con_007_a_stale_handle_conflicts_and_merges_nothing_case_33(cx: &Context) -> Outcome {
    let (one, two) = (cx.kit().await?, cx.kit().await?);
    let session = one.create("s").await?;
    one.say(&session, "start").await?;
    let seen = [one.row(&session).await?.path.leaf, two.row(&session).await?.path.leaf];
    let leaf = turn(&one, &session, "one", seen[0]).await?;
    let before = one.snapshot().await?;
    let late = turn(&two, &session, "two", seen[1]).await;
    ensure_refused!(late, ErrorKind::StaleLeaf, "a turn of a terminal with a stale picture");
    two.unchanged(&before, "a turn with a stale picture").await?;
    let reloaded = two.row(&session).await?.path.leaf;
    ensure_eq!(reloaded, Some(leaf), "the leaf after reloading");
    turn(&two, &session, "two", reloaded).await?;
    let expected = ["start", "one: question", "one: answer", "two: question", "two: answer"];
    ensure_eq!(one.texts(&session).await?, expected, "the conversation of both");
    Ok(())
}

const ELSEWHERE: u32 = 40;

fn append_from_elsewhere<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let kit = cx.kit().await?;
        let row = kit.find("shared").await?.ok_or_else(|| Stop::fail("the session is not there"))?;
        for at in 0..ELSEWHERE {
            let number = kit.say(&row.session_ref(), &format!("{role} {at}")).await?;
            peer::tell(&format!("{number} {role} {at}"))?;
        }
        Ok(())
    })
}

async fn con_008_a_second_process_works_or_is_told_case_28(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("shared").await?;
    let peers = ["first", "second", "third"];
    let started = peers.map(|role| cx.start_peer(role));
    for at in 0..ELSEWHERE {
        kit.say(&session, &format!("here {at}")).await?;
    }
    let mut acknowledged = Vec::new();
    for peer in started {
        for line in peer?.ended().await? {
            let (number, text) = line.split_once(' ').ok_or_else(|| Stop::error("a peer spoke strangely"))?;
            acknowledged.push((number.parse::<u32>().unwrap_or(0), text.to_owned()));
        }
    }
    ensure_eq!(acknowledged.len() as u32, ELSEWHERE * 3, "appends acknowledged elsewhere");
    let entries = kit.entries(&session).await?;
    ensure_eq!(entries.len() as u32, ELSEWHERE * 4, "entries in all");
    for (at, entry) in (1..).zip(&entries) {
        ensure_eq!(entry.number, no(at), "the number at place {at}");
    }
    for (number, text) in acknowledged {
        let entry = entries.get(number as usize - 1).and_then(|entry| entry.text.clone());
        ensure_eq!(entry, Some(text), "the entry {number} that a peer wrote");
    }
    Ok(())
}

async fn con_009_contention_waits(cx: &Context) -> Outcome {
    let kits = cx.kits(8).await?;
    let session = kits[0].create("s").await?;
    kits[0].put(put("c", "counter", "0")).await?;
    let mut clients = Vec::new();
    for (client, kit) in kits.iter().cloned().enumerate() {
        let session = session.clone();
        clients.push(spawn(async move {
            let mut conflicts = 0;
            for at in 0..10 {
                // Read, decide, write: the loser of a round reads again.
                for attempt in 0.. {
                    ensure!(attempt < 2_000, "client {client} loses every round");
                    let record = kit.record("c", "counter").await?;
                    let record = record.ok_or_else(|| Stop::fail("the counter is not there"))?;
                    let next = record.payload.as_str().parse::<u64>().unwrap_or(0) + 1;
                    let mut claim = put("c", "counter", &next.to_string());
                    claim.expect = Expect::Version(record.version);
                    let commit = kit
                        .appending(&session, vec![keyed(&format!("count {next}"), &format!("{client} {at}"))])
                        .op(Op::PutRecord(claim));
                    match kit.store.commit(commit).await {
                        Ok(_) => break,
                        Err(error) if error.kind() == ErrorKind::AlreadyExists => conflicts += 1,
                        Err(error) => {
                            ensure_refused!(
                                Err::<(), _>(error),
                                ErrorKind::VersionConflict,
                                "a round that was lost"
                            );
                            conflicts += 1;
                        }
                    }
                }
            }
            Ok(conflicts)
        }));
    }
    gather(clients).await?;
    let counter = kits[0].record("c", "counter").await?.map(|record| record.payload.as_str().to_owned());
    ensure_eq!(counter.as_deref(), Some("80"), "the counter that 8 clients raised 10 times each");
    ensure_eq!(kits[0].texts(&session).await?.len(), 80, "entries of all clients");
    Ok(())
}

async fn con_010_many_first_opens_make_one_store(cx: &Context) -> Outcome {
    for round in 0..6 {
        let site = cx.harness.provision().await.map_err(|error| Stop::error(format!("no site: {error}")))?;
        let mut openers = Vec::new();
        for opener in 0..12 {
            let (site, draws) = (site.clone(), cx.drawer());
            let (harness, clock) = (Arc::clone(&cx.harness), cx.shared_clock());
            openers.push(spawn(async move {
                let with = crate::OpenWith { clock };
                let store = harness.open(&site, with).await.map_err(|error| {
                    Stop::fail(format!("opener {opener} of round {round} was refused: {error}"))
                })?;
                let kit = Kit::of(store, draws);
                let session = kit.create(&format!("of {opener}")).await?;
                kit.say(&session, "here").await?;
                Ok(kit)
            }));
        }
        let kits = gather(openers).await;
        let seen = match &kits {
            Ok(kits) => kits[0].ids(kits[0].list()).await.map(|ids| ids.len()),
            Err(_) => Ok(0),
        };
        for kit in kits.iter().flatten() {
            kit.store.close().await?;
        }
        let removed = cx.harness.destroy(&site).await;
        kits?;
        ensure_eq!(seen?, 12, "sessions of all openers of round {round}");
        removed.map_err(|error| Stop::error(format!("the site could not be removed: {error}")))?;
    }
    Ok(())
}
