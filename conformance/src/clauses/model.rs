//! Tapes: long mixed runs, held step by step against a plain model of the contract.

use std::time::{Duration, Instant};

use turnkeep_core::Durability;

use crate::clause::Kind;
use crate::context::Context;
use crate::tape::generate::{self, Plan};
use crate::tape::play::killed;
use crate::tape::run;
use crate::tape::script::Player;
use crate::tape::shrink::Bounds;
use crate::verdict::Outcome;

clauses! { ($) model_tests;
    "MOD-001" mod_001_sequential_tapes_agree_with_the_model {
        title: "Whatever clients do one after the other, in any mixture, every answer and every read is that of a plain model of the contract.",
        why: "What is promised part by part must hold where the parts meet: a fork of a session with an open run, a key in a branch that was left.",
        catches: "a backend whose shortcut is right for each op and wrong for two of them",
        timeout: LONGEST,
    }
    "MOD-002" mod_002_concurrent_tapes_have_one_order_that_explains_them {
        title: "Whatever clients do at the same time, some order of their commits and reads that fits real time explains every answer and what is stored: of many claims and leases at once, one wins.",
        kind: Kind::Stochastic,
        why: "Two agents that were both told yes overwrite each other's work.",
        catches: "a backend that decides on a picture of the store which is not the latest",
        timeout: LONGEST,
    }
    "MOD-003" mod_003_tapes_cut_by_a_kill_keep_what_was_acknowledged {
        title: "A process killed in the middle of a mixed run leaves every step that it had acknowledged, the one under way whole or absent, and nothing else; another one plays on from there.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        why: "Laptops are shut and containers are killed while agents are at work.",
        catches: "a backend that keeps in memory what it said was written",
        peer: Some(killed::peer),
        timeout: LONGEST,
    }
    "MOD-004" mod_004_tapes_with_dropped_commits_agree_with_the_model {
        title: "A commit that its caller dropped at any of its awaits, in any mixture, is whole or absent, and all that follows is as the model has it.",
        kind: Kind::Stochastic,
        why: "A cancelled request, a timeout and a closed window drop futures at every await there is.",
        catches: "a backend that leaves a half-made picture in a cache when its caller goes away",
        timeout: LONGEST,
    }
}

const LONGEST: Duration = Duration::from_secs(170);

/// How much shrinking may cost.
const BOUNDS: Bounds = Bounds { tries: 600, time: Duration::from_secs(25) };

/// Draws so many tapes, each from a seed of its own, and plays them; or plays the one that somebody asked for.
async fn tapes(cx: &Context, count: u64, plan: Plan) -> Outcome {
    if let Some(tape) = &cx.settings.tape {
        return run::replay(cx, tape).await;
    }
    // A slow machine plays fewer; what was played is in the evidence.
    let ends = Instant::now() + cx.settings.longest.mul_f64(0.5);
    for tape in 0..count {
        if Instant::now() >= ends {
            break;
        }
        let seed = cx.seed().wrapping_mul(1_000_003).wrapping_add(tape);
        run::judge(cx, generate::tape(Plan { seed, ..plan }), BOUNDS).await?;
    }
    Ok(())
}

async fn mod_001_sequential_tapes_agree_with_the_model(cx: &Context) -> Outcome {
    let (count, steps) = cx.scaled((4, 60), (12, 120), (400, 200));
    let player = Player::Sequential;
    tapes(cx, count, Plan { clause: "MOD-001", seed: 0, player, clients: 3, steps, drops: false }).await
}

async fn mod_002_concurrent_tapes_have_one_order_that_explains_them(cx: &Context) -> Outcome {
    let (count, steps) = cx.scaled((3, 48), (12, 120), (400, 200));
    let player = Player::Concurrent;
    tapes(cx, count, Plan { clause: "MOD-002", seed: 0, player, clients: 4, steps, drops: false }).await
}

async fn mod_003_tapes_cut_by_a_kill_keep_what_was_acknowledged(cx: &Context) -> Outcome {
    let (count, steps) = cx.scaled((3, 48), (24, 60), (600, 120));
    let player = Player::Killed;
    tapes(cx, count, Plan { clause: "MOD-003", seed: 0, player, clients: 3, steps, drops: false }).await
}

async fn mod_004_tapes_with_dropped_commits_agree_with_the_model(cx: &Context) -> Outcome {
    let (count, steps) = cx.scaled((2, 60), (8, 120), (300, 200));
    let player = Player::Sequential;
    tapes(cx, count, Plan { clause: "MOD-004", seed: 0, player, clients: 3, steps, drops: true }).await
}
