//! A host that slept while somebody took over: it is refused when it wakes, and told so.
#![cfg(all(feature = "sqlite", unix))]

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use turnkeep::model::RunState;
use turnkeep::{ErrorKind, Message, OpenOptions, Workspace, WorkspaceOptions};

/// How long the sleeper's lease lives.
const TTL: Duration = Duration::from_secs(2);

async fn open(place: &Path) -> Workspace {
    let options = WorkspaceOptions::default().lease_ttl(TTL);
    let options = OpenOptions::new().state_root(place.join("state")).workspace(options);
    options.open(place.join("project")).await.unwrap()
}

/// A process with a run under way. Killed when dropped, so that none is left.
struct Host(Child, Lines<BufReader<ChildStdout>>);

impl Host {
    fn start(place: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sleeper::child_sleeps", "--ignored", "--nocapture"])
            .env("SLEEP_PLACE", place)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self(child, lines)
    }

    /// Waits until it says something that begins so; answers the rest.
    fn hear(&mut self, words: &str) -> String {
        let said = self.1.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once(words)?;
            Some(rest.to_owned())
        });
        said.unwrap_or_else(|| panic!("it ended and never said `{words}`"))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
#[ignore = "run in child processes by the other test of this module"]
async fn child_sleeps() {
    let Some(place) = std::env::var_os("SLEEP_PLACE") else { return };
    let ws = open(&PathBuf::from(place)).await;
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("of the sleeper")).await.unwrap();
    run.stream("half an ans").await.unwrap();
    println!("begun: {}", session.id());
    // Nothing is asked: the heartbeat itself finds out.
    tokio::time::timeout(Duration::from_secs(60), run.lost()).await.expect("nobody told it");
    let refused = run.complete([Message::assistant("late")]).await.unwrap_err();
    println!("refused: {}", refused.code());
}

#[tokio::test]
async fn a_host_that_slept_is_refused_when_it_wakes_and_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    std::fs::create_dir(place.join("project")).unwrap();
    let mut host = Host::start(place);
    let id = host.hear("begun: ");
    let ws = open(place).await;
    let session = ws.sessions().open(&id.parse().unwrap()).await.unwrap();
    assert_eq!(session.take_over().await.unwrap_err().kind(), ErrorKind::LeaseHeld, "it is at work");
    host.signal("-STOP");
    // People can still write what needs no lease.
    session.rename("while it sleeps").await.unwrap();
    let mut taken = None;
    for _ in 0..600 {
        match session.take_over().await {
            Ok(recovered) => {
                taken = recovered;
                break;
            }
            Err(error) => assert!(matches!(error.kind(), ErrorKind::LeaseHeld | ErrorKind::Busy), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let taken = taken.expect("its lease never expired");
    assert!(taken.kept_partial, "what it had streamed is kept");
    let run = session.begin_run(Message::user("somebody else goes on")).await.unwrap();
    host.signal("-CONT");
    assert_eq!(host.hear("refused: "), "TK-LEASE-LOST");
    run.complete([Message::assistant("done")]).await.unwrap();
    let said: Vec<String> =
        session.replay().await.unwrap().messages.iter().map(|message| message.message.text()).collect();
    assert_eq!(said, ["somebody else goes on", "done"], "nothing of the late answer");
    assert_eq!(session.runs().get(&taken.run).await.unwrap().state, RunState::Interrupted);
}
