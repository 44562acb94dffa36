//! Owners that are stopped (SIGSTOP) and go on later: in the middle of their work, of a commit, of the line for one.

use std::time::Duration;

use turnkeep_core::commit::{Fence, LeaseGrant, Op, Takeover};
use turnkeep_core::model::Liveness;
use turnkeep_core::{ErrorKind, SessionRef};

use crate::clause::Running;
use crate::context::Context;
use crate::crash::{self, Books};
use crate::kit::{Kit, user};
use crate::peer::{self, Peer};
use crate::verdict::{Outcome, Stop};

/// What a stopped process may make others wait, at most. Who waits longer hangs.
const HANGS: Duration = Duration::from_secs(20);
/// How long a commit waits that may meet a stopped writer.
const PATIENCE: Duration = Duration::from_millis(200);
/// Commits of an owner that nobody stops for good.
const MOST: u64 = 2_000;

/// The owner: holds a session and appends to it, with a breath in between, until it has lost it. The flood: appends
/// without a breath, so much at once that a stop nearly always finds it writing.
pub(super) fn work<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let (role, id) = role.split_once(' ').ok_or_else(|| Stop::error("a role without a session"))?;
        let kit = cx.kit().await?;
        peer::tell(&format!("at {}", kit.store.info().location))?;
        let session = kit.there(id).await?;
        let fence = kit.acquire(&session, cx.lease_ms()).await?;
        for number in 0..MOST {
            let text = number.to_string();
            let entries = if role == "flood" { flood(&text) } else { vec![user(&text)] };
            crash::begin(&text)?;
            let commit = kit.appending(&session, entries).fence(fence.clone()).wait(HANGS);
            match kit.store.commit(commit).await {
                Ok(_) => crash::done(&text)?,
                Err(error) => {
                    ensure_refused!(
                        Err::<(), _>(error),
                        ErrorKind::LeaseLost,
                        "an owner that lost its lease"
                    );
                    return lost(&kit, &session, &fence).await;
                }
            }
            if role == "owner" {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Ok(())
    })
}

fn flood(text: &str) -> Vec<turnkeep_core::commit::NewEntry> {
    let filler = "of many words ".repeat(150);
    (0..30).map(|_| user(&format!("{text} {filler}"))).collect()
}

/// Who has lost a lease can do nothing with it any more.
async fn lost(kit: &Kit, session: &SessionRef, fence: &Fence) -> Outcome {
    let lost = ErrorKind::LeaseLost;
    kit.refused(kit.appending(session, vec![user("late")]).fence(fence.clone()), lost).await?;
    let renew = Op::RenewLease { fence: fence.clone(), ttl_ms: 60_000 };
    kit.refused(kit.commit().op(renew), lost).await?;
    kit.refused(kit.commit().op(Op::ReleaseLease { fence: fence.clone() }), lost).await?;
    kit.refused(kit.appending(session, vec![user("late")]), ErrorKind::LeaseHeld).await?;
    peer::tell("lost")
}

/// Waits until a peer was told of so many more commits.
async fn acknowledged(peer: &mut Peer, more: usize) -> Outcome {
    let mut heard = 0;
    while heard < more {
        match peer.hear().await? {
            Some(line) => heard += usize::from(line.starts_with('+')),
            None => return Err(Stop::fail("an owner ended while it held its lease")),
        }
    }
    Ok(())
}

async fn bounded<T>(what: &str, part: impl Future<Output = T>) -> Outcome<T> {
    let answer = tokio::time::timeout(HANGS, part).await;
    answer.map_err(|_| Stop::fail(format!("{what} hangs while another process is stopped")))
}

/// Smoke: 2 owners taken over from and 1 not, 1 stopped while it writes; full: 10, 5 and 5; soak: 200, 100 and 100.
/// Where one process at a time has the store: 2, 10 and 200, every other one while it writes.
pub(super) async fn con_004_a_stopped_owner_is_refused_once_it_was_taken_over_from(cx: &Context) -> Outcome {
    let (taken, alone, writing) = cx.scaled((2, 1, 1), (10, 5, 5), (200, 100, 100));
    if !cx.manifest.capabilities.multi_process {
        for round in 0..taken {
            nobody_else_opens(cx, if round % 2 == 0 { "owner" } else { "flood" }, round).await?;
        }
        return Ok(());
    }
    let kit = cx.kit().await?;
    for round in 0..taken {
        taken_over(cx, &kit, round).await?;
    }
    for round in 0..alone {
        goes_on(cx, &kit, round).await?;
    }
    for round in 0..writing {
        stopped_while_writing(cx, &kit, round).await?;
    }
    Ok(())
}

async fn owner(cx: &Context, role: &str, session: &SessionRef) -> Outcome<Peer> {
    let mut peer = cx.start_peer(&format!("{role} {session}"))?;
    acknowledged(&mut peer, 2).await?;
    Ok(peer)
}

/// Takes a session over. A process that was stopped while it wrote makes that wait: it goes on a moment, and is
/// stopped again.
async fn take_over(kit: &Kit, owner: &mut Peer, session: &SessionRef, how: Takeover) -> Outcome<Fence> {
    for _ in 0..50 {
        let grant = LeaseGrant { takeover: how, ..kit.session_grant(session, 600_000) };
        let commit = kit.commit().op(Op::AcquireLease(grant.clone())).wait(PATIENCE);
        match bounded("a takeover", kit.store.commit(commit)).await? {
            Ok(receipt) => return crate::kit::fence_of(&grant, receipt.outcomes.first()),
            Err(error) => drop(ensure_refused!(
                Err::<(), _>(error),
                ErrorKind::Busy,
                "taking over from a stopped process"
            )),
        }
        owner.thaw()?;
        tokio::time::sleep(Duration::from_millis(7)).await;
        owner.stop().await?;
    }
    Err(Stop::inconclusive("each time the owner was stopped it was just writing"))
}

async fn taken_over(cx: &Context, kit: &Kit, round: u64) -> Outcome {
    let session = kit.create(&format!("taken-{round}")).await?;
    let mut peer = owner(cx, "owner", &session).await?;
    tokio::time::sleep(Duration::from_micros(cx.pick("CON-004", round, 8_000))).await;
    peer.stop().await?;
    if cx.manifest.capabilities.owner_liveness {
        let liveness = kit.lease(&session).await?.map(|lease| lease.liveness);
        ensure_eq!(liveness, Some(Liveness::Alive), "whether a stopped owner lives");
    }
    let how = if round.is_multiple_of(2) { Takeover::Force } else { Takeover::IfExpired };
    if how == Takeover::IfExpired {
        cx.pass_ms(cx.lease_ms() + 1).await;
    }
    let fence = take_over(kit, &mut peer, &session, how).await?;
    kit.apply(kit.appending(&session, vec![user("taken over")]).fence(fence)).await?;
    peer.thaw()?;
    refused(cx, kit, peer, &session).await
}

/// The owner that went on was refused, and wrote nothing since.
async fn refused(cx: &Context, kit: &Kit, peer: Peer, session: &SessionRef) -> Outcome {
    let said = peer.ended().await?;
    ensure_eq!(said.last().map(String::as_str), Some("lost"), "the last words of an owner that was replaced");
    cx.count("owners refused", 1);
    let books = Books::read(&said);
    let mut texts = kit.texts(session).await?;
    ensure_eq!(texts.pop().as_deref(), Some("taken over"), "the newest entry after the thaw");
    ensure_eq!(texts, books.done, "the entries from before the takeover");
    Ok(())
}

async fn goes_on(cx: &Context, kit: &Kit, round: u64) -> Outcome {
    let session = kit.create(&format!("alone-{round}")).await?;
    let mut peer = owner(cx, "owner", &session).await?;
    for stop in 0..3 {
        tokio::time::sleep(Duration::from_micros(cx.pick("CON-004 alone", round * 3 + stop, 8_000))).await;
        peer.stop().await?;
        // Its time is over, but nobody took it.
        cx.pass_ms(cx.lease_ms() + 1).await;
        bounded("a read", kit.texts(&session)).await??;
        peer.thaw()?;
        acknowledged(&mut peer, 2).await?;
    }
    let books = Books::read(&peer.kill().await?.said);
    cx.count("kills", 1);
    books.compare("what an owner wrote that was stopped for a while", &kit.texts(&session).await?)
}

/// Nobody hangs because a process is stopped in the middle of a commit, and who stood in line is judged by what is so
/// when its turn comes.
async fn stopped_while_writing(cx: &Context, kit: &Kit, round: u64) -> Outcome {
    let session = kit.create(&format!("waits-{round}")).await?;
    let flooded = kit.create(&format!("flooded-{round}")).await?;
    let other = kit.create(&format!("other-{round}")).await?;
    let mut waiting = owner(cx, "owner", &session).await?;
    let mut flood = owner(cx, "flood", &flooded).await?;
    let mut busy = 0;
    for attempt in 0..30 {
        tokio::time::sleep(Duration::from_micros(cx.pick("CON-004 flood", round * 30 + attempt, 6_000)))
            .await;
        flood.stop().await?;
        let text = format!("beside {attempt}");
        let commit = || kit.appending(&other, vec![user(&text)]).request(kit.request(&text, &other));
        let answer = bounded("a commit", kit.store.commit(commit().wait(PATIENCE))).await?;
        bounded("a read", kit.texts(&other)).await??;
        bounded("opening", cx.kit()).await??;
        let Err(error) = answer else {
            flood.thaw()?;
            continue;
        };
        ensure_refused!(Err::<(), _>(error), ErrorKind::Busy, "a commit beside a process stopped in its own");
        busy += 1;
        cx.count("stopped while writing", 1);
        if busy == 1 {
            flood.thaw()?;
            acknowledged(&mut flood, 1).await?;
            // Busy said that nothing was written.
            let receipt = kit.apply(commit()).await?;
            ensure!(!receipt.replayed, "a commit that answered Busy landed after all");
            continue;
        }
        // By now the owner stands in line behind the stopped process.
        waiting.stop().await?;
        let written = Books::read(&flood.kill().await?.said);
        cx.count("kills", 1);
        let fence = take_over(kit, &mut waiting, &session, Takeover::Force).await?;
        kit.apply(kit.appending(&session, vec![user("taken over")]).fence(fence)).await?;
        waiting.thaw()?;
        refused(cx, kit, waiting, &session).await?;
        let texts = kit.texts(&flooded).await?;
        let numbers: Vec<_> = texts.chunks(flood_size()).map(|of| first_word(&of[0])).collect();
        ensure!(texts.len().is_multiple_of(flood_size()), "{} entries, not whole commits", texts.len());
        return written.compare("commits of a process that was stopped and killed", &numbers);
    }
    Err(Stop::inconclusive("no stop came while the process was writing"))
}

fn flood_size() -> usize {
    flood("").len()
}

fn first_word(text: &str) -> String {
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// One process at a time has the store: others are told so, at once, as long as it is stopped, and it goes on.
async fn nobody_else_opens(cx: &Context, role: &str, round: u64) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create(&format!("stopped-{round}")).await?;
    cx.leave(kit).await?;
    let mut peer = cx.start_peer(&format!("{role} {session}"))?;
    let at = peer.hear().await?.unwrap_or_default();
    let at = at.strip_prefix("at ").unwrap_or_default().to_owned();
    acknowledged(&mut peer, 2).await?;
    for stop in 0..2 {
        tokio::time::sleep(Duration::from_micros(cx.pick("CON-004 one", round * 2 + stop, 8_000))).await;
        peer.stop().await?;
        let opened = bounded("opening", cx.try_open()).await?;
        let error = ensure_refused!(opened, ErrorKind::Busy, "opening a store that a stopped process has");
        ensure!(error.to_string().contains(&at), "Busy does not say what is busy, {at:?}: {error}");
        cx.count("refused beside a stopped process", 1);
        if stop == 0 {
            peer.thaw()?;
            acknowledged(&mut peer, 2).await?;
        }
    }
    // Killed while it is stopped.
    let books = Books::read(&peer.kill().await?.said);
    cx.count("kills", 1);
    let kit = cx.kit().await?;
    let texts = kit.texts(&session).await?;
    let size = if role == "flood" { flood_size() } else { 1 };
    ensure!(texts.len().is_multiple_of(size), "{} entries, not whole commits", texts.len());
    let numbers: Vec<_> = texts.chunks(size).map(|of| first_word(&of[0])).collect();
    books.compare("what a process wrote that was stopped and killed", &numbers)?;
    cx.leave(kit).await
}
