//! Identifiers. Each is its own type, so that no two can be confused.
//!
//! Text ids are compared byte by byte: case, normalisation form and trailing spaces all count.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, ErrorKind, Result};
use crate::limits::ID_BYTES;

/// Checks a text id: 1 to [`ID_BYTES`] bytes of UTF-8 without control characters.
fn check_id(what: &'static str, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("the {what} is empty; give 1 to {ID_BYTES} bytes"),
        ));
    }
    if text.len() > ID_BYTES {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("the {what} has {} bytes; at most {ID_BYTES} are allowed", text.len()),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("the {what} contains a control character; use printable characters only"),
        ));
    }
    Ok(())
}

macro_rules! text_ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and wraps a text: 1 to 256 bytes, no control characters.
            ///
            /// # Errors
            /// `Invalid` for an empty text or a control character, `TooLarge` above 256 bytes.
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                let text = text.as_ref();
                check_id($what, text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &*self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }
    )*};
}

text_ids! {
    /// A workspace: the unit of isolation. Every key starts with it.
    WorkspaceId = "workspace id";
    /// A session within a workspace. The same id may be used again after a delete; see [`Incarnation`].
    SessionId = "session id";
    /// A run within a session.
    RunId = "run id";
    /// A turn within a session.
    TurnId = "turn id";
    /// The accepted request that one or more runs try to fulfil.
    IntentId = "intent id";
    /// A key that the host attaches to an entry, unique in its session.
    EntryKey = "entry key";
    /// What an entry is: `message`, `compaction`, … Unknown kinds are kept.
    EntryKind = "entry kind";
    /// Who speaks in a message: `system`, `user`, `assistant`, `tool`. Unknown roles are kept.
    Role = "role";
    /// The relation of a reference between entries, such as `first_kept`.
    Relation = "relation";
    /// What an event is, such as `run_started`. Unknown kinds are kept.
    EventKind = "event kind";
    /// A project that sessions of a workspace belong to.
    ProjectId = "project id";
    /// An append-only stream of events beside the entries of a session.
    StreamName = "stream name";
    /// A collection of records.
    Collection = "collection name";
    /// The key of a record within its collection.
    RecordKey = "record key";
    /// The status column of a record.
    Status = "record status";
    /// A lease that belongs to no session, such as a channel identity.
    LeaseId = "lease id";
}

macro_rules! random_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// Wraps 128 bits that the caller drew at random.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The bits.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                let invalid = || Error::new(ErrorKind::Invalid, concat!("not a ", stringify!($name), ": expected 32 hexadecimal digits"));
                if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(invalid());
                }
                let bits = u128::from_str_radix(text, 16).map_err(|_| invalid())?;
                Ok(Self(bits.to_be_bytes()))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

random_ids! {
    /// Tells one life of a session id from the next: a session created again under a used id gets a new one,
    /// so that handles, guards, fences, cursors and requests of the old life cannot reach the new one.
    Incarnation;
    /// One open handle of a store. Never reused, so that "is the owner alive?" has a clear answer.
    OwnerId;
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incarnation({self})")
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerId({self})")
    }
}

/// The secret that proves who holds a lease. Stores keep only its SHA-256 digest; it is never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken([u8; 16]);

impl LeaseToken {
    /// Wraps 128 bits that the caller drew at random.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The digest that a store keeps and compares.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        use sha2::{Digest, Sha256};
        Sha256::digest(self.0).into()
    }
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken(secret)")
    }
}

/// The number of an entry: contiguous per session, from 1. It is the entry's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct EntryNo(u32);

impl TryFrom<u32> for EntryNo {
    type Error = Error;
    fn try_from(number: u32) -> Result<Self> {
        Self::new(number).ok_or_else(|| Error::new(ErrorKind::Invalid, "entries are numbered from 1"))
    }
}

impl From<EntryNo> for u32 {
    fn from(number: EntryNo) -> Self {
        number.0
    }
}

impl EntryNo {
    /// The first number of a session.
    pub const FIRST: Self = Self(1);
    /// The last number a session can hold.
    pub const MAX: Self = Self(u32::MAX);

    /// Wraps a number; `None` for 0, which no entry has.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The following number; `None` at the end of the range.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(next) => Some(Self(next)),
            None => None,
        }
    }
}

impl fmt::Debug for EntryNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for EntryNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A session by its id alone: what a person names. Reading it gives the [`SessionRef`] that all else needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The session's id.
    pub id: SessionId,
}

/// One life of a session: its id and its incarnation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionRef {
    /// The session's id.
    pub id: SessionId,
    /// Which life of that id.
    pub incarnation: Incarnation,
}

impl fmt::Display for SessionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_bytewise_and_bounded() {
        assert_ne!(SessionId::new("a").unwrap(), SessionId::new("A").unwrap());
        assert_ne!(SessionId::new("a").unwrap(), SessionId::new("a ").unwrap());
        assert!(SessionId::new("x".repeat(256)).is_ok());
        assert_eq!(SessionId::new("x".repeat(257)).unwrap_err().kind(), ErrorKind::TooLarge);
        for bad in ["", "a\0b", "tab\t", "\u{85}"] {
            assert_eq!(SessionId::new(bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad:?}");
        }
        assert!(SessionId::new("../../x").is_ok(), "an id never becomes a path, so it may look like one");
    }

    #[test]
    fn random_ids_round_trip_as_text() {
        let owner = OwnerId::from_bytes([0xab; 16]);
        assert_eq!(owner.to_string().parse::<OwnerId>().unwrap(), owner);
        assert!("+bababababababababababababababab".parse::<OwnerId>().is_err());
    }

    #[test]
    fn a_token_is_never_printed() {
        assert_eq!(format!("{:?}", LeaseToken::from_bytes([7; 16])), "LeaseToken(secret)");
    }
}
