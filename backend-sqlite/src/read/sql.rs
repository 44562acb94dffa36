//! Putting a query together from fixed pieces. Values are always bound, never written into the text.

use rusqlite::types::Value;
use turnkeep_core::{Order, Result};

/// A query under construction.
pub(super) struct Sql {
    pub(super) text: String,
    pub(super) values: Vec<Value>,
}

impl Sql {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), values: Vec::new() }
    }

    /// Adds a piece of text.
    pub(super) fn push(&mut self, piece: &str) -> &mut Self {
        self.text.push_str(piece);
        self
    }

    /// Binds a value and names the place where it can be used.
    pub(super) fn value(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }

    /// Binds a value where the piece has `?`.
    pub(super) fn bind(&mut self, piece: &str, value: impl Into<Value>) -> &mut Self {
        let place = self.value(value);
        self.text.push_str(&piece.replace('?', &place));
        self
    }

    /// Adds a condition on an optional value.
    pub(super) fn bind_some(&mut self, piece: &str, value: Option<impl Into<Value>>) -> &mut Self {
        if let Some(value) = value {
            self.bind(piece, value);
        }
        self
    }
}

/// `ASC` or `DESC`: from which end a query scans.
pub(super) const fn direction(order: Order) -> &'static str {
    if order.from_newest() { "DESC" } else { "ASC" }
}

/// The comparison that goes on behind a position.
pub(super) const fn beyond(order: Order) -> &'static str {
    if order.from_newest() { "<" } else { ">" }
}

/// A list of texts as one bound value, for `IN (SELECT value FROM json_each(?))`: the text of the query stays the
/// same however many there are.
pub(super) fn list<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<String> {
    let texts: Vec<&str> = texts.into_iter().collect();
    serde_json::to_string(&texts).map_err(|error| {
        turnkeep_core::Error::new(turnkeep_core::ErrorKind::Invalid, "the list cannot be written as JSON")
            .with_source(error)
    })
}
