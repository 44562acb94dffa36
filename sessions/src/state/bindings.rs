//! Bindings: which session an identity in an external channel, such as a chat room, belongs to.
//!
//! A channel identity has one session and a session one channel identity. The binding is a record under the digest of the
//! channel, so that two who bind a channel at once meet at its key; a second record, under the session, does the same for
//! two who bind a session at once. The channel in the session's profile changes in the same commit.

use turnkeep_core::commit::{Expect, Fingerprint, Op, RequestId, SessionPatch};
use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{RecordKey, SessionId, SessionRef};
use turnkeep_core::model::{Channel, Record, Version, collection};
use turnkeep_core::{Cursor, Page, Payload, Timestamp, mutant};

use super::records;
use crate::base::{Base, Repeat};
use crate::session::{Plan, Session, Written};
use crate::sessions::{CreateSession, not_found};
use crate::workspace::Workspace;

/// A version that no record has. A commit that expects it is refused, unless an earlier one with its request landed.
const NEVER: Version = Version { birth: 0, count: 0 };

/// The bindings of a workspace.
///
/// To let one worker at a time deal with what comes in from a channel, in whatever process, take the lease
/// [`channel_lease`](crate::channel_lease) of its identity first:
///
/// ```
/// # use turnkeep_core::model::{Channel, LeasePurpose};
/// # use turnkeep_sessions::{Workspace, channel_lease};
/// # use std::time::Duration;
/// # async fn incoming(ws: Workspace, channel: Channel) -> turnkeep_core::Result<()> {
/// let lock = [channel_lease(&channel)?];
/// let lock = ws.leases().acquire(lock, LeasePurpose::Admission, Duration::from_secs(10)).await?;
/// let session = match ws.bindings().of_channel(&channel).await? {
///     Some(binding) => ws.sessions().open(&binding.session.id).await?,
///     None => ws.bindings().create_bound(&channel, ws.sessions().create()).await?,
/// };
/// # drop(session);
/// lock.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Bindings {
    workspace: Workspace,
}

/// A channel identity and its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The channel identity.
    pub channel: Channel,
    /// The session that it belongs to.
    pub session: SessionRef,
    /// Since when.
    pub since: Timestamp,
}

impl Bindings {
    pub(crate) fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }

    /// The binding of a channel identity.
    ///
    /// # Errors
    /// Whatever the store answers.
    pub async fn of_channel(&self, channel: &Channel) -> Result<Option<Binding>> {
        let found = records::by_key(self.base(), collection::BINDINGS, key(channel)?).await?;
        found.as_ref().map(Binding::from_record).transpose()
    }

    /// The binding of a session.
    ///
    /// # Errors
    /// `NotFound` when there is no such session.
    pub async fn of_session(&self, id: &SessionId) -> Result<Option<Binding>> {
        let row = crate::sessions::row(&self.workspace, id).await?.ok_or_else(|| not_found(id))?;
        bound_to(self.base(), &row.session_ref()).await
    }

    /// All bindings, in the order in which the channels got their sessions, at most `limit` in one page.
    ///
    /// # Errors
    /// `Invalid` for a limit of 0 or a foreign cursor.
    pub async fn list(&self, limit: u32, cursor: Option<Cursor>) -> Result<Page<Binding>> {
        let mut query = records::query(self.base(), collection::BINDINGS)?;
        query.limit = limit;
        query.cursor = cursor;
        let page = self.base().store().records(&query).await?;
        let items = page.items.iter().map(Binding::from_record).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next, total: page.total })
    }

    /// Binds a channel identity to a session. Doing it again is fine. A lazy session is stored with it.
    ///
    /// # Errors
    /// `AlreadyExists`, with the session that has the channel, or because the session is bound to another channel;
    /// `NotFound` when the session was deleted.
    pub async fn bind(&self, channel: &Channel, session: &Session) -> Result<Binding> {
        records::again(|| self.bind_once(channel, session)).await
    }

    /// Makes a session that is bound from the start: session and binding are one commit.
    ///
    /// # Errors
    /// `AlreadyExists`, with the session that has the channel; nothing is made then. Else as making a session.
    pub async fn create_bound(&self, channel: &Channel, mut create: CreateSession) -> Result<Session> {
        let repeat = meaning("create-bound/1", channel, None, &mut create)?;
        let session = create.lazy().await?;
        records::again(|| self.create_once(channel, &session, &repeat)).await
    }

    /// Moves a channel identity from one session to another, in one commit. The former session keeps its history.
    ///
    /// # Errors
    /// `AlreadyExists`, with the session that has it, when the channel does not belong to `from` (any more), or because
    /// `to` is bound to another channel; `NotFound` when it belongs to none; `Invalid` when `to` is `from`.
    pub async fn transfer(&self, channel: &Channel, from: &SessionId, to: &Session) -> Result<Binding> {
        records::again(|| async move {
            self.move_once(channel, from, to, &Repeat::default()).await?;
            self.settled(channel, to.session_ref()).await
        })
        .await
    }

    /// Gives a channel identity a new session instead of the one it has: the new session is made, bound, and the old one
    /// let go, in one commit. The old session keeps its history.
    ///
    /// # Errors
    /// As [`transfer`](Self::transfer); nothing is made then. Else as making a session.
    pub async fn rotate(
        &self,
        channel: &Channel,
        from: &SessionId,
        mut create: CreateSession,
    ) -> Result<Session> {
        let repeat = meaning("rotate-bound/1", channel, Some(from), &mut create)?;
        let session = create.lazy().await?;
        records::again(|| async {
            let written = self.move_once(channel, from, &session, &repeat).await?;
            self.made(&session, written).await
        })
        .await
    }

    /// Lets go of the channel identity of a session and answers which one it was. The session keeps its history.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn unbind(&self, session: &Session) -> Result<Option<Channel>> {
        records::again(|| self.unbind_once(session)).await
    }

    fn base(&self) -> &Base {
        self.workspace.base()
    }

    async fn bind_once(&self, channel: &Channel, session: &Session) -> Result<Binding> {
        if session.is_stored()
            && !mutant::is("bindings/unguarded-session")
            && let Some(binding) = bound_to(self.base(), session.session_ref()).await?
        {
            return if binding.channel == *channel {
                Ok(binding)
            } else {
                Err(bound_elsewhere(session.id()))
            };
        }
        let ops = take(channel, session.session_ref(), Expect::Absent)?;
        match self.write(session, ops, &Repeat::default()).await {
            Ok(_) => self.settled(channel, session.session_ref()).await,
            Err(refused) => match self.who_has(channel, refused).await {
                Ok(binding) if binding.session == *session.session_ref() => Ok(binding),
                Ok(binding) => Err(taken(&binding)),
                Err(refused) => Err(refused),
            },
        }
    }

    async fn create_once(&self, channel: &Channel, session: &Session, repeat: &Repeat) -> Result<Session> {
        let ops = take(channel, session.session_ref(), Expect::Absent)?;
        match self.write(session, ops, repeat).await {
            Ok(written) => self.made(session, written).await,
            Err(refused) => Err(taken(&self.who_has(channel, refused).await?)),
        }
    }

    async fn move_once(
        &self,
        channel: &Channel,
        from: &SessionId,
        to: &Session,
        repeat: &Repeat,
    ) -> Result<Written> {
        let found = records::by_key(self.base(), collection::BINDINGS, key(channel)?).await?;
        let owner = found.as_ref().and_then(|record| record.owner.as_ref());
        let mut ops = Vec::with_capacity(5);
        let expect = match (&found, owner) {
            (Some(record), Some(owner)) if owner.id == *from => {
                if owner == to.session_ref() {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        "the channel belongs to this session already",
                    )
                    .with("session", from));
                }
                ops.extend(let_go(owner)?);
                Expect::Version(record.version)
            }
            _ => Expect::Version(NEVER),
        };
        if to.is_stored() && bound_to(self.base(), to.session_ref()).await?.is_some() {
            return Err(bound_elsewhere(to.id()));
        }
        ops.extend(take(channel, to.session_ref(), expect)?);
        let refused = match self.write(to, ops, repeat).await {
            Ok(written) => return Ok(written),
            Err(refused) if refused.kind() == ErrorKind::VersionConflict => refused,
            Err(other) => return Err(other),
        };
        match self.of_channel(channel).await? {
            None => Err(Error::new(ErrorKind::NotFound, "the channel belongs to no session; bind it")
                .with("channel kind", &channel.kind)),
            // Somebody else was in between and it is as it should be again.
            Some(binding) if binding.session.id == *from => Err(refused),
            Some(binding) => Err(Error::new(
                ErrorKind::AlreadyExists,
                "the channel belongs to another session than the one it should be taken from",
            )
            .with("session", &binding.session.id)
            .with("expected", from)),
        }
    }

    async fn unbind_once(&self, session: &Session) -> Result<Option<Channel>> {
        let owner = session.session_ref();
        let found = records::owned(session, collection::BINDINGS, |query| query.limit = 1).await?.items;
        let Some(record) = found.first() else { return Ok(None) };
        let mut ops = vec![records::delete(
            collection::BINDINGS,
            record.key.clone(),
            Some(owner),
            expect_same(record),
        )?];
        ops.extend(let_go(owner)?);
        self.write(session, ops, &Repeat::default()).await?;
        Ok(Some(record.payload.parse()?))
    }

    async fn write(&self, session: &Session, ops: Vec<Op>, repeat: &Repeat) -> Result<Written> {
        if session.workspace().id() != self.workspace.id() {
            let message = "the session is of another workspace; use that one's bindings";
            return Err(Error::new(ErrorKind::Invalid, message).with("session", session.id()));
        }
        session.write(Plan::new(move |_| Ok(ops.clone())).shared().repeat(repeat.clone())).await
    }

    /// The session that a commit made, or that an earlier one with the same request made.
    async fn made(&self, session: &Session, written: Written) -> Result<Session> {
        if written.session == *session.session_ref() {
            return Ok(session.clone());
        }
        self.workspace.sessions().open(&written.session.id).await
    }

    /// The binding as the commit before left it.
    async fn settled(&self, channel: &Channel, session: &SessionRef) -> Result<Binding> {
        let found = self.of_channel(channel).await?.filter(|binding| binding.session == *session);
        found.ok_or_else(|| {
            Error::new(
                ErrorKind::VersionConflict,
                "the channel was given away at once; look and decide again",
            )
            .with("session", &session.id)
        })
    }

    /// Who has the channel, if that is why a commit was refused.
    async fn who_has(&self, channel: &Channel, refused: Error) -> Result<Binding> {
        if refused.kind() != ErrorKind::VersionConflict {
            return Err(refused);
        }
        self.of_channel(channel).await?.ok_or(refused)
    }
}

impl Binding {
    fn from_record(record: &Record) -> Result<Self> {
        let session = record.owner.clone().ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "a binding belongs to no session").with("key", &record.key)
        })?;
        Ok(Self { channel: record.payload.parse()?, session, since: record.updated_at })
    }
}

/// What a channel is called where only ids can stand. It may be longer than an id, or hold any character.
pub(crate) fn channel_digest(channel: &Channel) -> String {
    let id = mutant::either("bindings/all-rooms-are-one", "", channel.id.as_str());
    to_hex(&FieldDigest::new("channel/1").text(&channel.kind).text(id).finish())
}

fn key(channel: &Channel) -> Result<RecordKey> {
    RecordKey::new(channel_digest(channel))
}

/// The ops that give a channel to a session which has none.
fn take(channel: &Channel, session: &SessionRef, expect: Expect) -> Result<Vec<Op>> {
    let owner = Some(session);
    let expect = mutant::either("bindings/channel-taken-away", Expect::Any, expect);
    let patch = SessionPatch { channel: Some(Some(channel.clone())), ..SessionPatch::default() };
    Ok(vec![
        records::put(collection::BINDINGS, key(channel)?, owner, None, expect, channel)?,
        records::put(
            collection::BOUND_SESSIONS,
            records::single_key(session)?,
            owner,
            None,
            mutant::either("bindings/unguarded-session", Expect::Any, Expect::Absent),
            channel,
        )?,
        Op::PatchSession { session: session.clone(), patch },
    ])
}

/// The ops after which a session has no channel, but for the binding itself.
fn let_go(session: &SessionRef) -> Result<[Op; 2]> {
    let key = records::single_key(session)?;
    let patch = SessionPatch { channel: Some(None), ..SessionPatch::default() };
    Ok([
        // One that was imported has no claim.
        records::delete(collection::BOUND_SESSIONS, key, Some(session), Expect::Any)?,
        Op::PatchSession { session: session.clone(), patch },
    ])
}

fn expect_same(record: &Record) -> Expect {
    records::expect(Some(record))
}

async fn bound_to(base: &Base, session: &SessionRef) -> Result<Option<Binding>> {
    let found = records::owned_by(base, session, collection::BINDINGS, |query| query.limit = 1).await?;
    found.items.first().map(Binding::from_record).transpose()
}

/// Refuses a change of the channel by itself while the session is bound; answers the guard that holds until it is made.
pub(crate) async fn refuse_if_bound(session: &Session) -> Result<turnkeep_core::commit::Guard> {
    let bound =
        session.is_stored() && bound_to(session.workspace().base(), session.session_ref()).await?.is_some();
    if bound {
        return Err(Error::new(
            ErrorKind::Invalid,
            "the session is bound to its channel; transfer or unbind it instead",
        )
        .with("session", session.id()));
    }
    Ok(turnkeep_core::commit::Guard::Record {
        collection: turnkeep_core::id::Collection::new(collection::BOUND_SESSIONS)?,
        key: records::single_key(session.session_ref())?,
        expect: Expect::Absent,
    })
}

fn taken(binding: &Binding) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        "the channel belongs to another session; transfer it, or go on there",
    )
    .with("session", &binding.session.id)
}

fn bound_elsewhere(session: &SessionId) -> Error {
    Error::new(ErrorKind::AlreadyExists, "the session is bound to another channel; unbind it first")
        .with("bound", session)
}

/// What makes a repeat of making a bound session safe. Its ids are drawn anew, so that the commit's own digest would
/// differ.
fn meaning(
    what: &str,
    channel: &Channel,
    from: Option<&SessionId>,
    create: &mut CreateSession,
) -> Result<Repeat> {
    let id: Option<RequestId> = create.take_request()?;
    let Some(id) = id else { return Ok(Repeat::default()) };
    let profile = Payload::from_value(create.profile()?)?;
    let digest = FieldDigest::new(what).text(&channel.kind).text(&channel.id);
    let digest = digest.maybe(from.map(SessionId::as_str)).text(profile.as_str()).finish();
    Ok(Repeat { id: Some(id), fingerprint: Some(Fingerprint::from_bytes(digest)) })
}
