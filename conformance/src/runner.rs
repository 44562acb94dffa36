//! Runs one clause: a fresh site, a runtime of its own, a bounded time.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use turnkeep_core::{Durability, ErrorKind};

use crate::clause::{Clause, Need, RuntimeFlavor};
use crate::context::Context;
use crate::harness::{Harness, Site};
use crate::peer::{self, PeerCommand};
use crate::verdict::{Outcome, Stop, Verdict};

/// How long closing and destroying may take.
const TEARDOWN: Duration = Duration::from_secs(20);

/// The role in which a peer only looks whether it reaches the site.
const PROBE: &str = "probe";

/// Runs a clause on a fresh site of a backend and removes the site. Clauses that need other processes answer
/// `NotRun` here: they run as tests, see [`conformance_tests!`](crate::conformance_tests).
#[must_use]
pub fn run(harness: Arc<dyn Harness>, clause: &'static Clause) -> Verdict {
    run_within(harness, clause, clause.timeout)
}

/// Runs a clause as [`run`] does, with another bound of its time. No answer by then is an error.
#[must_use]
pub fn run_within(harness: Arc<dyn Harness>, clause: &'static Clause, longest: Duration) -> Verdict {
    run_with(harness, clause, None, longest)
}

pub(crate) fn run_with(
    harness: Arc<dyn Harness>,
    clause: &'static Clause,
    peers: Option<PeerCommand>,
    longest: Duration,
) -> Verdict {
    let (answer, verdict) = mpsc::channel();
    // A thread of its own: a store that blocks its runtime must end in a verdict, not in a test without end.
    let started = std::thread::Builder::new().name(clause.id.to_owned()).spawn(move || {
        let _ = answer.send(run_here(harness, clause, peers, longest));
    });
    if let Err(error) = started {
        return Verdict::Error(format!("no thread for the clause: {error}"));
    }
    match verdict.recv_timeout(longest + TEARDOWN + TEARDOWN) {
        Ok(verdict) => verdict,
        Err(RecvTimeoutError::Timeout) => {
            Verdict::Error("the clause blocks its thread and was given up".to_owned())
        }
        Err(RecvTimeoutError::Disconnected) => Verdict::Error("the runner panicked".to_owned()),
    }
}

fn runtime(flavor: RuntimeFlavor) -> Result<Runtime, Verdict> {
    let mut builder = match flavor {
        RuntimeFlavor::MultiThread => Builder::new_multi_thread(),
        RuntimeFlavor::CurrentThread => Builder::new_current_thread(),
    };
    if flavor == RuntimeFlavor::MultiThread {
        builder.worker_threads(3);
    }
    builder.enable_all().build().map_err(|error| Verdict::Error(format!("no runtime: {error}")))
}

fn run_here(
    harness: Arc<dyn Harness>,
    clause: &'static Clause,
    peers: Option<PeerCommand>,
    longest: Duration,
) -> Verdict {
    let runtime = match runtime(clause.runtime) {
        Ok(runtime) => runtime,
        Err(verdict) => return verdict,
    };
    let verdict = runtime.block_on(async {
        let site = match harness.provision().await {
            Ok(site) => site,
            Err(error) => return Verdict::Error(format!("no site: {error}")),
        };
        let cx = Arc::new(Context::new(Arc::clone(&harness), site.clone(), peers));
        let verdict = bounded(clause, Arc::clone(&cx), longest).await;
        let teardown = tokio::time::timeout(TEARDOWN, async {
            cx.close_all().await;
            harness.destroy(&site).await
        });
        match (teardown.await, verdict) {
            (Ok(Err(error)), Verdict::Pass) => {
                Verdict::Error(format!("the site could not be removed: {error}"))
            }
            (Err(_), Verdict::Pass) => Verdict::Error("closing the stores did not end".to_owned()),
            (_, verdict) => verdict,
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    verdict
}

/// Runs the check as a task, so that neither a panic nor a hang of it ends the runner.
async fn bounded(clause: &'static Clause, cx: Arc<Context>, longest: Duration) -> Verdict {
    let task = tokio::spawn(async move {
        if let Some(unsupported) = confirm_lack(clause, &cx).await? {
            return Ok(unsupported);
        }
        (clause.run)(&cx).await.map(|()| Verdict::Pass)
    });
    let stop = task.abort_handle();
    match tokio::time::timeout(longest, task).await {
        Ok(Ok(Ok(verdict))) => verdict,
        Ok(Ok(Err(stop))) => stop.into_verdict(),
        Ok(Err(panicked)) => Verdict::Error(format!("the check panicked: {panicked}")),
        Err(_) => {
            stop.abort();
            Verdict::Error(format!("no answer within {longest:?}"))
        }
    }
}

/// Whether the backend lacks what the clause needs: declared, and confirmed by a probe.
async fn confirm_lack(clause: &Clause, cx: &Context) -> Outcome<Option<Verdict>> {
    let has = cx.manifest.capabilities;
    let mut needs = clause.needs.to_vec();
    if clause.durability > cx.manifest.durability && cx.manifest.durability == Durability::D0 {
        needs.push(Need::Persistent);
    }
    for need in needs {
        let (offered, lack) = match need {
            Need::Persistent => (has.persistent, "it keeps nothing once every handle is closed"),
            Need::MultiProcess => (has.multi_process, "another process does not reach the store"),
            Need::OwnerLiveness => (has.owner_liveness, "nobody can tell whether an owner lives"),
            Need::Search => (has.search, "search answers Unsupported"),
            Need::Backup => (has.backup, "backup answers Unsupported"),
        };
        if !offered {
            probe(need, cx).await?;
            return Ok(Some(Verdict::Unsupported(format!("declared and confirmed: {lack}"))));
        }
    }
    Ok(None)
}

/// Confirms that a capability which is declared absent is absent.
async fn probe(need: Need, cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create(PROBE).await?;
    match need {
        Need::Persistent => {
            let kit = cx.reopen(kit).await?;
            ensure!(
                kit.find(PROBE).await?.is_none(),
                "the store declares that it keeps nothing, but a session was there after reopening"
            );
        }
        Need::MultiProcess => {
            let said = cx.start_peer(PROBE)?.ended().await?;
            ensure!(
                !said.iter().any(|line| line == "seen"),
                "the store declares one process only, but another one read a session"
            );
        }
        Need::OwnerLiveness => {
            kit.acquire(&session, cx.lease_ms()).await?;
            let other = cx.kit().await?;
            let lease = other.lease(&session).await?;
            ensure!(
                lease.is_some_and(|lease| lease.liveness == turnkeep_core::model::Liveness::Unknown),
                "the store declares that it cannot tell whether owners live, but it answered"
            );
        }
        Need::Search => {
            let before = kit.snapshot().await?;
            let query = turnkeep_core::query::SearchQuery::new(kit.workspace.clone(), PROBE);
            let answer = kit.store.search(&query).await;
            ensure_refused!(answer, ErrorKind::Unsupported, "search on a store that declares none");
            kit.unchanged(&before, "an unsupported search").await?;
        }
        Need::Backup => {
            let before = kit.snapshot().await?;
            let target = std::env::temp_dir().join(format!("turnkeep-probe-{}", kit.incarnation()));
            let answer = match kit.store.maintenance() {
                Some(maintenance) => maintenance.backup(&target).await,
                None => Err(turnkeep_core::Error::unsupported("backup")),
            };
            ensure_refused!(answer, ErrorKind::Unsupported, "backup on a store that declares none");
            ensure!(!target.exists(), "an unsupported backup left a file");
            kit.unchanged(&before, "an unsupported backup").await?;
        }
    }
    Ok(())
}

/// What a peer process does: it plays its role and says what it saw.
pub(crate) fn run_peer(
    harness: Arc<dyn Harness>,
    clause: &'static Clause,
    role: &str,
    site: Site,
) -> Outcome {
    let runtime = runtime(clause.runtime).map_err(|verdict| Stop::error(verdict.to_string()))?;
    let outcome = runtime.block_on(async {
        let cx = Context::new(harness, site, None);
        let played = async {
            if role == PROBE {
                return look(&cx).await;
            }
            match clause.peer {
                Some(peer) => peer(&cx, role).await,
                None => Err(Stop::error(format!("{} has no role {role}", clause.id))),
            }
        };
        let outcome = tokio::time::timeout(clause.timeout, played).await;
        let _ = tokio::time::timeout(TEARDOWN, cx.close_all()).await;
        outcome.unwrap_or_else(|_| Err(Stop::error(format!("the role {role} did not end"))))
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    outcome
}

async fn look(cx: &Context) -> Outcome {
    let seen = match cx.try_open().await {
        Ok(store) => {
            let kit = crate::kit::Kit::new(store, cx);
            kit.find(PROBE).await?.is_some()
        }
        Err(_) => false,
    };
    peer::tell(if seen { "seen" } else { "not seen" })
}
