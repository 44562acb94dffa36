//! Cursors: where a query goes on. Opaque, bound to their query, surviving inserts and deletes.

use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::{FieldDigest, to_hex};
use crate::error::{Error, ErrorKind, Result};
use crate::mutant;

/// Where a query goes on. It names a position, not a row, so it stays valid when the row is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// Binds a position to a query. `query` is its bound part: everything but limit and cursor.
    ///
    /// # Errors
    /// `Invalid` when query or position have no JSON form.
    pub fn seal(query: &impl Serialize, position: &impl Serialize) -> Result<Self> {
        let position = serde_json::to_vec(position).map_err(|error| {
            Error::new(ErrorKind::Invalid, "the position cannot be written").with_source(error)
        })?;
        Ok(Self(format!("{}{}", binding(query)?, to_hex(&position))))
    }

    /// The position, if the cursor belongs to this query.
    ///
    /// # Errors
    /// `Invalid` when it is no cursor or belongs to another query.
    pub fn open<P: DeserializeOwned>(&self, query: &impl Serialize) -> Result<P> {
        let garbled =
            || Error::new(ErrorKind::Invalid, "this is not a cursor; pass back what a page gave as `next`");
        let (bound, position) = self.0.split_at_checked(16).ok_or_else(garbled)?;
        if !self.0.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(garbled());
        }
        if bound != binding(query)? && !mutant::is("cursors/of-any-query") {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the cursor belongs to another query; only limit may change between pages",
            ));
        }
        let bytes: Option<Vec<u8>> = (0..position.len())
            .step_by(2)
            .map(|at| position.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()))
            .collect();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or_else(garbled)
    }

    /// The text, to hand to a client and take back.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn binding(query: &impl Serialize) -> Result<String> {
    let query = serde_json::to_vec(query)
        .map_err(|error| Error::new(ErrorKind::Invalid, "the query cannot be written").with_source(error))?;
    let digest = FieldDigest::new("cursor/1").bytes(&query).finish();
    Ok(to_hex(digest.get(..8).unwrap_or_default()))
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Cursor {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_from_its_text_as_it_was() {
        let cursor = Cursor::seal(&"the query", &(7, "a place")).unwrap();
        for text in [cursor.as_str().to_owned(), cursor.to_string()] {
            let back: Cursor = text.parse().unwrap();
            assert_eq!(back, cursor);
            assert_eq!(back.open::<(u32, String)>(&"the query").unwrap(), (7, "a place".to_owned()));
        }
    }
}
