//! All that can be read, in a form that a store and the model share, and where two of them first differ.

use std::collections::BTreeMap;
use std::fmt::Debug;

use super::mind::Handle;

/// All that a store shows of a workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    /// By session id, hidden ones too.
    pub(crate) sessions: BTreeMap<String, SessionView>,
    /// The lives in use, the last change first.
    pub(crate) recent: Vec<String>,
    /// By collection, in the order of lists.
    pub(crate) records: BTreeMap<String, Vec<RecordView>>,
    pub(crate) named: BTreeMap<String, LeaseView>,
}

/// A session. Of one in the making only the row can be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SessionView {
    pub(crate) row: RowView,
    pub(crate) entries: Vec<EntryView>,
    /// The path of the leaf.
    pub(crate) path: Vec<u32>,
    /// The newest three entries, partials left out.
    pub(crate) newest: Vec<u32>,
    pub(crate) runs: Vec<RunView>,
    pub(crate) streams: Vec<StreamView>,
    pub(crate) lease: Option<LeaseView>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowView {
    pub(crate) life: String,
    pub(crate) restoring: bool,
    pub(crate) revision: u64,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) head: Option<u32>,
    pub(crate) leaf: Option<u32>,
    pub(crate) active_run: Option<String>,
    pub(crate) runs: u32,
    pub(crate) messages: u32,
    pub(crate) preview: Option<String>,
    pub(crate) tokens: u64,
    pub(crate) title: Option<String>,
    pub(crate) pinned: bool,
    pub(crate) archived: bool,
    pub(crate) built_rows: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EntryView {
    pub(crate) number: u32,
    pub(crate) parent: Option<u32>,
    pub(crate) on_path: bool,
    pub(crate) kind: String,
    pub(crate) role: Option<String>,
    pub(crate) run: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) visibility: &'static str,
    pub(crate) refs: Vec<u32>,
    pub(crate) text: Option<String>,
    pub(crate) payload: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunView {
    pub(crate) id: String,
    pub(crate) number: u32,
    pub(crate) state: &'static str,
    pub(crate) intent: Option<String>,
    pub(crate) attempt: u32,
    pub(crate) retry_of: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) finished_at: Option<i64>,
    pub(crate) error: bool,
    pub(crate) progress: Option<String>,
    pub(crate) tokens: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StreamView {
    pub(crate) name: String,
    pub(crate) head: u64,
    pub(crate) floor: u64,
    pub(crate) closed: bool,
    pub(crate) events: Vec<(u64, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordView {
    pub(crate) key: String,
    pub(crate) owner: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) ordinal: u64,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) payload: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeaseView {
    pub(crate) held: bool,
    pub(crate) handle: Option<Handle>,
    pub(crate) epoch: u64,
    pub(crate) acquired_at: i64,
    pub(crate) expires_at: i64,
    /// Of a lease that is held: whether it has expired, and whether its owner is known to be alive or dead.
    pub(crate) expired: Option<bool>,
    pub(crate) liveness: Option<&'static str>,
}

/// A difference: what was looked at, and what was expected and seen there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) what: &'static str,
    pub(crate) text: String,
}

fn differ(what: &'static str, place: &str, expected: &impl Debug, seen: &impl Debug) -> Difference {
    let (expected, seen) = (crate::kit::brief(expected), crate::kit::brief(seen));
    Difference { what, text: format!("{what} of {place}: expected {expected}, saw {seen}") }
}

/// The first place of two lists that differs.
fn lists<T: PartialEq + Debug>(
    what: &'static str,
    place: &str,
    expected: &[T],
    seen: &[T],
) -> Option<Difference> {
    let at = expected.iter().zip(seen).position(|(expected, seen)| expected != seen);
    match at {
        Some(at) => Some(differ(what, &format!("{place}, place {at}"), &expected[at], &seen[at])),
        None if expected.len() == seen.len() => None,
        None => {
            let at = expected.len().min(seen.len());
            Some(differ(what, &format!("{place}, place {at}"), &expected.get(at), &seen.get(at)))
        }
    }
}

impl View {
    /// The first difference, most telling parts first.
    pub(crate) fn difference(&self, seen: &Self) -> Option<Difference> {
        let (ours, theirs): (Vec<_>, Vec<_>) =
            (self.sessions.keys().collect(), seen.sessions.keys().collect());
        if ours != theirs {
            return Some(differ("the sessions", "the workspace", &ours, &theirs));
        }
        for (id, expected) in &self.sessions {
            if let Some(difference) = seen.sessions.get(id).and_then(|seen| expected.difference(id, seen)) {
                return Some(difference);
            }
        }
        for (collection, expected) in &self.records {
            let none = Vec::new();
            let seen = seen.records.get(collection).unwrap_or(&none);
            if let Some(difference) = lists("a record", collection, expected, seen) {
                return Some(difference);
            }
        }
        if self.named != seen.named {
            return Some(differ("a lease", "the workspace", &self.named, &seen.named));
        }
        lists("the order of recent sessions", "the workspace", &self.recent, &seen.recent)
    }
}

impl SessionView {
    fn difference(&self, id: &str, seen: &Self) -> Option<Difference> {
        let entries = || lists("an entry", id, &self.entries, &seen.entries);
        let path = || lists("the path", id, &self.path, &seen.path);
        let newest = || lists("the newest entries", id, &self.newest, &seen.newest);
        let runs = || lists("a run", id, &self.runs, &seen.runs);
        let streams = || lists("a stream", id, &self.streams, &seen.streams);
        let row = || (self.row != seen.row).then(|| differ("the row", id, &self.row, &seen.row));
        let lease = || (self.lease != seen.lease).then(|| differ("the lease", id, &self.lease, &seen.lease));
        entries().or_else(path).or_else(newest).or_else(runs).or_else(streams).or_else(row).or_else(lease)
    }
}
