//! The clients of a round at once. After each round everybody waits, and the round must be explained by some order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::context::Context;
use crate::harness::Site;
use crate::kit::{gather, spawn};
use crate::tape::judge::{Halt, Played, Tally};
use crate::tape::model::Model;
use crate::tape::order::{Explained, Happened, ROUND, Seen, explain};
use crate::tape::script::{Act, Step, Tape};
use crate::tape::speaker::Speaker;
use crate::tape::stage::{Client, Stage};
use crate::verdict::{Outcome, Verdict};

/// Plays a tape from its beginning.
pub(crate) async fn play(cx: &Context, site: Site, tape: &Tape) -> Played<Tally> {
    let stage = Stage::new(cx, site, tape);
    let model = Model::new(stage.world(), stage.now(), tape.clients, false);
    let mut show = Show { stage, model, tally: Tally::default() };
    let played = show.run(tape).await;
    show.stage.close_all().await;
    played.map(|()| show.tally)
}

struct Show<'a> {
    stage: Stage<'a>,
    model: Model,
    tally: Tally,
}

impl Show<'_> {
    async fn run(&mut self, tape: &Tape) -> Played {
        for client in 0..tape.clients {
            self.stage.open(client).await?;
        }
        let mut round = Vec::new();
        for (at, step) in tape.steps.iter().enumerate() {
            match &step.act {
                Act::Meet => self.round(std::mem::take(&mut round)).await?,
                Act::Clock(ms) => {
                    // Time passes between rounds only, so that all of a round share one.
                    self.round(std::mem::take(&mut round)).await?;
                    self.stage.pass_ms(*ms);
                    self.model.pass_ms(*ms);
                }
                Act::Commit(_) | Act::Look(_) => round.push((at, step.clone())),
                Act::Reopen | Act::Purge | Act::Kill(_) => {}
            }
            if round.len() == ROUND {
                self.round(std::mem::take(&mut round)).await?;
            }
            self.tally.steps += 1;
        }
        self.round(round).await
    }

    async fn round(&mut self, steps: Vec<(usize, Step)>) -> Played {
        let Some((first, _)) = steps.first().cloned() else { return Ok(()) };
        let clock = Arc::new(AtomicU64::new(0));
        let mut clients = Vec::new();
        let mut numbers: Vec<u32> = steps.iter().map(|(_, step)| step.client).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for client in numbers {
            let own = steps.iter().filter(|(_, step)| step.client == client).cloned().collect();
            let act = Actor { client: self.stage.client(client).await?, clock: Arc::clone(&clock) };
            clients.push(spawn(act.play(self.stage.speaker(client).clone(), own)));
        }
        let mut happened = Vec::new();
        for (done, speaker) in gather(clients).await.map_err(|stop| Halt::from(stop).at(first))? {
            if let Some(step) = done.first() {
                *self.stage.speaker(step.handle.0) = speaker;
            }
            happened.extend(done);
        }
        happened.sort_by_key(|step: &Happened| step.invoked);
        let client = self.stage.client(0).await?;
        let stored =
            self.stage.names().observe(&client.kit).await.map_err(|stop| Halt::from(stop).at(first))?;
        for step in &happened {
            match &step.seen {
                Seen::Commit(Ok(_)) => self.tally.landed += 1,
                Seen::Commit(Err(_)) => self.tally.refused += 1,
                Seen::Look(_) => self.tally.looks += 1,
            }
        }
        match explain(&self.model, &happened, &stored) {
            Explained::By(model) => {
                self.model = *model;
                Ok(())
            }
            Explained::ByNone(at, difference) => {
                let text = format!("no order of a round explains it: {}", difference.text);
                Err(Halt::diverged(at, "no order", text))
            }
            Explained::TooMany => {
                Err(Halt::Other(Verdict::Inconclusive("a round has too many orders to try".to_owned())))
            }
        }
    }
}

/// A client that does its steps of a round.
struct Actor {
    client: Client,
    clock: Arc<AtomicU64>,
}

impl Actor {
    async fn play(
        self,
        mut speaker: Speaker,
        steps: Vec<(usize, Step)>,
    ) -> Outcome<(Vec<Happened>, Speaker)> {
        let handle = self.client.handle;
        let mut happened = Vec::new();
        for (at, step) in steps {
            let invoked;
            let seen = match &step.act {
                Act::Commit(change) => {
                    let (commit, built) = speaker.translate(handle, change);
                    invoked = self.clock.fetch_add(1, Ordering::SeqCst);
                    let answer = self.client.kit.store.commit(commit).await;
                    match answer {
                        Ok(receipt) => {
                            let answer = speaker.names.answer(&receipt);
                            speaker.landed(handle, change, built, Some(&answer));
                            Seen::Commit(Ok(answer))
                        }
                        Err(error) => Seen::Commit(Err(error.kind())),
                    }
                }
                Act::Look(look) => {
                    invoked = self.clock.fetch_add(1, Ordering::SeqCst);
                    Seen::Look(speaker.names.look(&self.client.kit, &speaker.mind, look).await?)
                }
                _ => continue,
            };
            let returned = self.clock.fetch_add(1, Ordering::SeqCst);
            happened.push(Happened { at, handle, step, invoked, returned, seen });
        }
        Ok((happened, speaker))
    }
}
