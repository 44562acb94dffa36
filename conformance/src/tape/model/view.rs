//! What a reader sees of all this.

use super::{Doc, Entry, Lease, Model, Run, Session};
use crate::tape::names;
use crate::tape::ops::Sort;
use crate::tape::view::{EntryView, LeaseView, RecordView, RowView, RunView, SessionView, StreamView, View};

impl Model {
    /// All that can be read.
    pub(crate) fn view(&self) -> View {
        let recent = self.recent(|_| true).into_iter().map(|row| row.life.0.clone());
        let mut view = View { recent: recent.collect(), ..View::default() };
        for (id, row) in &self.sessions {
            view.sessions.insert(id.clone(), self.session_view(row));
        }
        for collection in names::COLLECTIONS {
            let of = self.records.iter().filter(|((of, _), _)| of == collection);
            let mut docs: Vec<(u64, &String, &Doc)> =
                of.map(|((_, key), doc)| (doc.ordinal, key, doc)).collect();
            docs.sort_by_key(|(ordinal, key, _)| (*ordinal, (*key).clone()));
            let docs = docs.into_iter().map(|(_, key, doc)| self.record_view(key, doc)).collect();
            view.records.insert((*collection).to_owned(), docs);
        }
        for (name, lease) in &self.named {
            view.named.insert(name.clone(), self.lease_view(lease));
        }
        view
    }

    /// Sessions in use, the last change first.
    pub(super) fn recent(&self, fits: impl Fn(&Session) -> bool) -> Vec<&Session> {
        let mut rows: Vec<_> = self.sessions.values().filter(|row| !row.restoring && fits(row)).collect();
        rows.sort_by(|a, b| b.activity.cmp(&a.activity).then_with(|| a.life.id().cmp(b.life.id())));
        rows
    }

    /// A time, where times follow the clock of the suite.
    fn time(&self, time: i64) -> i64 {
        if self.world.clock { time } else { 0 }
    }

    fn session_view(&self, row: &Session) -> SessionView {
        let mut view = SessionView {
            row: self.row_view(row),
            lease: row.lease.as_ref().map(|lease| self.lease_view(lease)),
            ..SessionView::default()
        };
        if row.restoring {
            return view;
        }
        view.entries = (1..).zip(&row.entries).map(|(number, entry)| entry_view(number, entry)).collect();
        view.path = row.path(row.leaf);
        let committed = view.entries.iter().filter(|entry| entry.visibility != "partial");
        let committed: Vec<u32> = committed.map(|entry| entry.number).collect();
        view.newest = committed[committed.len().saturating_sub(3)..].to_vec();
        view.runs = row.runs.iter().map(|run| self.run_view(run)).collect();
        view.streams = row
            .streams
            .iter()
            .map(|(name, stream)| {
                let numbered = (1..).zip(&stream.values).filter(|(number, _)| *number > stream.floor);
                StreamView {
                    name: name.clone(),
                    head: stream.values.len() as u64,
                    floor: stream.floor,
                    closed: stream.closed,
                    events: numbered.map(|(number, value)| (number, names::value(*value))).collect(),
                }
            })
            .collect();
        view
    }

    fn row_view(&self, row: &Session) -> RowView {
        let first = row.entries.iter().find(|entry| entry.line.sort == Sort::User);
        let preview = first.map(|entry| entry.line.text.split_whitespace().collect::<Vec<_>>().join(" "));
        RowView {
            life: row.life.0.clone(),
            restoring: row.restoring,
            revision: row.revision,
            created_at: self.time(row.created_at),
            updated_at: self.time(row.updated_at),
            head: row.head(),
            leaf: row.leaf,
            active_run: row.active_run().map(|run| run.id.clone()),
            runs: row.run_head,
            messages: row.messages(),
            preview,
            tokens: row.tokens,
            title: row.title.clone(),
            pinned: row.pinned,
            archived: row.archived,
            built_rows: row.restoring.then_some(row.built_rows),
        }
    }

    fn run_view(&self, run: &Run) -> RunView {
        RunView {
            id: run.id.clone(),
            number: run.number,
            state: run.state.as_str(),
            intent: run.intent.clone(),
            attempt: run.attempt,
            retry_of: run.retry_of.clone(),
            created_at: self.time(run.created_at),
            updated_at: self.time(run.updated_at),
            finished_at: run.finished_at.map(|time| self.time(time)),
            error: run.error,
            progress: run.progress.map(names::value),
            tokens: run.tokens,
        }
    }

    fn record_view(&self, key: &str, doc: &Doc) -> RecordView {
        RecordView {
            key: key.to_owned(),
            owner: doc.owner.as_ref().map(|owner| owner.0.clone()),
            status: doc.status.clone(),
            ordinal: doc.ordinal,
            created_at: self.time(doc.created_at),
            updated_at: self.time(doc.updated_at),
            payload: names::value(doc.value),
        }
    }

    fn lease_view(&self, lease: &Lease) -> LeaseView {
        let liveness = match (self.world.liveness, self.dead_owner(lease)) {
            (false, _) => "unknown",
            (true, true) => "dead",
            (true, false) => "alive",
        };
        LeaseView {
            held: lease.held,
            handle: Some(lease.handle),
            epoch: lease.epoch,
            acquired_at: self.time(lease.acquired_at),
            expires_at: self.time(lease.expires_at),
            expired: lease.held.then(|| self.expired(lease)),
            liveness: lease.held.then_some(liveness),
        }
    }
}

impl Session {
    /// Messages of the conversation, on all branches.
    pub(super) fn messages(&self) -> u32 {
        let of = self.entries.iter().filter(|entry| matches!(entry.line.sort, Sort::User | Sort::Assistant));
        u32::try_from(of.count()).unwrap_or(u32::MAX)
    }
}

fn entry_view(number: u32, entry: &Entry) -> EntryView {
    let line = &entry.line;
    EntryView {
        number,
        parent: entry.parent,
        on_path: line.sort.on_path(),
        kind: line.sort.kind().to_owned(),
        role: line.sort.role().map(str::to_owned),
        run: line.run.clone(),
        key: line.key.clone(),
        visibility: names::visibility(line.sort.visibility()),
        refs: entry.refs.clone(),
        text: Some(line.text.clone()),
        payload: names::text(&line.text),
    }
}
