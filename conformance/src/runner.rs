//! Runs one clause: a fresh site, a runtime of its own, a bounded time.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use turnkeep_core::{Durability, ErrorKind};

use crate::clause::{Clause, Need, RuntimeFlavor};
use crate::context::Context;
use crate::harness::{Harness, Site};
use crate::peer::{self, PeerCommand};
use crate::tier::Tier;
use crate::verdict::{Finding, Outcome, Stop, Verdict};

/// How long closing and destroying may take.
const TEARDOWN: Duration = Duration::from_secs(20);

/// The role in which a peer only looks whether it reaches the site.
const PROBE: &str = "probe";

/// How to run a clause.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much work it may be.
    pub tier: Tier,
    /// What everything that is drawn follows from.
    pub seed: u64,
    /// When to give up. No answer by then is an error.
    pub longest: Duration,
    /// How to start another process that plays a role of the clause. Without it, a clause that needs one is not run.
    pub(crate) peers: Option<PeerCommand>,
    /// A clause that plays tapes plays this one, and no other.
    pub(crate) tape: Option<Arc<str>>,
}

impl Settings {
    /// The smallest tier, seed 0, the clause's own time, no other processes.
    #[must_use]
    pub fn of(clause: &Clause) -> Self {
        Self { tier: Tier::Smoke, seed: 0, longest: clause.timeout, peers: None, tape: None }
    }

    /// The tier and the seed that the environment asks for, and other processes: the running program with these
    /// arguments, which is to call [`play`] then.
    ///
    /// # Errors
    /// When the environment asks for something that there is not, or the program does not know its own path.
    #[cfg(feature = "certify")]
    pub fn with_processes(clause: &Clause, arguments: &[&str]) -> Result<Self, String> {
        let (tier, seed) = crate::tier::asked()?;
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let peers = PeerCommand::of_program(arguments)
            .map_err(|error| format!("the program does not know its own path: {error}"))?;
        Ok(Self { tier, seed, peers: Some(peers), ..Self::of(clause) })
    }
}

/// Plays the role of a clause for which this process was started, see [`Settings::with_processes`].
///
/// # Errors
/// When it was started for none, and what became of the role.
#[cfg(feature = "certify")]
pub fn play(harness: Arc<dyn Harness>, clause: &'static Clause) -> Result<(), String> {
    let (tier, seed) = crate::tier::asked()?;
    let (role, site) = peer::assigned().ok_or("this process was started for no role")?;
    let settings = Settings { tier, seed, ..Settings::of(clause) };
    run_peer(harness, clause, &role, site, settings).map_err(|stop| stop.to_string())
}

/// Runs a clause on a fresh site of a backend and removes the site. Clauses that need other processes answer
/// `NotRun` here: they run as tests, see [`conformance_tests!`](crate::conformance_tests).
#[must_use]
pub fn run(harness: Arc<dyn Harness>, clause: &'static Clause) -> Verdict {
    find(harness, clause, Settings::of(clause)).verdict
}

/// Runs a clause as [`run`] does, with another bound of its time.
#[must_use]
pub fn run_within(harness: Arc<dyn Harness>, clause: &'static Clause, longest: Duration) -> Verdict {
    find(harness, clause, Settings { longest, ..Settings::of(clause) }).verdict
}

/// Runs a clause on a fresh site of a backend, removes the site, and says all that was found.
#[must_use]
pub fn find(harness: Arc<dyn Harness>, clause: &'static Clause, settings: Settings) -> Finding {
    let began = Instant::now();
    let (answer, found) = mpsc::channel();
    let patience = settings.longest + TEARDOWN + TEARDOWN;
    // A thread of its own: a store that blocks its runtime must end in a verdict, not in a test without end.
    let started = std::thread::Builder::new().name(clause.id.to_owned()).spawn(move || {
        let _ = answer.send(find_here(harness, clause, settings));
    });
    let error = |text: String| Finding::of(Verdict::Error(text));
    let finding = match started {
        Err(refused) => error(format!("no thread for the clause: {refused}")),
        Ok(_) => match found.recv_timeout(patience) {
            Ok(finding) => finding,
            Err(RecvTimeoutError::Timeout) => {
                error("the clause blocks its thread and was given up".to_owned())
            }
            Err(RecvTimeoutError::Disconnected) => error("the runner panicked".to_owned()),
        },
    };
    Finding { elapsed: began.elapsed(), ..finding }
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

fn find_here(harness: Arc<dyn Harness>, clause: &'static Clause, settings: Settings) -> Finding {
    let runtime = match runtime(clause.runtime) {
        Ok(runtime) => runtime,
        Err(verdict) => return Finding::of(verdict),
    };
    let finding = runtime.block_on(async {
        let site = match harness.provision().await {
            Ok(site) => site,
            Err(error) => return Finding::of(Verdict::Error(format!("no site: {error}"))),
        };
        let longest = settings.longest;
        let cx = Arc::new(Context::new(Arc::clone(&harness), site.clone(), settings));
        let found = bounded(clause, Arc::clone(&cx), longest).await;
        let teardown = tokio::time::timeout(TEARDOWN, async {
            cx.close_all().await;
            harness.destroy(&site).await
        });
        let verdict = match (teardown.await, found.verdict) {
            (Ok(Err(error)), Verdict::Pass) => {
                Verdict::Error(format!("the site could not be removed: {error}"))
            }
            (Err(_), Verdict::Pass) => Verdict::Error("closing the stores did not end".to_owned()),
            (_, verdict) => verdict,
        };
        Finding { verdict, counted: cx.counted(), store: cx.facts(), ..found }
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    finding
}

/// Runs the check as a task, so that neither a panic nor a hang of it ends the runner.
async fn bounded(clause: &'static Clause, cx: Arc<Context>, longest: Duration) -> Finding {
    let task = tokio::spawn(async move {
        if let Some(unsupported) = confirm_lack(clause, &cx).await? {
            return Ok(unsupported);
        }
        (clause.run)(&cx).await.map(|()| Verdict::Pass)
    });
    let stop = task.abort_handle();
    match tokio::time::timeout(longest, task).await {
        Ok(Ok(Ok(verdict))) => Finding::of(verdict),
        Ok(Ok(Err(stop))) => stop.into_finding(),
        Ok(Err(panicked)) => Finding::of(Verdict::Error(format!("the check panicked: {panicked}"))),
        Err(_) => {
            stop.abort();
            Finding::of(Verdict::Error(format!("no answer within {longest:?}")))
        }
    }
}

/// Whether the backend lacks what the clause needs: declared, and confirmed by a probe.
async fn confirm_lack(clause: &Clause, cx: &Context) -> Outcome<Option<Verdict>> {
    let has = cx.manifest.capabilities;
    let declared = cx.manifest.durability;
    // A store that declares nothing may still keep what it is given, and is then asked what it does of D1.
    let something = declared > Durability::D0 || (has.persistent && clause.durability > Durability::D1);
    if clause.durability > declared && something {
        // No probe can show that a store would lose something. Whoever claims less gets a certificate for less.
        return Ok(Some(Verdict::Unsupported(format!(
            "the backend declares {declared:?}, and this is promised from {:?} on",
            clause.durability
        ))));
    }
    if clause.durability > declared && has.persistent {
        gone_with_its_process(cx).await?;
        return Ok(Some(Verdict::Unsupported(
            "declared and confirmed: it keeps nothing once its process ends".to_owned(),
        )));
    }
    let mut needs = clause.needs.to_vec();
    if clause.durability > declared {
        needs.push(Need::Persistent);
    }
    for need in needs {
        let lack = match need {
            Need::Persistent => "it keeps nothing once every handle is closed",
            Need::MultiProcess => "another process does not reach the store",
            Need::OwnerLiveness => "nobody can tell whether an owner lives",
            Need::Search => "search answers Unsupported",
            Need::Backup => "backup answers Unsupported",
            Need::OlderFormat => "its format is the first there was",
        };
        let format = match need {
            Need::OlderFormat => Some(cx.kit().await?.store.info().format),
            _ => None,
        };
        if !need.is_offered(has, format) {
            probe(need, cx).await?;
            return Ok(Some(Verdict::Unsupported(format!("declared and confirmed: {lack}"))));
        }
    }
    Ok(None)
}

/// Confirms that what one process stored, and closed, another one does not find.
async fn gone_with_its_process(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    kit.create(PROBE).await?;
    cx.leave(kit).await?;
    let said = cx.start_peer(PROBE)?.ended().await?;
    ensure!(
        !said.iter().any(|line| line == "seen"),
        "the store declares that nothing survives its process, but another one read a session"
    );
    Ok(())
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
        Need::OlderFormat => {
            crate::clauses::migration::no_older_golden_store(cx, kit.store.info().format).await?;
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
    settings: Settings,
) -> Outcome {
    let runtime = runtime(clause.runtime).map_err(|verdict| Stop::error(verdict.to_string()))?;
    let outcome = runtime.block_on(async {
        let cx = Context::new(harness, site, settings);
        if let Some(call) = peer::doom() {
            cx.dies_at(call);
        }
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
        cx.tell_changes()?;
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
