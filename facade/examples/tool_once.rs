//! A tool that changes the world, and is never executed twice by accident.
//!
//! It pays an invoice: a line in a ledger, which stands for a bank. Whoever executes it claims it first. If the process
//! dies in the middle, nobody knows whether the money went: the next one does not try again, but asks a person.
//!
//! ```text
//! cargo run -p turnkeep --example tool_once -- PLACE            pay, unless it was paid
//! cargo run -p turnkeep --example tool_once -- PLACE crash      die after the money went, before that is recorded
//! cargo run -p turnkeep --example tool_once -- PLACE retry      a person looked: it did not go; pay once more
//! cargo run -p turnkeep --example tool_once -- PLACE give-up    a person looked: it went; never try again
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that tells what it did")]

use std::io::Write;
use std::path::Path;

use turnkeep::{ClaimState, Claiming, Message, OpenOptions, Payload, Result, Session};

/// One payment, whoever asks for it and however often: the key of its claim.
const PAYMENT: &str = "invoice/17";

/// The bank. It does what it is told, each time.
fn pay(ledger: &Path) -> std::io::Result<()> {
    let mut ledger = std::fs::OpenOptions::new().create(true).append(true).open(ledger)?;
    ledger.write_all(b"paid invoice 17\n")
}

/// A turn in which the model wants the invoice paid. Answers what the agent says.
async fn turn(session: &Session, ledger: &Path, crash: bool) -> Result<String> {
    let run = session.begin_run(Message::user("pay invoice 17")).await?;
    let said = match run.claim(PAYMENT).tool("pay").await? {
        Claiming::Won(claim) => {
            pay(ledger).expect("the ledger can be written");
            if crash {
                // As by a power cut: nothing is closed, nothing is told.
                std::process::abort();
            }
            claim.complete(Payload::new(r#"{"receipt":4711}"#)?).await?;
            "paid".to_owned()
        }
        Claiming::Lost(record) => match record.state {
            ClaimState::Completed => {
                let receipt = record.result.as_ref().map_or("none", Payload::as_str);
                format!("was paid before, with {receipt}; not paid again")
            }
            ClaimState::Interrupted => "may have been paid; look, then say `retry` or `give-up`".to_owned(),
            state => format!("is {}; not paid", state.as_str()),
        },
    };
    run.complete([Message::assistant(said.as_str())]).await?;
    Ok(said)
}

/// What the program does, in a folder of its own.
pub async fn perform(place: &Path, word: Option<&str>) -> Result<String> {
    let project = place.join("project");
    std::fs::create_dir_all(&project).expect("the folder can be made");
    // Opening the workspace recovers what a dead process left: its run, and its claim.
    let ws = OpenOptions::new().state_root(place.join("state")).open(project).await?;
    let session = match ws.sessions().recent().await? {
        Some(session) => session,
        None => ws.sessions().create().title("invoices").await?,
    };
    match word {
        Some("retry") => session.claims().request_retry(PAYMENT).await?,
        Some("give-up") => session.claims().abandon(PAYMENT).await?,
        _ => {}
    }
    let said = turn(&session, &place.join("ledger"), word == Some("crash")).await?;
    ws.close().await?;
    Ok(said)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(place) = words.first() else {
        eprintln!("give a folder for the example, and perhaps: crash, retry, give-up");
        return Ok(());
    };
    let said = perform(Path::new(place), words.get(1).map(String::as_str)).await?;
    println!("the invoice {said}");
    Ok(())
}
