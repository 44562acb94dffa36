//! SHA-256 over things in a fixed form.

use sha2::{Digest, Sha256};

/// A digest that is fed fields, each with its length, so that no two different sequences look alike.
#[derive(Clone)]
pub struct FieldDigest(Sha256);

impl FieldDigest {
    /// Begins with a name, so that digests of different things never collide.
    #[must_use]
    pub fn new(domain: &str) -> Self {
        Self(Sha256::new()).bytes(domain.as_bytes())
    }

    /// Adds bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.add_bytes(bytes);
        self
    }

    /// Adds bytes in place.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.add_number(bytes.len() as u64);
        self.0.update(bytes);
    }

    /// Adds text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Adds text that may be absent; absent differs from empty.
    #[must_use]
    pub fn maybe(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.number(1).text(text),
            None => self.number(0),
        }
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, number: u64) -> Self {
        self.add_number(number);
        self
    }

    /// Adds a number in place.
    pub(crate) fn add_number(&mut self, number: u64) {
        self.0.update(number.to_be_bytes());
    }

    /// The digest.
    #[must_use]
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

impl std::fmt::Debug for FieldDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FieldDigest")
    }
}

/// Hexadecimal text of bytes.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The 32 bytes of 64 hexadecimal digits.
#[must_use]
pub fn from_hex32(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

pub(crate) mod hex32 {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::to_hex(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        super::from_hex32(&text).ok_or_else(|| serde::de::Error::custom("expected 64 hexadecimal digits"))
    }
}
