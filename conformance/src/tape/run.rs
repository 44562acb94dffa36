//! Playing a tape on a fresh site, and what a clause says of one that fails.

use std::time::Duration;

use super::judge::{Divergence, Halt, Played, Tally};
use super::play::{concurrent, killed, sequential};
use super::script::{Player, Tape, line};
use super::shrink::{Bounds, shrink};
use crate::context::Context;
use crate::verdict::{Outcome, Stop, Verdict};

/// No tape takes longer than this: a store that hangs must not take the clause along.
const LONGEST: Duration = Duration::from_secs(25);

/// Plays a tape on a site of its own.
pub(crate) async fn play(cx: &Context, tape: &Tape) -> Played<Tally> {
    let site = cx.harness.provision().await;
    let site = site.map_err(|error| Halt::Other(Verdict::Error(format!("no site: {error}"))))?;
    let played = tokio::time::timeout(LONGEST, async {
        match tape.player {
            Player::Sequential => sequential::play(cx, site.clone(), tape).await,
            Player::Concurrent => concurrent::play(cx, site.clone(), tape).await,
            Player::Killed => killed::play(cx, site.clone(), tape).await,
        }
    });
    let played = match played.await {
        Ok(played) => played,
        Err(_) => Err(Halt::diverged(0, "a hang", format!("the tape was not played within {LONGEST:?}"))),
    };
    let removed = cx.harness.destroy(&site).await;
    let tally = played?;
    removed.map_err(|error| Halt::Other(Verdict::Error(format!("the site stays: {error}"))))?;
    Ok(tally)
}

/// Plays the tape that somebody asked for.
pub(crate) async fn replay(cx: &Context, json: &str) -> Outcome {
    let tape = Tape::from_json(json).map_err(Stop::error)?;
    let steps = tape.steps.len();
    match play(cx, &tape).await {
        Ok(tally) => {
            count(cx, tally);
            Ok(())
        }
        Err(Halt::Other(verdict)) => Err(stop(verdict)),
        Err(Halt::Diverged(divergence)) => Err(told(&tape, &divergence, steps, 0)),
    }
}

fn count(cx: &Context, tally: Tally) {
    cx.count("tapes", 1);
    cx.count("steps", tally.steps);
    cx.count("commits that landed", tally.landed);
    cx.count("commits that were refused", tally.refused);
    cx.count("looks", tally.looks);
}

/// Plays a tape for a clause. One that fails is made short first.
pub(crate) async fn judge(cx: &Context, tape: Tape, bounds: Bounds) -> Outcome {
    match play(cx, &tape).await {
        Ok(tally) => {
            count(cx, tally);
            Ok(())
        }
        Err(Halt::Other(verdict)) => Err(stop(verdict)),
        Err(Halt::Diverged(divergence)) => {
            let steps = tape.steps.len();
            let again =
                move |tape: Tape| -> std::pin::Pin<Box<dyn Future<Output = Option<Divergence>> + Send + '_>> {
                    Box::pin(async move {
                        match play(cx, &tape).await {
                            Err(Halt::Diverged(divergence)) => Some(*divergence),
                            _ => None,
                        }
                    })
                };
            let failing = shrink(tape, *divergence, bounds, &again).await;
            Err(told(&failing.tape, &failing.divergence, steps, failing.tries))
        }
    }
}

/// What a clause says of a tape that fails.
fn told(tape: &Tape, divergence: &Divergence, steps: usize, tries: usize) -> Stop {
    let step = tape.steps.get(divergence.step).map(line).unwrap_or_default();
    let shrunk = match tries {
        0 => String::new(),
        tries => format!(", shrunk from {steps} in {tries} tries"),
    };
    let (at, of) = (divergence.step + 1, tape.steps.len());
    let text = format!("{} (step {at} of {of}{shrunk}: {step})", divergence.text);
    Stop::fail(text).with_tape(tape.to_json())
}

fn stop(verdict: Verdict) -> Stop {
    match verdict {
        Verdict::NotRun(text) => Stop::not_run(text),
        Verdict::Inconclusive(text) => Stop::inconclusive(text),
        other => Stop::error(other.to_string()),
    }
}
