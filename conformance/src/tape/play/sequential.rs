//! One step after the other: after each, every answer and every read must be the model's.

use std::collections::HashSet;

use turnkeep_core::query::Mark;
use turnkeep_core::{Error, ErrorKind, Receipt};

use crate::context::Context;
use crate::harness::Site;
use crate::kit::polled;
use crate::tape::judge::{Halt, Judge, Played, Tally, moves_workspace, written};
use crate::tape::look::Look;
use crate::tape::model::Model;
use crate::tape::script::{Act, Change, Step, Tape};
use crate::tape::stage::{Client, Stage, settle, shared};
use crate::tape::view::Difference;

/// Plays a tape from its beginning.
pub(crate) async fn play(cx: &Context, site: Site, tape: &Tape) -> Played<Tally> {
    let mut show = Show::new(cx, site, tape);
    let played = show.run(0, &tape.steps).await;
    show.stage.close_all().await;
    played.map(|()| show.judge.tally)
}

/// A stage with its judge.
pub(crate) struct Show<'a> {
    pub(crate) stage: Stage<'a>,
    pub(crate) judge: Judge,
    /// Every mark that the workspace had.
    marks: HashSet<Mark>,
}

impl<'a> Show<'a> {
    pub(crate) fn new(cx: &'a Context, site: Site, tape: &Tape) -> Self {
        let stage = Stage::new(cx, site, tape);
        let model = Model::new(stage.world(), stage.now(), tape.clients, shared(tape));
        Self { stage, judge: Judge::new(model), marks: HashSet::new() }
    }

    /// Plays steps, the first of which stands at this place on the tape.
    pub(crate) async fn run(&mut self, first: usize, steps: &[Step]) -> Played {
        for (at, step) in (first..).zip(steps) {
            self.step(step).await.map_err(|halt| halt.at(at))?;
            self.judge.tally.steps += 1;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Played {
        match &step.act {
            Act::Clock(ms) => {
                self.stage.pass_ms(*ms);
                self.judge.model.pass_ms(*ms);
                return Ok(());
            }
            Act::Kill(_) | Act::Meet => return Ok(()),
            Act::Reopen => {
                if let Some(handle) = self.stage.close(step.client).await? {
                    self.judge.model.bury(handle);
                }
            }
            _ => {}
        }
        let client = self.stage.client(step.client).await?;
        match &step.act {
            Act::Commit(change) => self.commit(&client, change).await,
            Act::Look(look) => self.look(&client, look).await,
            Act::Purge => {
                let purged = match client.kit.store.maintenance() {
                    Some(chores) => chores.purge().await.map(drop),
                    None => Ok(()),
                };
                if let Err(error) = purged
                    && error.kind() != ErrorKind::Unsupported
                {
                    return Err(Halt::diverged(0, "a purge", format!("the purge failed: {error}")));
                }
                self.inspect(&client).await
            }
            _ => self.inspect(&client).await,
        }
    }

    async fn commit(&mut self, client: &Client, change: &Change) -> Played {
        let (commit, built) = self.stage.speaker(client.handle.0).translate(client.handle, change);
        let before = client.kit.workspace_mark().await?;
        let commit = client.kit.store.commit(commit);
        let answer = match change.dropped {
            None => Some(commit.await),
            Some(polls) => polled(commit, polls as usize).await,
        };
        let Some(answer) = answer.filter(|answer| !unknown(answer)) else {
            settle(client).await?;
            let seen = self.stage.names().observe(&client.kit).await?;
            let landed = self.judge.decide(client.handle, change, &[], &seen).map_err(diverged)?;
            if landed {
                self.stage.speaker(client.handle.0).landed(client.handle, change, built, None);
            }
            return Ok(());
        };
        let seen = match &answer {
            Ok(receipt) => Ok(self.stage.names().answer(receipt)),
            Err(error) => Err(error.kind()),
        };
        self.judge.answered(client.handle, change, &seen).map_err(diverged)?;
        self.inspect(client).await?;
        match &seen {
            Ok(answer) => {
                self.stage.speaker(client.handle.0).landed(client.handle, change, built, Some(answer));
                if !answer.replayed {
                    for ((collection, key), version) in written(change, answer) {
                        let record = client.kit.record(collection, key).await?;
                        let read = record.map(|record| record.version);
                        if read != version {
                            let text =
                                format!("{collection}/{key}: told {version:?} for a put, {read:?} is read");
                            return Err(Halt::diverged(0, "a version", text));
                        }
                    }
                }
                let moved = !answer.replayed && (!answer.moved.is_empty() || moves_workspace(change, answer));
                self.mark(client, before, moved.then_some(true)).await
            }
            Err(_) => self.mark(client, before, Some(false)).await,
        }
    }

    /// The mark of the workspace moves with every change, to one that it never was, and not for a refusal.
    async fn mark(&mut self, client: &Client, before: Mark, moved: Option<bool>) -> Played {
        let now = client.kit.workspace_mark().await?;
        self.marks.insert(before);
        let well = match moved {
            Some(true) => !self.marks.contains(&now),
            Some(false) => now == before,
            None => true,
        };
        if well {
            return Ok(());
        }
        let text = format!("the mark of the workspace went from {} to {}", before.get(), now.get());
        Err(Halt::diverged(0, "the mark", text))
    }

    async fn look(&mut self, client: &Client, look: &Look) -> Played {
        self.judge.tally.looks += 1;
        let speaker = self.stage.speaker(client.handle.0);
        let seen = speaker.names.look(&client.kit, &speaker.mind, look).await?;
        let expected = self.judge.model.look(client.handle.0, look);
        if seen == expected {
            return Ok(());
        }
        let noun = look.at.noun();
        let text = format!(
            "pages of {noun}: expected {}, saw {}",
            crate::kit::brief(&expected),
            crate::kit::brief(&seen)
        );
        Err(Halt::diverged(0, format!("pages of {noun}"), text))
    }

    /// Everything that can be read is as the model has it.
    pub(crate) async fn inspect(&self, client: &Client) -> Played {
        let seen = self.stage.names().observe(&client.kit).await?;
        match self.judge.model.view().difference(&seen) {
            None => Ok(()),
            Some(difference) => Err(diverged(difference)),
        }
    }
}

fn unknown(answer: &Result<Receipt, Error>) -> bool {
    matches!(answer, Err(error) if error.kind() == ErrorKind::CommitUnknown)
}

pub(crate) fn diverged(difference: Difference) -> Halt {
    Halt::diverged(0, difference.what, difference.text)
}
