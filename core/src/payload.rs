//! Payloads: raw JSON that comes back byte for byte.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{PAYLOAD_BYTES, PAYLOAD_DEPTH};
use crate::mutant;

/// A JSON text, kept exactly as it was given: key order, number spelling, white space, escapes and unknown fields.
///
/// Refused, alike on every backend and before anything is written: text that is no JSON, escapes of lone
/// surrogates (`"\ud800"`), nesting deeper than 128, more than 16 MiB. An escaped NUL (`"\u0000"`) is fine.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload(Arc<str>);

impl Payload {
    /// Checks and keeps a JSON text.
    ///
    /// # Errors
    /// `Invalid` when it is no JSON or holds a lone surrogate, `TooLarge` above the size or depth limit.
    pub fn new(json: impl Into<Arc<str>>) -> Result<Self> {
        let json = json.into();
        if json.len() > PAYLOAD_BYTES {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the payload has {} bytes; at most {PAYLOAD_BYTES} are allowed", json.len()),
            ));
        }
        check_structure(json.as_bytes())?;
        if let Err(error) = serde_json::from_str::<IgnoredAny>(&json) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("the payload is not valid JSON at line {}, column {}", error.line(), error.column()),
            ));
        }
        Ok(Self(json))
    }

    /// The JSON of a value.
    ///
    /// # Errors
    /// `Invalid` when the value has no JSON form, `TooLarge` above the limits.
    pub fn from_value(value: &impl Serialize) -> Result<Self> {
        let json = serde_json::to_string(value).map_err(|error| {
            Error::new(ErrorKind::Invalid, "the value cannot be written as JSON").with_source(error)
        })?;
        Self::new(json)
    }

    /// Wraps a text that a store has checked when it was written. For backends.
    #[must_use]
    pub fn from_stored(json: impl Into<Arc<str>>) -> Self {
        Self(json.into())
    }

    /// The empty object, `{}`.
    #[must_use]
    pub fn empty() -> Self {
        Self(Arc::from("{}"))
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the JSON into a type.
    ///
    /// # Errors
    /// `Invalid` when the JSON does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.0).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("the payload does not fit {}", std::any::type_name::<T>()))
                .with_source(error)
        })
    }
}

/// Depth and surrogates; all else of the grammar is the JSON parser's.
fn check_structure(bytes: &[u8]) -> Result<()> {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        if !in_string {
            match byte {
                b'"' => in_string = true,
                b'[' | b'{' => {
                    depth += 1;
                    if depth > PAYLOAD_DEPTH && !mutant::is("payloads/of-any-depth") {
                        return Err(Error::new(
                            ErrorKind::TooLarge,
                            format!("the payload is nested deeper than {PAYLOAD_DEPTH} levels"),
                        ));
                    }
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = false,
            b'\\' => match escaped_unit(bytes, at) {
                Some(0xD800..=0xDBFF) => {
                    if !matches!(escaped_unit_after_backslash(bytes, at + 5), Some(0xDC00..=0xDFFF)) {
                        return Err(lone_surrogate(at));
                    }
                    at += 11;
                }
                Some(0xDC00..=0xDFFF) => return Err(lone_surrogate(at)),
                Some(_) => at += 5,
                None => at += 1,
            },
            _ => {}
        }
    }
    Ok(())
}

fn lone_surrogate(at: usize) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("the payload escapes a lone surrogate near byte {at}; it has no UTF-8 form"),
    )
}

/// The code unit of `uXXXX` at `at`, the byte after a backslash.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    if bytes.get(at) != Some(&b'u') {
        return None;
    }
    let digits = std::str::from_utf8(bytes.get(at + 1..at + 5)?).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

fn escaped_unit_after_backslash(bytes: &[u8], at: usize) -> Option<u16> {
    if bytes.get(at) == Some(&b'\\') { escaped_unit(bytes, at + 1) } else { None }
}

impl fmt::Debug for Payload {
    /// The size only: payloads hold people's words, and debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

impl Serialize for Payload {
    /// As a string: JSON embedded in JSON could be re-spaced by whoever copies it.
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(json: &str) -> ErrorKind {
        Payload::new(json).unwrap_err().kind()
    }

    #[test]
    fn bytes_are_kept_exactly() {
        for json in [
            r#"{"zebra":1,"alpha":{"z":1,"a":2}}"#,
            r#"[1.0,1e400,-0,12345678901234567890123]"#,
            r#"{"a":1,"a":2}"#,
            " { \"a\" :\n 1 } ",
            r#""\u0000 \ud83d\ude00 \\u d800""#,
            r#""\\ud800""#,
        ] {
            assert_eq!(Payload::new(json).unwrap().as_str(), json);
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for json in ["", "{", "nul", "{\"a\":}", "\"\u{0}\"", "[1]x", "'a'", "\"\\u12g4\"", "]"] {
            assert_eq!(kind(json), ErrorKind::Invalid, "{json:?}");
        }
    }

    #[test]
    fn lone_surrogates_are_refused() {
        for json in [r#""\ud800""#, r#""\udc00""#, r#""\ud800\ud800""#, r#""\ud83dx""#, r#"{"\udfff":1}"#] {
            assert_eq!(kind(json), ErrorKind::Invalid, "{json}");
        }
    }

    #[test]
    fn depth_and_size_have_exact_limits() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Payload::new(nested(PAYLOAD_DEPTH)).is_ok());
        assert_eq!(kind(&nested(PAYLOAD_DEPTH + 1)), ErrorKind::TooLarge);
        let sized = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        assert!(Payload::new(sized(PAYLOAD_BYTES)).is_ok());
        assert_eq!(kind(&sized(PAYLOAD_BYTES + 1)), ErrorKind::TooLarge);
    }

    #[test]
    fn debug_output_holds_no_words() {
        assert!(!format!("{:?}", Payload::new("\"secret\"").unwrap()).contains("secret"));
    }
}
