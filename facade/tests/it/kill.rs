//! Processes that are killed or stopped in the middle of a turn, and what the next one finds at once.
#![cfg(all(feature = "sqlite", unix))]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use turnkeep::message::{ToolCall, ToolResult};
use turnkeep::model::{RunState, TitleSource};
use turnkeep::{
    Draft, ErrorKind, Message, OpenOptions, Payload, RecoveryReport, Session, WaitingFor, Workspace,
    WorkspaceOptions,
};

/// How far the child comes before it waits for its end.
const POINTS: [&str; 4] = ["admitted", "calls", "results", "streamed"];

fn options(place: &Path) -> OpenOptions {
    OpenOptions::new().state_root(place.join("state"))
}

async fn open(place: &Path) -> Workspace {
    options(place).open(place.join("project")).await.unwrap()
}

/// A process in the middle of a turn. Killed when dropped, so that none is left.
struct Agent(Child);

impl Agent {
    /// Starts a process that runs [`child_works_until_a_point`] and waits until it is there.
    fn start(place: &Path, point: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child_works_until_a_point", "--ignored", "--nocapture"])
            .env("KILL_PLACE", place)
            .env("KILL_POINT", point)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let there = lines.by_ref().map_while(Result::ok).any(|line| line.contains("the child is there"));
        assert!(there, "the child ended before it was there");
        // The pipe stays open, so that a later word of the child does not end it.
        std::thread::spawn(move || lines.for_each(drop));
        Self(child)
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
#[ignore = "run in child processes by the other tests of this module"]
async fn child_works_until_a_point() {
    let (Some(place), Some(point)) = (std::env::var_os("KILL_PLACE"), std::env::var_os("KILL_POINT")) else {
        return;
    };
    let ws = open(&PathBuf::from(place)).await;
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("change it")).await.unwrap();
    let work = async {
        if point == "admitted" {
            return;
        }
        let call = ToolCall::new("c1", "write", Payload::empty());
        run.append([Message::assistant_with_calls("writing", [call])]).await.unwrap();
        if point == "waiting" {
            run.wait_for(WaitingFor::Approval).await.unwrap();
        }
        if point == "calls" || point == "waiting" {
            return;
        }
        run.append([Message::tool_results([ToolResult::new("c1", "written", false)])]).await.unwrap();
        if point == "streamed" {
            run.stream("I have chan").await.unwrap();
        }
    };
    work.await;
    println!("the child is there");
    tokio::time::sleep(Duration::from_secs(60)).await;
}

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("project")).unwrap();
    place
}

async fn only_session(ws: &Workspace) -> Session {
    ws.sessions().recent().await.unwrap().expect("the session is there")
}

fn closed(report: &RecoveryReport) -> usize {
    report.interrupted.len()
}

#[tokio::test]
async fn case_17_a_killed_turn_is_interrupted_at_once_and_the_next_one_works() {
    let place = place();
    for (round, point) in POINTS.iter().enumerate() {
        Agent::start(place.path(), point).kill();
        // No waiting for any expiry: the lease lives for a minute.
        let ws = open(place.path()).await;
        assert_eq!(closed(ws.recovered()), 1, "{point}");
        assert_eq!(ws.sessions().list().count().await.unwrap(), round as u64 + 1);
        let session = only_session(&ws).await;
        let run = session.runs().list().await.unwrap().items.remove(0);
        assert_eq!(run.state, RunState::Interrupted, "{point}");
        let said: Vec<String> = session
            .history()
            .await
            .unwrap()
            .items
            .iter()
            .map(|item| item.message.as_ref().unwrap().text())
            .collect();
        let all = ["change it", "writing", "written", "I have chan"];
        assert_eq!(said, all[..=round], "{point}: everything acknowledged, and nothing else");
        assert!(session.replay().await.unwrap().messages.is_empty());
        let next = session.begin_run(Message::user("go on")).await.unwrap();
        next.complete([Message::assistant("done")]).await.unwrap();
        assert_eq!(session.replay().await.unwrap().messages.len(), 2);
        ws.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_stopped_process_keeps_its_run_and_may_go_on() {
    let place = place();
    let agent = Agent::start(place.path(), "results");
    agent.signal("-STOP");
    let ws = open(place.path()).await;
    assert_eq!(closed(ws.recovered()), 0);
    assert_eq!(ws.recovered().left_alone.len(), 1);
    let session = only_session(&ws).await;
    assert_eq!(session.begin_run(Message::user("me")).await.unwrap_err().kind(), ErrorKind::LeaseHeld);
    session.rename("still allowed").await.unwrap();
    assert_eq!(session.info().await.unwrap().profile.title.unwrap().source, TitleSource::Manual);
    agent.signal("-CONT");
    assert_eq!(closed(&ws.recover().await.unwrap()), 0);
    agent.kill();
    assert_eq!(closed(&ws.recover().await.unwrap()), 1);
    session.reload().await.unwrap();
    session.append([Draft::from(Message::user("mine now"))]).await.unwrap();
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_survives_the_kill_of_its_process() {
    let place = place();
    Agent::start(place.path(), "waiting").kill();
    let ws = open(place.path()).await;
    assert!(ws.recovered().is_empty());
    let session = only_session(&ws).await;
    let run = session.runs().active().await.unwrap().unwrap();
    assert_eq!(run.state, RunState::WaitingApproval);
    let run = session.resume_run(run.id).await.unwrap();
    run.append([Message::tool_results([ToolResult::new("c1", "approved", false)])]).await.unwrap();
    run.complete([Message::assistant("done")]).await.unwrap();
    assert_eq!(session.replay().await.unwrap().messages.len(), 4);
}

#[tokio::test]
async fn a_living_process_recovers_what_another_left_when_it_begins_a_run() {
    let place = place();
    let options = options(place.path()).workspace(WorkspaceOptions::default().recover(false));
    let agent = Agent::start(place.path(), "calls");
    let ws = options.open(place.path().join("project")).await.unwrap();
    let session = only_session(&ws).await;
    agent.kill();
    let run = session.begin_run(Message::user("go on")).await.unwrap();
    run.complete([Message::assistant("done")]).await.unwrap();
    let states: Vec<RunState> =
        session.runs().list().await.unwrap().items.iter().map(|run| run.state).collect();
    assert_eq!(states, [RunState::Completed, RunState::Interrupted]);
}
