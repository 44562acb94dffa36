//! Killed while several clients write: what they were told is there.

use std::collections::BTreeMap;

use crate::clause::Running;
use crate::context::Context;
use crate::crash::{self, Books};
use crate::kit::{gather, spawn};
use crate::verdict::{Outcome, Stop};

/// Clients of one process.
const WRITERS: u64 = 4;
/// Appends of a client that nobody kills.
const MOST: u64 = 200;

/// Appends with several clients at once to the session that is called like the end of the role.
pub(super) fn write<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let (process, id) = role.split_once(' ').ok_or_else(|| Stop::error("a role without a session"))?;
        let mut writers = Vec::new();
        for (writer, kit) in (0..WRITERS).zip(cx.kits(WRITERS as usize).await?) {
            let (session, process) = (kit.there(id).await?, process.to_owned());
            writers.push(spawn(async move {
                for at in 0..MOST {
                    let text = format!("{process}/{writer}/{at}");
                    crash::begin(&text)?;
                    kit.say(&session, &text).await?;
                    crash::done(&text)?;
                }
                Ok(())
            }));
        }
        gather(writers).await.map(drop)
    })
}

/// Smoke: 4 kills, full: 30, soak: 1,000. Where processes share a store, two at a time write and one dies first.
pub(super) async fn dur_001_acknowledged_commits_survive_a_kill(cx: &Context) -> Outcome {
    let processes: &[&str] = if cx.manifest.capabilities.multi_process { &["one", "two"] } else { &["one"] };
    let (mut kill, most) = (0, cx.scaled(4, 30, 1_000));
    let mut kept = Vec::new();
    while kill < most {
        let kit = cx.kit().await?;
        let session = kit.create(&format!("session-{kill}")).await?;
        cx.leave(kit).await?;
        let mut peers = Vec::new();
        for process in processes {
            peers.push(cx.start_peer(&format!("{process} {session}"))?);
        }
        let mut books = Books::default();
        for peer in peers {
            books.add(cx.kill_at(peer, cx.moment("DUR-001", kill, 60)).await?);
            kill += 1;
        }
        let kit = cx.kit().await?;
        let seen = kit.texts(&session).await?;
        books.compare("appends of several writers", &seen)?;
        in_order(&seen)?;
        cx.leave(kit).await?;
        kept.push((session, seen));
    }
    // What one kill left, no later one takes.
    let kit = cx.kit().await?;
    for (session, seen) in kept {
        ensure_eq!(kit.texts(&session).await?, seen, "the entries of {session} after later kills");
    }
    Ok(())
}

/// Each writer appended one after the other, so nothing of it may be missing in between.
fn in_order(seen: &[String]) -> Outcome {
    let mut next = BTreeMap::new();
    for text in seen {
        let (writer, at) = text.rsplit_once('/').unwrap_or((text, ""));
        let expected: &mut u64 = next.entry(writer).or_default();
        ensure_eq!(at, expected.to_string(), "the next append of writer {writer} after a kill");
        *expected += 1;
    }
    Ok(())
}
