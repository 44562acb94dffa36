//! Killed anywhere in the life of a store, and opened again.

use turnkeep_core::commit::{Commit, Op};
use turnkeep_core::model::{LeaseName, RunState};
use turnkeep_core::query::EntryQuery;

use crate::Site;
use crate::clause::Running;
use crate::context::Context;
use crate::crash::{self, Books, Moment};
use crate::kit::{Kit, event, keyed, name, no, put, run, user};
use crate::verdict::{Outcome, Stop};

/// What a process does with a fresh store, from its first moment to its last.
const STEPS: [&str; 9] = ["open", "create", "say", "much", "run", "records", "delete", "again", "close"];
/// Lines that it says meanwhile.
const LINES: u64 = 2 * STEPS.len() as u64;
/// Entries of a large commit.
const MUCH: usize = 400;

fn admission(kit: &Kit, session: &turnkeep_core::SessionRef) -> Commit {
    let started = Op::AppendEvents {
        session: session.clone(),
        stream: name("runs"),
        expect_next: Some(1),
        events: vec![event("run_started", 1)],
    };
    kit.commit()
        .op(Op::AcquireLease(kit.session_grant(session, 60_000)))
        .op(Op::StartRun { session: session.clone(), run: run("r") })
        .op(Op::Append { session: session.clone(), entries: vec![keyed("turn/t/start", "question")] })
        .op(started)
}

async fn step(kit: &Kit, step: &str) -> Outcome {
    match step {
        "create" => {
            let create = |id: &str| Op::CreateSession(kit.new_session(&kit.life(id)));
            kit.apply(kit.commit().op(create("s")).op(create("doomed"))).await?;
        }
        "say" => {
            let session = kit.there("s").await?;
            kit.append(&session, ["a", "b", "c"].map(|key| keyed(key, key)).to_vec()).await?;
        }
        "much" => {
            let session = kit.there("doomed").await?;
            let filler = "many words ".repeat(80);
            kit.append(&session, (0..MUCH).map(|_| user(&filler)).collect()).await?;
        }
        "run" => {
            let session = kit.there("s").await?;
            kit.apply(admission(kit, &session)).await?;
        }
        "records" => {
            let record = |key: &str| Op::PutRecord(put("c", key, "1"));
            kit.apply(kit.commit().op(record("one")).op(record("two"))).await?;
        }
        "delete" => {
            let session = kit.there("doomed").await?;
            kit.delete(&session).await?;
        }
        "again" => {
            kit.put(put("c", "again", "1")).await?;
        }
        _ => kit.store.close().await?,
    }
    Ok(())
}

pub(super) fn live<'a>(cx: &'a Context, _role: &'a str) -> Running<'a> {
    Box::pin(async move {
        crash::begin("open")?;
        let kit = cx.kit().await?;
        crash::done("open")?;
        for of in STEPS.iter().skip(1) {
            crash::begin(of)?;
            step(&kit, of).await?;
            crash::done(of)?;
        }
        Ok(())
    })
}

/// Smoke: 5 kills, each at another step; full: one at each of 18 lines; soak: 50 at each.
/// Where there is a disk, also at 3, 30 and all calls of the engine that change something.
pub(super) async fn rec_001_a_store_opens_after_a_kill_at_any_point(cx: &Context) -> Outcome {
    let (rounds, every) = cx.scaled((1, 4), (1, 1), (50, 1));
    for round in 0..rounds {
        for line in (0..LINES).step_by(every) {
            let micros = cx.pick("REC-001", round * LINES + line, 3_000);
            let at = Moment::line(usize::try_from(line).unwrap_or(0));
            let moment = if (round + line / 2).is_multiple_of(2) { at } else { at.later(micros) };
            let site = provision(cx).await?;
            let outcome = match cx.kill_at(cx.start_peer_at("live", &site)?, moment).await {
                Ok(books) => lived(cx, &site, &books).await,
                Err(stop) => Err(stop),
            };
            removed(cx, &site, outcome).await?;
        }
    }
    if cx.has_disk().await? { at_calls(cx).await } else { Ok(()) }
}

/// Kills within, at calls of the engine that are spread over the whole life.
async fn at_calls(cx: &Context) -> Outcome {
    let site = provision(cx).await?;
    let counted = cx.changes_of("live", &site).await;
    let all = *counted.as_ref().unwrap_or(&0);
    removed(cx, &site, counted.map(drop)).await?;
    let points = cx.scaled(3, 30, all).min(all);
    for point in 0..points {
        let (from, to) = (all * point / points, all * (point + 1) / points);
        let call = from + cx.pick("REC-001 calls", point, to - from);
        let site = provision(cx).await?;
        let outcome = match cx.killed_at_call("live", &site, call).await {
            Ok(books) => lived(cx, &site, &books).await,
            Err(stop) => Err(stop),
        };
        removed(cx, &site, outcome).await?;
    }
    Ok(())
}

async fn provision(cx: &Context) -> Outcome<Site> {
    cx.harness.provision().await.map_err(|error| Stop::error(format!("no site: {error}")))
}

async fn removed(cx: &Context, site: &Site, outcome: Outcome) -> Outcome {
    let removed = cx.harness.destroy(site).await;
    outcome?;
    removed.map_err(|error| Stop::error(format!("the site could not be removed: {error}")))
}

async fn lived(cx: &Context, site: &Site, books: &Books) -> Outcome {
    let stage = books.open.first().or(books.done.last()).cloned().unwrap_or_default();
    let store = cx.try_open_at(site).await.map_err(|error| {
        Stop::fail(format!("killed at {stage:?}, the store does not open without help: {error}"))
    })?;
    let kit = Kit::new(store, cx);
    let outcome = opened(&kit, books).await;
    kit.store.close().await?;
    outcome
}

/// What is there fits the books, each step whole, and the store takes words at once.
async fn opened(kit: &Kit, books: &Books) -> Outcome {
    for of in STEPS {
        let Some(there) = is_there(kit, books, of).await? else { continue };
        ensure!(there || !books.is_done(of), "{of:?} was acknowledged and is not there after the kill");
        ensure!(!there || books.is_begun(of), "{of:?} is there after the kill, but was never begun");
    }
    let after = kit.create("after").await?;
    ensure_eq!(kit.say(&after, "at once").await?, no(1), "the first number after the kill");
    if let Some(maintenance) = kit.store.maintenance() {
        match maintenance.verify().await {
            Ok(report) => ensure_eq!(report.damage.len(), 0, "damage that a kill did: {:?}", report.damage),
            Err(error) => drop(ensure_refused!(
                Err::<(), _>(error),
                turnkeep_core::ErrorKind::Unsupported,
                "a verification after the kill"
            )),
        }
    }
    Ok(())
}

/// Whether a step is there, whole; `None` where nobody can see it.
async fn is_there(kit: &Kit, books: &Books, step: &str) -> Outcome<Option<bool>> {
    let (kept, doomed) = (kit.find("s").await?, kit.find("doomed").await?);
    let by_key = |key: &str| {
        let session = kept.as_ref().map(|row| row.session_ref());
        let key = name(key);
        async move {
            let Some(session) = session else { return Ok(0) };
            let query = EntryQuery { key: Some(key), ..kit.committed(&session) };
            kit.walk(query).await.map(|entries| entries.len())
        }
    };
    let all = |parts: Vec<bool>| {
        ensure!(parts.iter().all(|part| *part == parts[0]), "{step:?} is there by half: {parts:?}");
        Ok(Some(parts[0]))
    };
    match step {
        "create" => {
            ensure!(kept.is_some() || doomed.is_none(), "one of two sessions of a commit is there");
            ensure!(
                kept.is_none() || doomed.is_some() || books.is_begun("delete"),
                "one of two sessions of a commit is there"
            );
            Ok(Some(kept.is_some()))
        }
        "say" => all(vec![by_key("a").await? == 1, by_key("b").await? == 1, by_key("c").await? == 1]),
        "much" => {
            let Some(doomed) = doomed else { return Ok(None) };
            let count = kit.entries(&doomed.session_ref()).await?.len();
            ensure!(count == 0 || count == MUCH, "{count} of {MUCH} entries of a commit are there");
            Ok(Some(count > 0))
        }
        "run" => {
            let Some(session) = kept.as_ref().map(|row| row.session_ref()) else { return Ok(Some(false)) };
            let state = kit.find_run(&session, "r").await?.map(|run| run.state);
            let lease = kit.lease_named(LeaseName::Session(session.clone())).await?;
            let events = kit.events(kit.stream(&session, "runs")).await?;
            all(vec![
                state == Some(RunState::Running),
                lease.is_some_and(|lease| lease.epoch == 1),
                events.len() == 1,
                by_key("turn/t/start").await? == 1,
            ])
        }
        "records" => {
            let one = kit.record("c", "one").await?.is_some();
            all(vec![one, kit.record("c", "two").await?.is_some()])
        }
        "delete" => Ok(kept.map(|_| doomed.is_none())),
        "again" => Ok(Some(kit.record("c", "again").await?.is_some())),
        _ => Ok(None),
    }
}
