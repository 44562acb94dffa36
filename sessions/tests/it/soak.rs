//! The soak in its short form: processes at work, killed at random, and nothing acknowledged is lost.
#![cfg(unix)]

#[allow(dead_code, reason = "a program of its own: examples/soak")]
#[path = "../../examples/soak/main.rs"]
mod program;

/// How long it works. `cargo run -p turnkeep-sessions --example soak -- --seconds 600` works longer.
const SECONDS: u64 = 30;

#[test]
fn a_soak_with_kills_loses_nothing_and_does_nothing_twice() {
    let arguments = ["--exact", "soak::child_is_one_of_the_workers", "--ignored", "--nocapture"];
    let findings = program::soak(SECONDS, 17, &arguments);
    println!("{findings}");
    assert!(findings.wrong.is_empty(), "{findings}");
    // A soak in which nothing happened proves nothing.
    for what in [
        "kills",
        "entries acknowledged",
        "runs completed",
        "claims completed",
        "forks",
        "counted under two leases",
        "pieces of text streamed",
        "entries that came while following",
    ] {
        assert!(findings.counts.get(what).is_some_and(|count| *count > 0), "no {what}: {findings}");
    }
}

#[test]
#[ignore = "run in child processes by the other test of this module"]
fn child_is_one_of_the_workers() {
    if let Ok(place) = std::env::var(program::WORKER) {
        program::worker(&place);
    }
}
