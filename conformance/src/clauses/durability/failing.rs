//! Disks that fail: full ones, broken ones, and those that cannot sync.

use turnkeep_core::commit::Op;
use turnkeep_core::{Error, ErrorKind, Receipt, SessionRef};

use super::images::{Opener, is_whole};
use crate::context::Context;
use crate::disk::{Disk, Failure, Fault, Image, Kind, Loss, Replay};
use crate::harness::Site;
use crate::kit::{Kit, put, user};
use crate::verdict::{Outcome, Stop};

/// What became of what was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    /// Refused, so it must not be there.
    Refused,
    /// Nobody knows, so it may be there.
    Unknown,
}

/// What was said in one session, in order.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    session: SessionRef,
    lines: Vec<(String, Fate)>,
}

impl Ledger {
    /// A new session without a word.
    pub(crate) async fn begin(kit: &Kit, id: &str) -> Outcome<Self> {
        Ok(Self { session: kit.create(id).await?, lines: Vec::new() })
    }

    /// Says something and notes the answer, which is given back.
    async fn say(&mut self, kit: &Kit, text: String) -> Result<Receipt, Error> {
        let answer = kit.store.commit(kit.appending(&self.session, vec![user(&text)])).await;
        self.note(text, &answer);
        answer
    }

    /// Notes the answer to something that was said.
    pub(crate) fn note(&mut self, text: String, answer: &Result<Receipt, Error>) {
        let fate = match answer {
            Ok(_) => Fate::Acknowledged,
            Err(error) if error.kind() == ErrorKind::CommitUnknown => Fate::Unknown,
            Err(_) => Fate::Refused,
        };
        self.lines.push((text, fate));
    }

    /// Whether the store has what was acknowledged, nothing that was refused, and the rest once at most, in order.
    pub(crate) async fn holds(&self, kit: &Kit) -> Outcome {
        self.judge(&kit.texts(&self.session).await?)
    }

    fn judge(&self, stored: &[String]) -> Outcome {
        let mut stored = stored.iter().peekable();
        for (text, fate) in &self.lines {
            let there = stored.next_if(|seen| *seen == text).is_some();
            let short: String = text.chars().take(20).collect();
            match fate {
                Fate::Acknowledged => {
                    ensure!(there, "{short:?} was acknowledged and is not there, or not in order")
                }
                Fate::Refused => ensure!(!there, "{short:?} was refused and is there"),
                Fate::Unknown => {}
            }
        }
        ensure!(stored.next().is_none(), "the session has words that nobody said, or some twice");
        Ok(())
    }
}

/// A site of its own with a disk under the store.
pub(crate) struct Bench {
    pub(crate) disk: Disk,
    site: Site,
    opener: Opener,
}

impl Bench {
    pub(crate) async fn new(cx: &Context) -> Outcome<Self> {
        let opener = Opener::new(cx);
        let site = opener.lay_out(&Image::empty()).await?;
        Ok(Self { disk: Disk::new(), site, opener })
    }

    /// What opening on the disk answers.
    async fn try_open(&self) -> Outcome<Result<Kit, Error>> {
        self.opener.open_on(&self.site, &self.disk).await
    }

    pub(crate) async fn open(&self) -> Outcome<Kit> {
        self.try_open().await?.map_err(|error| Stop::fail(format!("the store does not open: {error}")))
    }

    /// Closes a store whose disk may have failed. It may say so, but it must end.
    pub(crate) async fn close(&self, kit: Kit) {
        let _: Result<(), Error> = kit.store.close().await;
    }

    /// Opens the site as it is, and as a power loss just now may have left it, and compares it with what was said.
    pub(crate) async fn holds(&self, ledgers: &[Ledger], seed: u64, losses: u64) -> Outcome {
        self.disk.disarm();
        self.disk.set_capacity(None);
        self.read(&self.opener, &self.site, ledgers).await.map_err(|stop| stop.about("reopened"))?;
        let log = self.disk.log();
        let mut replay = Replay::new(&log);
        while replay.advance() {}
        let cuts = [Loss::All].into_iter().chain((1..losses).map(|at| Loss::Any(seed.wrapping_add(at))));
        for loss in cuts.take(usize::try_from(losses).unwrap_or(usize::MAX)) {
            let read = async |opener: Opener, site: Site| self.read(&opener, &site, ledgers).await;
            self.opener.laid_out(&replay.image(loss), read).await?;
        }
        Ok(())
    }

    async fn read(&self, opener: &Opener, site: &Site, ledgers: &[Ledger]) -> Outcome {
        let kit = opener.open(site).await?;
        for ledger in ledgers {
            ledger.holds(&kit).await?;
        }
        is_whole(&kit.store).await?;
        let fresh = kit.create("goes on").await?;
        kit.say(&fresh, "after it").await?;
        kit.delete(&fresh).await?;
        kit.store.close().await?;
        Ok(())
    }

    /// Removes the site, whatever came out.
    pub(crate) async fn end(self, outcome: Outcome) -> Outcome {
        let removed = self.opener.remove(&self.site).await;
        outcome.and(removed)
    }
}

/// Smoke: each of the first 4 syncs. Full: 24.
pub(super) async fn dur_004_a_failed_sync_is_an_error_and_ends_acknowledging(cx: &Context) -> Outcome {
    for at in 0..cx.scaled(4, 24, 200) {
        let bench = Bench::new(cx).await?;
        let outcome = sync_fails(cx, &bench, at).await;
        let failed = bench.disk.failed();
        bench.end(outcome.map_err(|stop| stop.about(&format!("sync {at} failed")))).await?;
        if failed == 0 {
            ensure!(at > 0, "no sync was made, so none could fail");
            break;
        }
        cx.count("failed syncs", failed);
        let bench = Bench::new(cx).await?;
        let outcome = sync_of_a_chore_fails(cx, &bench, at).await;
        bench.end(outcome.map_err(|stop| stop.about(&format!("sync {at} failed, around a purge")))).await?;
    }
    Ok(())
}

/// The purge after a delete syncs too, and nobody is there to be told that it failed.
async fn sync_of_a_chore_fails(cx: &Context, bench: &Bench, at: u64) -> Outcome {
    let kit = bench.open().await?;
    let mut ledger = Ledger::begin(&kit, "s").await?;
    let doomed = kit.create("doomed").await?;
    kit.append(&doomed, (0..20).map(|at| user(&format!("soon gone {at}"))).collect()).await?;
    ledger.say(&kit, "before".to_owned()).await?;
    bench.disk.arm(Fault::once(Kind::Sync, at, Failure::Io));
    let delete = Op::DeleteSession { session: doomed, force: false };
    let mut over = kit.store.commit(kit.commit().op(delete)).await.is_err();
    for commit in 0..12 {
        over |= bench.disk.failed() > 0;
        let answer = ledger.say(&kit, format!("word {commit}")).await;
        ensure!(!over || answer.is_err(), "commit {commit} was acknowledged after a sync that failed");
        over |= answer.is_err();
    }
    bench.close(kit).await;
    bench.holds(std::slice::from_ref(&ledger), cx.seed(), 2).await
}

async fn sync_fails(cx: &Context, bench: &Bench, at: u64) -> Outcome {
    let kit = bench.open().await?;
    let mut ledger = Ledger::begin(&kit, "s").await?;
    for before in 0..3 {
        ledger.say(&kit, format!("before {before}")).await?;
    }
    bench.disk.arm(Fault::once(Kind::Sync, at, Failure::Io));
    let mut poisoned = false;
    for commit in 0..24 {
        let answer = ledger.say(&kit, format!("word {commit}")).await;
        if poisoned {
            ensure_refused!(answer, ErrorKind::Poisoned, "commit {commit}, after one of unknown outcome");
        } else if answer.is_err() {
            ensure_refused!(answer, ErrorKind::CommitUnknown, "commit {commit}, whose sync failed");
            poisoned = true;
        }
    }
    if poisoned && let Some(maintenance) = kit.store.maintenance() {
        chore_refused(maintenance.purge().await, "a purge")?;
        chore_refused(maintenance.compact().await, "a compaction")?;
    }
    bench.close(kit).await;
    bench.holds(std::slice::from_ref(&ledger), cx.seed(), 3).await
}

/// A chore writes too, so it may not be done either.
fn chore_refused<T: std::fmt::Debug>(answer: turnkeep_core::Result<T>, chore: &str) -> Outcome {
    match answer {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        answer => {
            ensure_refused!(answer, ErrorKind::Poisoned, "{chore} after a commit of unknown outcome");
            Ok(())
        }
    }
}

/// Smoke: 2 disks. Full: 12, with more or less room left.
pub(super) async fn dur_005_a_full_disk_is_full_and_work_goes_on_once_there_is_room_case_11(
    cx: &Context,
) -> Outcome {
    for turn in 0..cx.scaled(2, 12, 100) {
        let bench = Bench::new(cx).await?;
        let room = turn * turn * 7_000;
        let outcome = fills(cx, &bench, room).await;
        bench.end(outcome.map_err(|stop| stop.about(&format!("{room} bytes of room")))).await?;
        cx.count("full disks", 1);
    }
    Ok(())
}

async fn fills(cx: &Context, bench: &Bench, room: u64) -> Outcome {
    let kit = bench.open().await?;
    let mut ledger = Ledger::begin(&kit, "s").await?;
    let mut other = Ledger::begin(&kit, "other").await?;
    let words = "words that take room ".repeat(3_000);
    for before in 0..4 {
        ledger.say(&kit, format!("before {before} {words}")).await?;
    }
    bench.disk.set_capacity(Some(bench.disk.used() + room));
    let mut full = false;
    for commit in 0..400 {
        let answer = ledger.say(&kit, format!("word {commit} {words}")).await;
        if answer.is_err() {
            let error = ensure_refused!(answer, ErrorKind::Full, "commit {commit} on a disk without room");
            ensure!(error.is_retryable(), "Full can be tried again once there is room");
            full = true;
            break;
        }
    }
    ensure!(full, "400 commits of 60 KB fit into {room} bytes");
    ledger.holds(&kit).await.map_err(|stop| stop.about("read while the disk is full"))?;
    let again = ledger.say(&kit, format!("still {words}")).await;
    if again.is_err() {
        ensure_refused!(again, ErrorKind::Full, "another commit on the full disk");
    }
    // A small one may still fit.
    let small = other.say(&kit, "small".to_owned()).await;
    if small.is_err() {
        ensure_refused!(small, ErrorKind::Full, "a small commit on the full disk");
    }
    bench.disk.set_capacity(None);
    ledger.say(&kit, format!("there is room again {words}")).await?;
    other.say(&kit, "here too".to_owned()).await?;
    ledger.holds(&kit).await?;
    other.holds(&kit).await?;
    kit.store.close().await?;
    bench.holds(&[ledger, other], cx.seed(), 2).await
}

/// Smoke: 2 calls of each kind. Full: 16.
pub(super) async fn dur_009_whatever_call_fails_no_answer_is_wrong(cx: &Context) -> Outcome {
    // From the opening on, or only once the store is open.
    const FAULTS: [(Kind, Failure, bool); 9] = [
        (Kind::Write, Failure::Io, false),
        (Kind::Write, Failure::Full, false),
        (Kind::SetLen, Failure::Io, false),
        (Kind::SetLen, Failure::Full, false),
        (Kind::Sync, Failure::Io, false),
        (Kind::Read, Failure::Io, false),
        (Kind::Read, Failure::Io, true),
        (Kind::Create, Failure::Io, false),
        (Kind::Remove, Failure::Io, false),
    ];
    for (kind, failure, late) in FAULTS {
        let mut pass = cx.seed() % 3;
        for _ in 0..cx.scaled(2, 16, 200) {
            let bench = Bench::new(cx).await?;
            let outcome = call_fails(cx, &bench, Fault::once(kind, pass, failure), late).await;
            let failed = bench.disk.failed();
            let about = format!("{kind:?} {pass} failed with {failure:?}");
            bench.end(outcome.map_err(|stop| stop.about(&about))).await?;
            if failed == 0 {
                break;
            }
            cx.count("failed calls", failed);
            pass += 1 + pass / 2;
        }
    }
    Ok(())
}

/// What a failing disk may be answered with.
fn is_honest(error: &Error, what: &str) -> Outcome {
    use ErrorKind::{CommitUnknown, Full, Io, Poisoned};
    let honest = matches!(error.kind(), CommitUnknown | Full | Io | Poisoned);
    ensure!(honest, "{what} of a store whose disk failed was answered with: {error}");
    Ok(())
}

async fn call_fails(cx: &Context, bench: &Bench, fault: Fault, late: bool) -> Outcome {
    let kit = bench.open().await?;
    let mut ledger = Ledger::begin(&kit, "s").await?;
    let doomed = kit.create("doomed").await?;
    kit.say(&doomed, "soon gone").await?;
    ledger.say(&kit, "before".to_owned()).await?;
    kit.store.close().await?;

    let mut in_doubt = fault.kind != Kind::Read;
    if !late {
        bench.disk.arm(fault.clone());
    }
    let mut open = bench.try_open().await?;
    if let Err(error) = &open {
        is_honest(error, "opening")?;
        open = bench.try_open().await?;
    }
    let kit = open.map_err(|error| Stop::fail(format!("the second opening, without a fault: {error}")))?;
    if late {
        bench.disk.arm(fault);
    }
    if let Err(error) = kit.store.entries(&kit.committed(&doomed)).await {
        is_honest(&error, "a read")?;
    }
    let words = "some words ".repeat(900);
    for round in 0..4 {
        let said = ledger.say(&kit, format!("{round} {words}")).await;
        let record = kit.commit().op(Op::PutRecord(put("c", "k", &format!("{round}"))));
        for error in [said, kit.store.commit(record).await].into_iter().filter_map(Result::err) {
            is_honest(&error, "a commit")?;
            in_doubt |= error.kind() == ErrorKind::CommitUnknown;
            ensure!(
                in_doubt || error.kind() != ErrorKind::Poisoned,
                "a read that failed poisoned the store: {error}"
            );
        }
        match kit.store.entries(&kit.committed(&ledger.session)).await {
            Ok(page) => {
                let texts: Vec<_> = page.items.into_iter().filter_map(|entry| entry.text).collect();
                ledger.judge(&texts).map_err(|stop| stop.about("read on the failing disk"))?;
            }
            Err(error) => is_honest(&error, "a read")?,
        }
        if round == 2 {
            let delete = Op::DeleteSession { session: doomed.clone(), force: false };
            if let Err(error) = kit.store.commit(kit.commit().op(delete)).await {
                is_honest(&error, "a commit")?;
            }
        }
    }
    bench.close(kit).await;
    bench.holds(std::slice::from_ref(&ledger), cx.seed(), 2).await
}
