//! Requests: what makes a repeat of a commit safe.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::id::SessionRef;
use crate::limits::ID_BYTES;
use crate::time::Timestamp;

/// The id of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestId {
    /// Drawn by a program: a version-7 UUID, so that it begins with its time. Answers `RequestExpired` after seven
    /// days.
    Generated(Uuid),
    /// Given by the host: 1 to 256 bytes. Lives as long as its session.
    Host(String),
}

impl RequestId {
    /// A host's id: 1 to 256 bytes without control characters.
    ///
    /// # Errors
    /// `Invalid` or `TooLarge` when it is not.
    pub fn host(text: impl Into<String>) -> Result<Self> {
        let id = Self::Host(text.into());
        id.check()?;
        Ok(id)
    }

    /// Whether the id is well formed; stores ask this of every request.
    ///
    /// # Errors
    /// `Invalid` or `TooLarge` when it is not.
    pub fn check(&self) -> Result<()> {
        let Self::Host(text) = self else { return Ok(()) };
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a request id is 1 to 256 bytes without control characters",
            ));
        }
        if text.len() > ID_BYTES {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the request id has {} bytes; at most {ID_BYTES} are allowed", text.len()),
            ));
        }
        Ok(())
    }

    /// A generated id of a time and 10 random bytes.
    #[must_use]
    pub fn generated(at: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(at.as_millis()).unwrap_or(0);
        Self::Generated(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// When a generated id was drawn.
    #[must_use]
    pub fn drawn_at(&self) -> Option<Timestamp> {
        let Self::Generated(id) = self else { return None };
        let bytes = id.as_bytes();
        let millis = bytes.iter().take(6).fold(0_i64, |sum, byte| (sum << 8) | i64::from(*byte));
        Some(Timestamp::from_millis(millis))
    }
}

impl fmt::Display for RequestId {
    /// The stored form: `g:` or `h:` and the id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generated(id) => write!(f, "g:{id}"),
            Self::Host(text) => write!(f, "h:{text}"),
        }
    }
}

impl FromStr for RequestId {
    type Err = Error;
    fn from_str(stored: &str) -> Result<Self> {
        if let Some(text) = stored.strip_prefix("h:") {
            return Self::host(text);
        }
        stored
            .strip_prefix("g:")
            .and_then(|id| Uuid::parse_str(id).ok())
            .map(Self::Generated)
            .ok_or_else(|| Error::new(ErrorKind::Invalid, "not a stored request id"))
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let stored = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        stored.parse().map_err(serde::de::Error::custom)
    }
}

/// Where a request id is unique.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestScope {
    /// In the workspace: for creating and deleting, and for commits over several sessions.
    Workspace,
    /// In one life of a session.
    Session(SessionRef),
}

/// SHA-256 of what a caller meant.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Wraps a digest.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::digest::to_hex(&self.0))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        crate::digest::hex32::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        crate::digest::hex32::deserialize(deserializer).map(Self)
    }
}

/// A request: the same id with the same fingerprint lands once and answers with the same receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The id.
    pub id: RequestId,
    /// Where it is unique.
    pub scope: RequestScope,
    /// What the caller meant; `None` takes the digest of the commit (`rules::fingerprint`).
    pub fingerprint: Option<Fingerprint>,
    /// In the workspace scope: the session the stored receipt lives and dies with, such as the child of a fork.
    pub owner: Option<SessionRef>,
}

impl Request {
    /// A request that is unique in the workspace.
    #[must_use]
    pub fn in_workspace(id: RequestId) -> Self {
        Self { id, scope: RequestScope::Workspace, fingerprint: None, owner: None }
    }

    /// A request that is unique in one life of a session.
    #[must_use]
    pub fn in_session(id: RequestId, session: SessionRef) -> Self {
        Self { id, scope: RequestScope::Session(session), fingerprint: None, owner: None }
    }

    /// Says what the caller meant, instead of a digest of the commit.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// Ties the stored receipt to the life of a session.
    #[must_use]
    pub fn owned_by(mut self, owner: SessionRef) -> Self {
        self.owner = Some(owner);
        self
    }

    /// The session that takes the stored receipt along when it is deleted.
    #[must_use]
    pub fn owning_session(&self) -> Option<&SessionRef> {
        match &self.scope {
            RequestScope::Session(session) => Some(session),
            RequestScope::Workspace => self.owner.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_carry_their_time_and_round_trip() {
        let at = Timestamp::from_millis(1_764_400_000_123);
        let id = RequestId::generated(at, [9; 10]);
        assert_eq!(id.drawn_at(), Some(at));
        assert_eq!(id.to_string().parse::<RequestId>().unwrap(), id);
        let host = RequestId::host("g:looks generated").unwrap();
        assert_eq!(host.to_string().parse::<RequestId>().unwrap(), host);
    }
}
