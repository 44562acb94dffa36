//! Appending outside a run.

use turnkeep_core::Timestamp;
use turnkeep_core::commit::{Fingerprint, NewEntry, Op, RequestId, SessionPatch};
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryKey, EntryNo, RunId, SessionRef, TurnId};
use turnkeep_core::model::{Title, VisibilitySet};
use turnkeep_core::query::EntryQuery;

use super::{Plan, Session, Written};
use crate::awaitable::awaitable;
use crate::base::Repeat;
use crate::draft::{Draft, meaning};

/// Entries to be appended; await it.
#[derive(Debug)]
#[must_use = "nothing is appended until this is awaited"]
pub struct Append {
    session: Session,
    drafts: Vec<Draft>,
    request: Result<Option<RequestId>>,
}

/// What an append made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The session that they are in. Another one than the handle's only if an earlier call with the same request made
    /// a lazy session of its own for them.
    pub session: SessionRef,
    /// The numbers of the entries, in the order given.
    pub numbers: Vec<EntryNo>,
    /// Whether an earlier call with the same request made them.
    pub repeated: bool,
}

impl Session {
    /// Appends entries after the leaf that this handle knows, in one commit: messages, compactions, changes of model
    /// or mode, titles, labels, or anything else that makes a [`Draft`].
    ///
    /// While this handle executes a run, entries appended here belong to no run.
    ///
    /// # Errors
    /// On await: `StaleLeaf` when another writer was first; `LeaseHeld` while somebody else executes a run;
    /// `AlreadyExists` for a key that is taken; `Invalid` or `TooLarge` before anything is written.
    pub fn append<D: Into<Draft>>(&self, drafts: impl IntoIterator<Item = D>) -> Append {
        Append {
            session: self.clone(),
            drafts: drafts.into_iter().map(Into::into).collect(),
            request: Ok(None),
        }
    }
}

impl Append {
    /// Makes the append safe to repeat from anywhere: the same id with the same entries lands once.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request = RequestId::host(id).map(Some);
        self
    }

    async fn go(self) -> Result<Appended> {
        let request = self.request?;
        if self.drafts.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "there is nothing to append"));
        }
        let mut drafts = self.drafts;
        settle_titles(&self.session, &mut drafts).await?;
        // Not the digest of the commit: whether a title still names the session depends on the moment.
        let redaction = self.session.workspace().base().redaction();
        let meant = || Ok(meaning(FieldDigest::new("append/1"), &drafts, redaction)?.finish());
        let fingerprint = request.is_some().then(meant).transpose()?.map(Fingerprint::from_bytes);
        let session = self.session.session_ref().clone();
        let plan = Plan::new(move |now| append_ops(&session, &drafts, now, None, None))
            .repeat(Repeat { id: request, fingerprint });
        let written = self.session.write(plan).await?;
        Ok(Appended::read(&written, written.first))
    }
}
awaitable!(Append => Result<Appended>);

impl Appended {
    /// The entries of op `op` of a write.
    pub(crate) fn read(written: &Written, op: usize) -> Self {
        let numbers = written.receipt.entries(op).collect();
        Self { session: written.session.clone(), numbers, repeated: written.earlier }
    }
}

/// The display name that a title gives a session. A blank one says nothing, so that the first words are shown instead.
pub(crate) fn displayed(title: Title) -> Option<Title> {
    Some(title).filter(|title| !title.text.trim().is_empty())
}

/// A title that is left out because its key is there must not undo a name that was given since. Others who bring the key at
/// the same moment move the leaf.
pub(crate) async fn settle_titles(session: &Session, drafts: &mut [Draft]) -> Result<()> {
    for draft in drafts {
        let Some(key) = draft.title_once().map(EntryKey::new).transpose()? else { continue };
        let narrow = |query: &mut EntryQuery| (query.key, query.visibility) = (Some(key), VisibilitySet::ALL);
        if !session.entries(narrow).await?.items.is_empty() {
            draft.names_nothing();
        }
    }
    Ok(())
}

/// One append, and the display name that the last title among the drafts gives the session.
pub(crate) fn append_ops(
    session: &SessionRef,
    drafts: &[Draft],
    now: Timestamp,
    run: Option<&RunId>,
    turn: Option<&TurnId>,
) -> Result<Vec<Op>> {
    let entries: Vec<NewEntry> =
        drafts.iter().map(|draft| draft.clone().into_entry(now, run, turn)).collect::<Result<_>>()?;
    let mut ops = Vec::with_capacity(2);
    ops.push(Op::Append { session: session.clone(), entries });
    if let Some(title) = drafts.iter().rev().find_map(Draft::session_title) {
        let patch = SessionPatch { title: Some(displayed(title.clone())), ..SessionPatch::default() };
        ops.push(Op::PatchSession { session: session.clone(), patch });
    }
    Ok(ops)
}
