//! The names that tapes use, and what they are in a store.

use turnkeep_core::digest::FieldDigest;
use turnkeep_core::model::{LeaseName, Visibility};
use turnkeep_core::{Incarnation, LeaseToken, SessionRef};

use super::ops::{Hold, Life};
use crate::kit::name;

/// The collections that tapes write to; the first needs the lease of an owner.
pub(crate) const COLLECTIONS: &[&str] = &["tool-claims", "bindings", "notes"];
/// The streams that tapes write to; the first and the last need the lease.
pub(crate) const STREAMS: &[&str] = &["runs", "log", "partial/t"];
/// The leases of no session.
pub(crate) const LEASES: &[&str] = &["line"];

fn bytes(domain: &str, text: &str) -> [u8; 16] {
    let digest = FieldDigest::new(domain).text(text).finish();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes
}

/// The incarnation of a life: the same in every process that plays the tape.
pub(crate) fn incarnation(life: &Life) -> Incarnation {
    Incarnation::from_bytes(bytes("conformance/life", &life.0))
}

pub(crate) fn session(life: &Life) -> SessionRef {
    SessionRef { id: name(life.id()), incarnation: incarnation(life) }
}

pub(crate) fn lease(hold: &Hold) -> LeaseName {
    match hold {
        Hold::Session(life) => LeaseName::Session(session(life)),
        Hold::Named(id) => LeaseName::Named(name(id)),
    }
}

/// The secret that a number stands for.
pub(crate) fn token(number: u32) -> LeaseToken {
    LeaseToken::from_bytes(bytes("conformance/token", &number.to_string()))
}

/// The payload of a number.
pub(crate) fn value(number: u32) -> String {
    format!("{{\"n\":{number}}}")
}

/// The payload of a text.
pub(crate) fn text(text: &str) -> String {
    format!("{{\"t\":{}}}", serde_json::Value::from(text))
}

pub(crate) fn visibility(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Conversation => "conversation",
        Visibility::Internal => "internal",
        Visibility::Partial => "partial",
    }
}
