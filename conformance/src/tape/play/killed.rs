//! The first part in another process, which is killed; then everything acknowledged must be there, what was under way
//! may be, and nothing else. The rest is played on from what was found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnkeep_core::{ErrorKind, OwnerId, Receipt};

use super::sequential::{Show, diverged};
use crate::clause::Running;
use crate::context::Context;
use crate::harness::Site;
use crate::peer::{self, Peer};
use crate::tape::judge::{Halt, Played, Tally};
use crate::tape::look::Pages;
use crate::tape::mind::Handle;
use crate::tape::script::{Act, Change, Moment, Step, Tape, line};
use crate::tape::stage::Stage;
use crate::verdict::{Outcome, Stop, Verdict};

/// How long a process that has played its part waits to be killed.
const WAITS: Duration = Duration::from_secs(40);

/// What the process says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// A client has opened a handle.
    Opened(Handle, OwnerId),
    /// A step begins.
    Begins(usize),
    /// A step was answered.
    Did(usize, Answered),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answered {
    /// A commit, and whether it was a repeat.
    Receipt(Receipt, bool),
    /// The code of a refusal.
    Refused(String),
    Pages(Pages),
    /// A look was refused.
    Blind(String),
    Nothing,
}

/// The steps before the first kill, and its moment.
fn first_part(tape: &Tape) -> (&[Step], Moment) {
    let kill = tape.steps.iter().enumerate().find_map(|(at, step)| match step.act {
        Act::Kill(moment) => Some((at, moment)),
        _ => None,
    });
    let (at, moment) = kill.unwrap_or((tape.steps.len(), Moment::Acknowledged));
    (&tape.steps[..at], moment)
}

fn tell(said: &Said) -> Outcome {
    let line = serde_json::to_string(said);
    peer::tell(&line.map_err(|error| Stop::error(format!("a peer cannot write its line: {error}")))?)
}

/// What the process does: it plays its part and says each acknowledgement before it goes on.
pub(crate) fn peer<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let tape = Tape::from_json(role).map_err(Stop::error)?;
        let mut stage = Stage::new(cx, cx.site.clone(), &tape);
        for (at, step) in first_part(&tape).0.iter().enumerate() {
            tell(&Said::Begins(at))?;
            let answered = act(&mut stage, step).await?;
            tell(&Said::Did(at, answered))?;
        }
        tokio::time::sleep(WAITS).await;
        Err(Stop::error("nobody killed this process"))
    })
}

async fn act(stage: &mut Stage<'_>, step: &Step) -> Outcome<Answered> {
    if let Act::Clock(ms) = &step.act {
        stage.pass_ms(*ms);
        return Ok(Answered::Nothing);
    }
    if step.act == Act::Reopen {
        stage.close(step.client).await?;
    }
    let new = !stage.is_open(step.client);
    let client = stage.client(step.client).await?;
    if new {
        tell(&Said::Opened(client.handle, client.kit.store.info().owner))?;
    }
    let speaker = stage.speaker(step.client);
    match &step.act {
        Act::Commit(change) => {
            let (commit, built) = speaker.translate(client.handle, change);
            match client.kit.store.commit(commit).await {
                Ok(receipt) => {
                    let answer = speaker.names.answer(&receipt);
                    speaker.landed(client.handle, change, built, Some(&answer));
                    let replayed = receipt.replayed;
                    Ok(Answered::Receipt(receipt, replayed))
                }
                Err(error) => Ok(Answered::Refused(error.kind().code().to_owned())),
            }
        }
        Act::Look(look) => match speaker.names.look(&client.kit, &speaker.mind, look).await? {
            Ok(pages) => Ok(Answered::Pages(pages)),
            Err(kind) => Ok(Answered::Blind(kind.code().to_owned())),
        },
        Act::Purge => {
            if let Some(chores) = client.kit.store.maintenance() {
                match chores.purge().await {
                    Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error.into()),
                    _ => {}
                }
            }
            Ok(Answered::Nothing)
        }
        _ => Ok(Answered::Nothing),
    }
}

/// Plays a tape from its beginning.
pub(crate) async fn play(cx: &Context, site: Site, tape: &Tape) -> Played<Tally> {
    let (part, moment) = first_part(tape);
    let said = watch(cx.start_peer_at(&tape.to_json(), &site)?, part.len(), moment).await?;
    let mut show = Show::new(cx, site, tape);
    let played = show.after_the_kill(tape, &said).await;
    show.stage.close_all().await;
    played.map(|()| show.judge.tally)
}

/// Listens until the moment has come, kills, and gives everything that was said.
async fn watch(mut peer: Peer, steps: usize, moment: Moment) -> Played<Vec<Said>> {
    let last = steps.checked_sub(1);
    while last.is_some() {
        let Some(line) = peer.hear().await? else { break };
        match (parse(&line)?, moment) {
            (Said::Did(at, _), Moment::Acknowledged) if Some(at) == last => break,
            (Said::Begins(at), Moment::UnderWay(micros)) if Some(at) == last => {
                tokio::time::sleep(Duration::from_micros(u64::from(micros))).await;
                break;
            }
            _ => {}
        }
    }
    let killed = peer.kill().await?;
    killed.said.iter().map(|line| parse(line)).collect()
}

fn parse(line: &str) -> Played<Said> {
    serde_json::from_str(line)
        .map_err(|error| Halt::Other(Verdict::Error(format!("a peer spoke strangely: {error}"))))
}

impl Show<'_> {
    async fn after_the_kill(&mut self, tape: &Tape, said: &[Said]) -> Played {
        let mut under_way = None;
        let mut handles: BTreeMap<u32, Handle> = BTreeMap::new();
        let mut all = BTreeSet::new();
        for said in said {
            match said {
                Said::Opened(handle, owner) => {
                    self.stage.knows(*handle, *owner);
                    all.insert(*handle);
                    handles.insert(handle.0, *handle);
                }
                Said::Begins(at) => {
                    // A handle is given up before the next one is opened.
                    if let Some(Step { client, act: Act::Reopen }) = tape.steps.get(*at)
                        && let Some(handle) = handles.remove(client)
                    {
                        self.judge.model.bury(handle);
                    }
                    under_way = Some(*at);
                }
                Said::Did(at, answered) => {
                    under_way = None;
                    let Some(step) = tape.steps.get(*at) else { continue };
                    let handle = handles.get(&step.client).copied().unwrap_or((step.client, 0));
                    self.acknowledged(handle, step, answered).map_err(|halt| halt.at(*at))?;
                    self.judge.tally.steps += 1;
                }
            }
        }
        let next = first_part(tape).0.len();
        self.stage.set_clock(self.judge.model.now);
        let place = under_way.unwrap_or(next.saturating_sub(1));
        let under_way = under_way.and_then(|at| match tape.steps.get(at) {
            Some(Step { client, act: Act::Commit(change) }) => {
                Some((handles.get(client).copied().unwrap_or((*client, 0)), change))
            }
            _ => None,
        });
        let dead: Vec<Handle> = all.into_iter().collect();
        self.found(under_way, &dead).await.map_err(|halt| halt.at(place))?;
        self.run(next, &tape.steps[next..]).await
    }

    /// Holds what the process was answered against the model.
    fn acknowledged(&mut self, handle: Handle, step: &Step, answered: &Answered) -> Played {
        match (&step.act, answered) {
            (Act::Clock(ms), _) => self.judge.model.pass_ms(*ms),
            (Act::Commit(change), Answered::Receipt(receipt, replayed)) => {
                let speaker = self.stage.speaker(handle.0);
                let (_, built) = speaker.translate(handle, change);
                let mut answer = speaker.names.answer(receipt);
                answer.replayed = *replayed;
                speaker.landed(handle, change, built, Some(&answer));
                self.judge.answered(handle, change, &Ok(answer)).map_err(diverged)?;
            }
            (Act::Commit(change), Answered::Refused(code)) => {
                match self.judge.model.clone().commit(handle, change) {
                    Err(kind) if kind.code() == code => {
                        self.judge.answered(handle, change, &Err(kind)).map_err(diverged)?;
                    }
                    expected => {
                        let text = format!("{}: expected {expected:?}, saw {code}", line(step));
                        return Err(Halt::diverged(0, "an answer", text));
                    }
                }
            }
            (Act::Look(look), _) => {
                let expected = self.judge.model.look(handle.0, look);
                let same = match (&expected, answered) {
                    (Ok(expected), Answered::Pages(seen)) => expected == seen,
                    (Err(kind), Answered::Blind(code)) => kind.code() == code,
                    _ => false,
                };
                if !same {
                    let text = format!("{}: expected {expected:?}, saw {answered:?}", line(step));
                    return Err(Halt::diverged(0, "pages", text));
                }
                self.judge.tally.looks += 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// Opens the store that the kill left, and compares what is there.
    async fn found(&mut self, under_way: Option<(Handle, &Change)>, dead: &[Handle]) -> Played {
        let client = self.stage.client(0).await?;
        let seen = self.stage.names().observe(&client.kit).await?;
        let Some((handle, change)) = under_way else {
            dead.iter().for_each(|handle| self.judge.model.bury(*handle));
            return self.inspect(&client).await;
        };
        if self.judge.decide(handle, change, dead, &seen).map_err(diverged)? {
            let speaker = self.stage.speaker(handle.0);
            let (_, built) = speaker.translate(handle, change);
            speaker.landed(handle, change, built, None);
            self.judge.tally.landed += 1;
        }
        Ok(())
    }
}
