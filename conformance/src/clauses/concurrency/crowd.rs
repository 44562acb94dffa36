//! Many processes on one store.

use crate::clause::Running;
use crate::context::Context;
use crate::kit::no;
use crate::peer;
use crate::verdict::{Outcome, Stop};

/// A process that appends: its role is its name and how many entries it writes.
pub(super) fn append<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let (name, count) = role.split_once(' ').unwrap_or((role, "0"));
        let count: u32 = count.parse().map_err(|_| Stop::error(format!("{role:?} is no role")))?;
        let kit = cx.kit().await?;
        let row = kit.find("shared").await?.ok_or_else(|| Stop::fail("the session is not there"))?;
        for at in 0..count {
            let number = kit.say(&row.session_ref(), &format!("{name} {at}")).await?;
            peer::tell(&format!("{number} {name} {at}"))?;
        }
        Ok(())
    })
}

pub(super) async fn con_011_many_processes_append_without_one_error(cx: &Context) -> Outcome {
    let (processes, each) = cx.scaled((3, 12), (8, 200), (16, 500));
    let kit = cx.kit().await?;
    let session = kit.create("shared").await?;
    let started = (0..processes).map(|at| cx.start_peer(&format!("p{at} {each}")));
    let started = started.collect::<Outcome<Vec<_>>>()?;
    let mut told: Vec<(u32, String)> = Vec::new();
    for process in started {
        for line in process.ended().await? {
            let (number, words) = line.split_once(' ').unwrap_or_default();
            let number =
                number.parse().map_err(|_| Stop::error(format!("a peer spoke strangely: {line}")))?;
            told.push((number, words.to_owned()));
        }
    }
    told.sort();
    ensure_eq!(told.len() as u32, processes * each, "appends that were acknowledged");
    let stored = kit.entries(&session).await?.into_iter();
    let stored: Vec<_> = stored.map(|entry| (entry.number, entry.text.unwrap_or_default())).collect();
    let told: Vec<_> = told.into_iter().map(|(number, words)| (no(number), words)).collect();
    ensure_eq!(stored, told, "each number with the words that it was told for");
    for at in 0..processes {
        let own: Vec<_> = stored
            .iter()
            .filter(|(_, words)| words.starts_with(&format!("p{at} ")))
            .map(|it| &it.1)
            .collect();
        let asked: Vec<_> = (0..each).map(|step| format!("p{at} {step}")).collect();
        ensure!(own.into_iter().eq(asked.iter()), "the entries of process {at} are in another order");
    }
    cx.count("appends", u64::from(processes * each));
    Ok(())
}

/// A process that opens, and leaves one session of its own.
pub(super) fn open<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let kit = cx.kit().await?;
        let session = kit.create(role).await?;
        kit.say(&session, "here").await?;
        kit.store.close().await?;
        Ok(())
    })
}

pub(super) async fn con_012_many_processes_open_one_fresh_store(cx: &Context) -> Outcome {
    let (processes, rounds) = cx.scaled((4, 2), (16, 50), (16, 150));
    for round in 0..rounds {
        let site = cx.harness.provision().await.map_err(|error| Stop::error(format!("no site: {error}")))?;
        let started = (0..processes).map(|at| cx.start_peer_at(&format!("of {at}"), &site));
        let seen = one_round(cx, started.collect(), &site).await;
        let removed = cx.harness.destroy(&site).await;
        let seen = seen?;
        ensure_eq!(seen.len(), processes, "sessions of all openers of round {round}: {seen:?}");
        removed.map_err(|error| Stop::error(format!("the site could not be removed: {error}")))?;
    }
    cx.count("rounds", rounds);
    Ok(())
}

async fn one_round(
    cx: &Context,
    started: Outcome<Vec<peer::Peer>>,
    site: &crate::harness::Site,
) -> Outcome<Vec<String>> {
    for process in started? {
        process.ended().await?;
    }
    let store = cx.try_open_at(site).await?;
    let kit = crate::kit::Kit::new(store, cx);
    let mut ids = Vec::new();
    for row in kit.sessions(kit.list_by_id()).await? {
        ensure_eq!(kit.texts(&row.session_ref()).await?, ["here"], "what opener {} wrote", row.id);
        ids.push(row.id.as_str().to_owned());
    }
    kit.store.close().await?;
    Ok(ids)
}
