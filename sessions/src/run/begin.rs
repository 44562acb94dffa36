//! Beginning a run: request, run, turn, input, event and lease in one commit, before any model is called.

use std::path::Path;

use serde::Serialize;
use turnkeep_core::commit::{Commit, Fingerprint, LeaseGrant, NewEntry, NewRun, Op, RequestId, Takeover};
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryKind, EntryNo, IntentId, Role, RunId, SessionRef, TurnId};
use turnkeep_core::model::{self, LeasePurpose, RunState, Visibility, entry_kind, role};
use turnkeep_core::{Payload, Timestamp, mutant};

use super::care::AdmissionCare;
use super::close::{TURN_BYTES, begun_before, run_event, start_key};
use super::intent::Accepted;
use super::{Run, Stage};
use crate::awaitable::awaitable;
use crate::base::Repeat;
use crate::draft::{Draft, TurnStart, meaning};
use crate::lease::{Hold, granted, session_lease};
use crate::message::Message;
use crate::recovery;
use crate::session::{Plan, Session, append_ops, settle_titles};
use crate::sessions::path_text;

/// A run to be begun; await it.
#[derive(Debug)]
#[must_use = "nothing is begun until this is awaited"]
pub struct BeginRun {
    session: Session,
    input: Input,
    run: Option<RunId>,
    turn: Option<TurnId>,
    intent: Option<IntentId>,
    accepted: Accepted,
    more: Vec<Draft>,
    request: Result<Option<RequestId>>,
    fault: Option<Error>,
}

#[derive(Clone, Debug)]
enum Input {
    Message(Box<Message>),
    Retry(RunId),
}

/// What became of a request to begin a run.
#[derive(Debug)]
pub enum Admission {
    /// The run is begun, and this handle executes it.
    Begun(Run),
    /// An earlier call with the same request id began it. Nothing was written.
    Repeated {
        /// That run, as it stands now.
        run: Box<model::Run>,
        /// The numbers of the entries that it began with.
        entries: Vec<EntryNo>,
    },
}

/// What of a run is decided before its commit.
#[derive(Clone, Debug)]
struct Blueprint {
    session: SessionRef,
    run: RunId,
    turn: TurnId,
    intent: IntentId,
    /// The attempt before this one; the request is there already then.
    after: Option<RunId>,
    accepted: Accepted,
    drafts: Vec<Draft>,
    grant: LeaseGrant,
}

#[derive(Serialize)]
struct Started<'a> {
    turn: &'a TurnId,
    intent: &'a IntentId,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<&'a RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'a str>,
}

impl BeginRun {
    pub(crate) fn new(session: Session, message: Message) -> Self {
        Self::of(session, Input::Message(Box::new(message)))
    }

    pub(crate) fn retry(session: Session, run: RunId) -> Self {
        Self::of(session, Input::Retry(run))
    }

    fn of(session: Session, input: Input) -> Self {
        Self {
            session,
            input,
            run: None,
            turn: None,
            intent: None,
            accepted: Accepted::default(),
            more: Vec::new(),
            request: Ok(None),
            fault: None,
        }
    }

    /// Gives the run this id. One that is taken is refused with `AlreadyExists`.
    pub fn id(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// Gives the turn this id, of 245 bytes at most; the run's by default, if it fits.
    pub fn turn(mut self, turn: TurnId) -> Self {
        self.turn = Some(turn);
        self
    }

    /// Gives the accepted request this id, unique in the workspace. One that is taken is refused with `AlreadyExists`. Not
    /// for a retry, which has one.
    pub fn intent(mut self, intent: IntentId) -> Self {
        self.intent = Some(intent);
        self
    }

    /// Where the request came from, such as `cli`.
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.accepted.source = Some(source.into());
        self
    }

    /// The model asked for.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.accepted.model = Some(model.into());
        self
    }

    /// The mode.
    pub fn mode(mut self, mode: impl Into<String>) -> Self {
        self.accepted.mode = Some(mode.into());
        self
    }

    /// The working directory.
    pub fn work_dir(mut self, work_dir: impl AsRef<Path>) -> Self {
        match path_text(work_dir.as_ref().to_owned()) {
            Ok(text) => self.accepted.work_dir = Some(text),
            Err(error) => self.fault = Some(error),
        }
        self
    }

    /// What tells this request from others, as the host computes it. Kept with the request.
    pub fn fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.accepted.fingerprint = Some(fingerprint.into());
        self
    }

    /// The request itself, opaque here, byte for byte.
    pub fn request(mut self, request: Payload) -> Self {
        self.accepted.request = Some(request);
        self
    }

    /// The policy under which it was accepted, opaque here, byte for byte.
    pub fn policy(mut self, policy: Payload) -> Self {
        self.accepted.policy = Some(policy);
        self
    }

    /// More entries that the run begins with, after the message.
    pub fn and<D: Into<Draft>>(mut self, drafts: impl IntoIterator<Item = D>) -> Self {
        self.more.extend(drafts.into_iter().map(Into::into));
        self
    }

    /// Makes the beginning safe to repeat from anywhere, such as by a job queue: the same id with the same input lands
    /// once. Awaited again, it answers `AlreadyExists` with the run in its context; [`admit`](Self::admit) tells more.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request = RequestId::host(id).map(Some);
        self
    }

    async fn go(self) -> Result<Run> {
        match self.admit().await? {
            Admission::Begun(run) => Ok(run),
            Admission::Repeated { run, .. } => {
                Err(Error::new(ErrorKind::AlreadyExists, "a run was begun with this request id before")
                    .with("session", &run.session.id)
                    .with("run", &run.id)
                    .with("state", run.state.as_str()))
            }
        }
    }

    /// Begins the run, or says which run an earlier call with the same request id began.
    ///
    /// What a dead process left behind in the session is closed first.
    ///
    /// # Errors
    /// `StaleLeaf` when another writer was first; `LeaseHeld` or `ActiveRun` while another run executes or waits;
    /// `VersionConflict` for a retry of an attempt that is not the newest; `RunState` for a retry of one that was answered; `Invalid` for a working directory without a
    /// UTF-8 form.
    pub async fn admit(mut self) -> Result<Admission> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let request = std::mem::replace(&mut self.request, Ok(None))?;
        match self.attempt(request.clone(), Takeover::IfExpired).await {
            Err(error) if recovery::may_help(error.kind()) => {
                recovery::clear_the_way(&self.session, error).await?;
                self.attempt(request, Takeover::IfOwnerDead).await
            }
            admitted => admitted,
        }
    }

    async fn attempt(&self, request: Option<RequestId>, takeover: Takeover) -> Result<Admission> {
        let base = self.session.workspace().base();
        let blueprint = self.blueprint(takeover).await?;
        let fingerprint = request.is_some().then(|| self.meaning(&blueprint.drafts)).transpose()?;
        let care = AdmissionCare::prepare(
            &self.session,
            blueprint.run.clone(),
            blueprint.turn.clone(),
            blueprint.grant.clone(),
        );
        let ops = blueprint.clone();
        let plan = Plan::new(move |now| ops.ops(now))
            .repeat(Repeat { id: request, fingerprint })
            .arm(move |commit: &Commit, first| care.arm(commit, first));
        let written = self.session.write(plan).await.map_err(|refused| blueprint.explain(refused))?;
        if written.earlier {
            let entries = written.receipt.entries(written.first + blueprint.append_op()).collect();
            return repeated(&self.session, written.session, entries).await;
        }
        let ttl = base.lease_ttl();
        let fences = granted(std::slice::from_ref(&blueprint.grant), &written.receipt, written.first)?;
        let hold = Hold::start(self.session.workspace().keeper(), base, fences, ttl);
        self.session.execute(blueprint.run.clone(), hold.clone());
        let run = Run::new(self.session.clone(), blueprint.run, blueprint.turn, hold, Stage::Pending, false);
        Ok(Admission::Begun(run))
    }

    async fn blueprint(&self, takeover: Takeover) -> Result<Blueprint> {
        let base = self.session.workspace().base();
        let run = match &self.run {
            Some(run) => run.clone(),
            None => RunId::new(base.fresh_id()?)?,
        };
        let turn = match &self.turn {
            Some(turn) => turn.clone(),
            None if run.as_str().len() > TURN_BYTES => TurnId::new(base.fresh_id()?)?,
            None => TurnId::new(run.as_str())?,
        };
        let grant = base.grant(
            session_lease(self.session.session_ref()),
            LeasePurpose::Execution,
            base.lease_ttl(),
            takeover,
        )?;
        let (intent, after, input) = match &self.input {
            Input::Message(message) => {
                let intent = match &self.intent {
                    Some(intent) => intent.clone(),
                    None => IntentId::new(base.fresh_id()?)?,
                };
                (intent, None, Draft::from(message.as_ref()))
            }
            Input::Retry(before) => {
                let (intent, input) = self.before(before).await?;
                (intent, Some(before.clone()), input)
            }
        };
        let input = Some(input).filter(|_| !mutant::is("runs/begun-without-input"));
        let mut drafts: Vec<Draft> = input.into_iter().chain(self.more.iter().cloned()).collect();
        settle_titles(&self.session, &mut drafts).await?;
        let session = self.session.session_ref().clone();
        let accepted = self.accepted.clone();
        Ok(Blueprint { session, run, turn, intent, after, accepted, drafts, grant })
    }

    /// The request and the input of an earlier attempt.
    async fn before(&self, run: &RunId) -> Result<(IntentId, Draft)> {
        let row = self.session.runs().get(run).await?;
        if row.state == RunState::Completed && row.error.is_none() {
            let message = "the run was completed, so there is nothing to try again; begin a new one";
            return Err(Error::new(ErrorKind::RunState, message).with("run", run));
        }
        let intent = row.intent.ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "the run has no recorded request to try again").with("run", run)
        })?;
        let (kind, user) = (EntryKind::new(entry_kind::MESSAGE)?, Role::new(role::USER)?);
        let of = run.clone();
        let page = self
            .session
            .entries(move |query| {
                query.kinds = vec![kind];
                query.roles = vec![user];
                query.run = Some(of);
                query.limit = 1;
            })
            .await?;
        let input = page.items.first().ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "the run has no user message to try again").with("run", run)
        })?;
        Ok((intent, Draft::from(Message::from_entry(input)?)))
    }

    /// What the caller meant, as it is stored and without the ids that were drawn for it.
    fn meaning(&self, drafts: &[Draft]) -> Result<Fingerprint> {
        let mut digest = FieldDigest::new("begin-run/1");
        digest = digest.maybe(self.run.as_ref().map(RunId::as_str));
        digest = digest.maybe(self.turn.as_ref().map(TurnId::as_str));
        digest = digest.maybe(self.intent.as_ref().map(IntentId::as_str));
        digest = digest.maybe(match &self.input {
            Input::Message(_) => None,
            Input::Retry(run) => Some(run.as_str()),
        });
        let redaction = self.session.workspace().base().redaction();
        let mut accepted = self.accepted.clone();
        if let Some(redaction) = redaction {
            accepted.redact(redaction)?;
        }
        let Accepted { source, model, mode, work_dir, fingerprint, request, policy } = &accepted;
        for text in [source, model, mode, work_dir, fingerprint] {
            digest = digest.maybe(text.as_deref());
        }
        for payload in [request, policy] {
            digest = digest.maybe(payload.as_ref().map(Payload::as_str));
        }
        Ok(Fingerprint::from_bytes(meaning(digest, drafts, redaction)?.finish()))
    }
}
awaitable!(BeginRun => Result<Run>);

/// The run that an earlier call began.
async fn repeated(asked: &Session, session: SessionRef, entries: Vec<EntryNo>) -> Result<Admission> {
    let gone = || Error::new(ErrorKind::Corrupt, "the receipt of the request names no run");
    let first = *entries.first().ok_or_else(gone)?;
    let session = Session::with(asked.workspace().clone(), session, None, None);
    let run = session.entry(first).await?.run.ok_or_else(gone)?;
    let run = Box::new(session.runs().get(&run).await?);
    // The turn's beginning is machinery; the caller asked for what it said.
    let entries = entries.into_iter().skip(1).collect();
    Ok(Admission::Repeated { run, entries })
}

impl Blueprint {
    /// Says of a refusal what of the beginning it is about, in words of the caller.
    fn explain(&self, refused: Error) -> Error {
        // The only record that a first attempt makes is its request.
        if refused.kind() == ErrorKind::VersionConflict && self.after.is_none() {
            let message = "a request with this id was accepted before; try its run again, or give another id";
            return Error::new(ErrorKind::AlreadyExists, message).with("intent", &self.intent);
        }
        begun_before(refused, &self.session, &self.turn)
    }

    /// Where the append stands among the ops.
    fn append_op(&self) -> usize {
        if self.after.is_none() { 3 } else { 2 }
    }

    fn ops(&self, now: Timestamp) -> Result<Vec<Op>> {
        let Self { session, run, turn, intent, after, accepted, drafts, grant } = self;
        let mut ops = vec![Op::AcquireLease(grant.clone())];
        if after.is_none() {
            ops.push(accepted.put(intent, session)?);
        }
        ops.push(Op::StartRun {
            session: session.clone(),
            run: NewRun {
                id: run.clone(),
                state: RunState::Pending,
                intent: Some(intent.clone()),
                after: after.clone(),
                source: accepted.source.clone(),
                model: accepted.model.clone(),
                mode: accepted.mode.clone(),
                work_dir: accepted.work_dir.clone(),
            },
        });
        let mut appends = append_ops(session, drafts, now, Some(run), Some(turn))?;
        if let Some(Op::Append { entries, .. }) = appends.first_mut() {
            entries.insert(0, begin_turn(run, Some(intent), turn, now)?);
        }
        ops.append(&mut appends);
        let started = Started {
            turn,
            intent,
            retry_of: after.as_ref(),
            source: accepted.source.as_deref(),
            model: accepted.model.as_deref(),
            mode: accepted.mode.as_deref(),
        };
        ops.push(run_event(session, run, "run_started", now, &started)?);
        Ok(ops)
    }
}

/// The entry that begins a turn.
pub(crate) fn begin_turn(
    run: &RunId,
    intent: Option<&IntentId>,
    turn: &TurnId,
    now: Timestamp,
) -> Result<NewEntry> {
    let start = TurnStart { run: Some(run.clone()), intent: intent.cloned() };
    let mut entry = Draft::from(start).into_entry(now, Some(run), Some(turn))?;
    entry.key = Some(start_key(turn)?);
    entry.visibility = Visibility::Internal;
    Ok(entry)
}
