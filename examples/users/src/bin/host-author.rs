//! You write an agent: a turn with a tool round that a crash cannot hurt.
//!
//! ```text
//! cargo run -p turnkeep-examples --bin host-author -- /tmp/my-agent crash   # dies in the middle of a turn
//! cargo run -p turnkeep-examples --bin host-author -- /tmp/my-agent         # finds out, and tries again
//! ```
#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use turnkeep::message::{ToolCall, ToolResult};
use turnkeep::redact::CommonSecrets;
use turnkeep::{
    Error, Message, OpenOptions, Payload, Replay, Result, Run, RunError, Session, Workspace, WorkspaceOptions,
};

/// What a provider would do: it asks for a tool first, and answers once it has the result.
fn call_model(shown: &Replay) -> Message {
    let result = shown.messages.iter().rev().find(|shown| shown.message.results().next().is_some());
    match result {
        None => {
            let call = ToolCall::new("call-1", "count_loaves", Payload::empty());
            Message::assistant_with_calls("I count them.", [call])
        }
        Some(result) => Message::assistant(format!("There are {} loaves.", result.message.text())),
    }
}

async fn open(folder: &str) -> Result<Workspace> {
    let project = format!("{folder}/project");
    std::fs::create_dir_all(&project).map_err(|error| {
        Error::new(turnkeep::ErrorKind::Io, "the project cannot be made").with_source(error)
    })?;
    // Keys and passwords are hidden before anything is stored.
    let options = WorkspaceOptions::default().redactor(CommonSecrets::new()?);
    OpenOptions::new().state_root(format!("{folder}/state")).workspace(options).open(project).await
}

/// Calls the model until it wants no tool any more.
async fn turn(session: &Session, run: &Run, crash: bool) -> Result<Message> {
    loop {
        run.phase("calling the model");
        // The run's own entries are part of what it is shown.
        let answer = call_model(&session.replay().await?);
        let calls: Vec<String> = answer.tool_calls().map(|call| call.id.clone()).collect();
        if calls.is_empty() {
            return Ok(answer);
        }
        run.append([answer]).await?;
        run.append([Message::tool_results(
            calls.iter().map(|id| ToolResult::new(id.as_str(), "seven", false)),
        )])
        .await?;
        if crash {
            println!("crashing; everything so far is on disk");
            std::process::exit(3);
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().unwrap_or_else(|| "my-agent".into());
    let crash = args.next().as_deref() == Some("crash");

    let ws = open(&folder).await?;
    for found in &ws.recovered().interrupted {
        println!("an earlier run was interrupted: {:?} when its process died", found.from);
    }
    let session = match ws.sessions().recent().await? {
        Some(session) => session,
        None => ws.sessions().create().title("the bakery").await?,
    };
    // Durable before the model is called. A run that failed before is tried again, with the same input.
    let run = match session.runs().list().limit(1).await?.items.pop() {
        Some(last) if !matches!(last.state, turnkeep::model::RunState::Completed) => {
            session.retry_run(last.id).await?
        }
        _ => session.begin_run(Message::user("How many loaves? My password=hunter2 opens the till.")).await?,
    };
    match turn(&session, &run, crash).await {
        Ok(answer) => run.complete([answer]).await?, // the answer and "completed": one commit
        Err(error) => run.fail(RunError::host("turn").message(error.to_string())).await?,
    }
    for said in session.history().await?.items {
        println!(
            "{}: {}",
            said.entry.role.map(|role| role.to_string()).unwrap_or_default(),
            said.entry.text.unwrap_or_default()
        );
    }
    ws.close().await
}
