//! Reads of a tape: queries, and what is compared of their answers.

use serde::{Deserialize, Serialize};
use turnkeep_core::Order;
use turnkeep_core::model::RunState;

use super::ops::{Life, Spot};
use super::script::is_default;

/// A query. Every page is read, and the pages are compared as they come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Look {
    pub(crate) at: Target,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) order: Order,
    pub(crate) limit: u32,
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    Entries {
        session: Life,
        #[serde(default, skip_serializing_if = "is_default")]
        path: Option<End>,
        #[serde(default, skip_serializing_if = "is_default")]
        after: Option<u32>,
        #[serde(default, skip_serializing_if = "is_default")]
        before: Option<u32>,
        /// Unfinished texts too.
        #[serde(default, skip_serializing_if = "is_default")]
        partials: bool,
        #[serde(default, skip_serializing_if = "is_default")]
        run: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        key: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        kind: Option<String>,
    },
    /// Sessions, newest first, or by id in ascending order.
    Sessions {
        #[serde(default, skip_serializing_if = "is_default")]
        by_id: bool,
        #[serde(default, skip_serializing_if = "is_default")]
        pinned: Option<bool>,
        #[serde(default, skip_serializing_if = "is_default")]
        archived: Option<bool>,
        #[serde(default, skip_serializing_if = "is_default")]
        with_messages: bool,
    },
    Runs {
        #[serde(default, skip_serializing_if = "is_default")]
        session: Option<Life>,
        #[serde(default, skip_serializing_if = "is_default")]
        states: Vec<RunState>,
        #[serde(default, skip_serializing_if = "is_default")]
        intent: Option<String>,
    },
    Events {
        session: Life,
        stream: String,
        #[serde(default, skip_serializing_if = "is_default")]
        after: Option<u64>,
        #[serde(default, skip_serializing_if = "is_default")]
        before: Option<u64>,
    },
    Records {
        collection: String,
        #[serde(default, skip_serializing_if = "is_default")]
        owner: Option<Owned>,
        #[serde(default, skip_serializing_if = "is_default")]
        status: Option<String>,
    },
}

/// The end of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Leaf,
    At(Spot),
}

/// Whose records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Owned {
    Nobody,
    By(Life),
}

/// The pages of an answer, each item as the words that tell it from others.
pub(crate) type Pages = Vec<Vec<String>>;

impl Target {
    /// What it is called in a report.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Entries { .. } => "entries",
            Self::Sessions { .. } => "sessions",
            Self::Runs { .. } => "runs",
            Self::Events { .. } => "events",
            Self::Records { .. } => "records",
        }
    }
}

/// An ascending list in pages. Newest-first orders begin at its end; `Latest` turns each page around.
pub(crate) fn paged(items: Vec<String>, order: Order, limit: u32) -> Pages {
    let mut items = items;
    if order.from_newest() {
        items.reverse();
    }
    let mut pages: Pages = items.chunks(limit.max(1) as usize).map(<[String]>::to_vec).collect();
    if order == Order::Latest {
        pages.iter_mut().for_each(|page| page.reverse());
    }
    if pages.is_empty() {
        pages.push(Vec::new());
    }
    pages
}
