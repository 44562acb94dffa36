//! The tables as the rows that make them: what a log begins anew with when it has grown too long.

use std::sync::Arc;

use turnkeep_core::model::{Entry, Event, LeaseName};
use turnkeep_core::rules::{SessionChange, Write, WriteSet};
use turnkeep_core::{Receipt, Result, SessionRef};

use crate::MemoryStore;
use crate::tables::{Life, Tables, Workspace};

/// Entries or events of one write, so that none gets as long as a conversation.
const CHUNK: usize = 256;

impl Tables {
    /// Gives write sets, each with its activity number, that [`apply`](Self::apply) makes equal tables of. What waits
    /// for a purge is left out: for the new tables it never was.
    ///
    /// # Errors
    /// What `take` answers, at once.
    pub fn image(&self, mut take: impl FnMut(u64, WriteSet) -> Result<()>) -> Result<()> {
        for (id, workspace) in &self.workspaces {
            let mut give = |writes: Vec<Write>| {
                if writes.is_empty() {
                    return Ok(());
                }
                let (workspace_id, receipt) = (id.clone(), Receipt::default());
                take(workspace.mark, WriteSet { workspace: workspace_id, writes, receipt })
            };
            // The mark of a workspace may be all that is left of it.
            give((workspace.mark > 0).then_some(Write::TouchWorkspace).into_iter().collect())?;
            for life in workspace.lives.values() {
                life_image(life, &mut give)?;
            }
            ledger_image(workspace, &mut give)?;
        }
        Ok(())
    }
}

fn life_image(life: &Life, give: &mut impl FnMut(Vec<Write>) -> Result<()>) -> Result<()> {
    let session = life.row.session_ref();
    let row = Box::new(life.row.clone());
    give(vec![
        Write::Session { row, change: SessionChange::New },
        Write::Segments { session: session.clone(), segments: life.segments.values().copied().collect() },
    ])?;
    let entries: Vec<&Arc<Entry>> = life.entries.values().collect();
    for chunk in entries.chunks(CHUNK) {
        let entries = chunk.iter().map(|entry| Entry::clone(entry)).collect();
        give(vec![Write::Entries { session: session.clone(), entries }])?;
    }
    give(life.runs.values().map(|run| Write::Run { run: Box::new((**run).clone()), new: true }).collect())?;
    let stream = |row| Write::Stream { session: session.clone(), row };
    give(life.streams.values().cloned().map(stream).collect())?;
    for (name, events) in &life.events {
        let events: Vec<&Arc<Event>> = events.values().collect();
        for chunk in events.chunks(CHUNK) {
            let events = chunk.iter().map(|event| Event::clone(event)).collect();
            give(vec![Write::Events { session: session.clone(), stream: name.clone(), events }])?;
        }
    }
    Ok(())
}

/// Records, ordinals, leases and receipts of whoever is there. Those of deleted sessions are dead already.
fn ledger_image(workspace: &Workspace, give: &mut impl FnMut(Vec<Write>) -> Result<()>) -> Result<()> {
    let there = |owner: Option<&SessionRef>| owner.is_none_or(|owner| workspace.lives.contains_key(owner));
    let ledger = &workspace.ledger;
    for record in ledger.records.values().filter(|record| there(record.owner.as_ref())) {
        give(vec![Write::Record { record: Box::new((**record).clone()) }])?;
    }
    let mut rest = Vec::new();
    for (owner, owned) in ledger.owned.iter().filter(|(owner, _)| there(owner.as_ref())) {
        let ordinals = owned.ordinals.iter();
        rest.extend(ordinals.map(|(collection, last)| Write::Ordinal {
            collection: collection.clone(),
            owner: owner.clone(),
            last: *last,
        }));
    }
    let held = ledger.leases.iter().filter(|(name, _)| workspace.may_hold(name));
    rest.extend(held.map(|(name, row)| Write::Lease { name: LeaseName::clone(name), row: row.clone() }));
    let known = ledger.requests.values().filter(|row| there(row.owner.as_ref()));
    rest.extend(known.map(|row| Write::Request(Box::new((**row).clone()))));
    give(rest)
}

impl MemoryStore {
    /// What the handle's tables would be made of anew. For tests.
    ///
    /// # Errors
    /// `Closed` or `Poisoned`.
    #[doc(hidden)]
    pub fn image(&self) -> Result<Vec<(u64, WriteSet)>> {
        let mut image = Vec::new();
        self.read("image", |tables| {
            tables.image(|activity, set| {
                image.push((activity, set));
                Ok(())
            })
        })?;
        Ok(image)
    }
}
