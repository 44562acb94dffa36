//! The store's side of a tape: a site, a clock, the clients with what they know.

use std::collections::BTreeMap;
use std::sync::Arc;

use turnkeep_core::{Clock, ManualClock, OwnerId, Store};

use super::mind::Handle;
use super::model::World;
use super::observe::Names;
use super::script::{Act, Player, Tape};
use super::speaker::Speaker;
use crate::context::Context;
use crate::harness::{OpenWith, Site};
use crate::kit::{Kit, payload, put};
use crate::verdict::{Outcome, Stop};

/// A client of the site.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) handle: Handle,
    pub(crate) kit: Kit,
}

/// Where a tape is played.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    cx: &'a Context,
    pub(crate) site: Site,
    clock: Option<ManualClock>,
    /// One for all clients, or one each.
    speakers: Vec<Speaker>,
    clients: BTreeMap<u32, Client>,
    /// Where a store is gone with its last handle, one that stays.
    keeper: Option<Arc<dyn Store>>,
    generations: BTreeMap<u32, u32>,
}

impl<'a> Stage<'a> {
    /// A stage on a site, with no client yet.
    pub(crate) fn new(cx: &'a Context, site: Site, tape: &Tape) -> Self {
        let mut lives = Vec::new();
        for step in &tape.steps {
            if let Act::Commit(change) = &step.act {
                lives.extend(change.ops.iter().flat_map(|op| op.lives()));
            }
        }
        let clock = cx.manifest.policies.clock.then(ManualClock::default);
        let speaker = Speaker::new(Names::new(lives.into_iter(), clock.is_some()));
        let speakers = if shared(tape) { 1 } else { tape.clients as usize };
        Self {
            cx,
            site,
            speakers: vec![speaker; speakers.max(1)],
            clock,
            clients: BTreeMap::new(),
            keeper: None,
            generations: BTreeMap::new(),
        }
    }

    /// What the model has to know of the store.
    pub(crate) fn world(&self) -> World {
        World { clock: self.clock.is_some(), liveness: self.cx.manifest.capabilities.owner_liveness }
    }

    /// The time of the clock, in milliseconds.
    pub(crate) fn now(&self) -> i64 {
        self.clock.as_ref().map_or(0, |clock| clock.now().as_millis())
    }

    /// Sets the clock where there is one.
    pub(crate) fn set_clock(&self, now: i64) {
        if let Some(clock) = &self.clock {
            clock.set(turnkeep_core::Timestamp::from_millis(now));
        }
    }

    /// Lets store time pass, where it can be set.
    pub(crate) fn pass_ms(&self, ms: i64) {
        if let Some(clock) = &self.clock {
            clock.advance_ms(ms);
        }
    }

    async fn handle(&self) -> Outcome<Arc<dyn Store>> {
        let clock = self.clock.clone().map(|clock| Arc::new(clock) as Arc<dyn Clock>);
        let opened = self.cx.harness.open(&self.site, OpenWith { clock }).await;
        opened.map_err(|error| Stop::fail(format!("a client cannot open: {error}")))
    }

    /// Opens the next handle of a client.
    pub(crate) async fn open(&mut self, client: u32) -> Outcome<Client> {
        if self.keeper.is_none() && !self.cx.manifest.capabilities.persistent {
            self.keeper = Some(self.handle().await?);
        }
        let store = self.handle().await?;
        let generation = self.generations.entry(client).or_default();
        *generation += 1;
        let handle = (client, *generation);
        self.knows(handle, store.info().owner);
        let client = Client { handle, kit: Kit::of(store, self.cx.drawer()) };
        self.clients.insert(client.handle.0, client.clone());
        Ok(client)
    }

    /// A handle was opened, here or in another process.
    pub(crate) fn knows(&mut self, handle: Handle, owner: OwnerId) {
        let generation = self.generations.entry(handle.0).or_default();
        *generation = handle.1.max(*generation);
        self.speakers.iter_mut().for_each(|speaker| speaker.knows(handle, owner));
    }

    /// A client, opened if it is not.
    pub(crate) async fn client(&mut self, client: u32) -> Outcome<Client> {
        match self.clients.get(&client) {
            Some(client) => Ok(client.clone()),
            None => self.open(client).await,
        }
    }

    /// Whether a client has a handle.
    pub(crate) fn is_open(&self, client: u32) -> bool {
        self.clients.contains_key(&client)
    }

    /// Closes a client's handle.
    pub(crate) async fn close(&mut self, client: u32) -> Outcome<Option<Handle>> {
        match self.clients.remove(&client) {
            Some(client) => {
                client.kit.store.close().await?;
                Ok(Some(client.handle))
            }
            None => Ok(None),
        }
    }

    /// Closes every handle. One that was broken on purpose may answer an error.
    pub(crate) async fn close_all(&mut self) {
        for client in std::mem::take(&mut self.clients).into_values() {
            let _ = client.kit.store.close().await;
        }
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.close().await;
        }
    }

    /// The names that all share.
    pub(crate) fn names(&self) -> &Names {
        &self.speakers[0].names
    }

    /// Who speaks for a client.
    pub(crate) fn speaker(&mut self, client: u32) -> &mut Speaker {
        let place = client as usize % self.speakers.len();
        &mut self.speakers[place]
    }
}

/// Whether what one client learns all know.
pub(crate) fn shared(tape: &Tape) -> bool {
    tape.player != Player::Concurrent
}

/// Waits until whatever a client gave up on is over: what it commits afterwards comes after it.
pub(crate) async fn settle(client: &Client) -> Outcome {
    let mut post = put("fence-posts", "post", "0");
    post.payload = payload("1");
    client.kit.apply(client.kit.commit().op(turnkeep_core::Op::PutRecord(post))).await?;
    Ok(())
}
