//! Building a session from exact rows, or from the entries of another one.

use crate::commit::Outcome;
use crate::error::{Error, ErrorKind, ForkReason, Result};
use crate::id::{EntryNo, SessionRef};
use crate::model::{Entry, Event, Record, Row, Run, RunState, SessionImage, SessionState, StreamRow, Usage};
use crate::mutant;
use crate::rules::{OwnerState, RecordFact, SessionChange, Write, copied, fold_row};

use super::state::State;
use super::{entries, records};

pub(super) fn rows(state: &mut State<'_>, session: &SessionRef, rows: &[Row]) -> Result<Outcome> {
    state.builder(session)?;
    let mut batch = entries::Batch::new(rows.len());
    for (at, row) in rows.iter().enumerate() {
        restore_one(state, session, row, &mut batch).map_err(|error| error.with("row", at))?;
    }
    let restore = state.touch(session, SessionChange::All)?.restore.get_or_insert_default();
    for row in rows {
        restore.digest = fold_row(&restore.digest, row);
        restore.rows = restore.rows.saturating_add(1);
    }
    batch.write(state, session);
    Ok(Outcome::Done)
}

fn restore_one(
    state: &mut State<'_>,
    session: &SessionRef,
    row: &Row,
    batch: &mut entries::Batch,
) -> Result<()> {
    match row {
        Row::Session(image) => restore_image(state, session, image),
        Row::Entry(entry) => restore_entry(state, session, entry, batch),
        Row::Run(run) => restore_run(state, session, run),
        Row::Stream(stream) => restore_stream(state, session, stream),
        Row::Event { stream, event } => restore_event(state, session, stream, event),
        Row::Record(record) => restore_record(state, record, Some(session)),
    }
}

fn restore_image(state: &mut State<'_>, session: &SessionRef, image: &SessionImage) -> Result<()> {
    let row = state.touch(session, SessionChange::All)?;
    row.created_at = mutant::either("restore/created-anew", row.created_at, image.created_at);
    row.updated_at = image.updated_at;
    row.activity = image.activity;
    row.usage = image.usage.plus(&Usage::default());
    row.profile = image.profile.clone();
    Ok(())
}

fn restore_entry(
    state: &mut State<'_>,
    session: &SessionRef,
    entry: &Entry,
    batch: &mut entries::Batch,
) -> Result<()> {
    state.settled(session)?;
    let row = state.any(session)?;
    if entries::next_number(row)? != entry.number && !mutant::is("restore/entries-with-gaps") {
        return Err(
            out_of_order(session, "entries arrive in order and without gaps").with("entry", entry.number)
        );
    }
    if let Some(key) = &entry.key
        && let Some(taken) = state.entry_with_key(session, key)
        && !mutant::is("restore/keys-used-twice")
    {
        return Err(Error::new(ErrorKind::AlreadyExists, "an entry has this key already")
            .with("key", key)
            .with("entry", taken));
    }
    if let Some(reference) = entry.refs.iter().find(|reference| reference.entry >= entry.number) {
        return Err(entries::unknown_entry(
            session,
            reference.entry,
            "a reference points to an entry that is not there",
        ));
    }
    entries::add(state, session, entry.clone(), batch)
}

fn restore_run(state: &mut State<'_>, session: &SessionRef, run: &Run) -> Result<()> {
    state.settled(session)?;
    if state.run(session, &run.id).is_ok() && !mutant::is("restore/runs-twice") {
        return Err(Error::new(ErrorKind::AlreadyExists, "a run with this id is there").with("run", &run.id));
    }
    let row = state.touch(session, SessionChange::Counters)?;
    if run.number <= row.runs && !mutant::is("restore/runs-out-of-order") {
        return Err(out_of_order(session, "runs arrive in order").with("run", &run.id));
    }
    row.runs = run.number;
    let mut run = run.clone();
    run.session = session.clone();
    run.usage = run.usage.plus(&Usage::default());
    // Whoever was at work on it is not at work here.
    if !run.state.is_terminal() && !mutant::is("restore/active-run-arrives-active") {
        run.state = RunState::Interrupted;
        run.finished_at = Some(run.updated_at);
    }
    state.put_run(run, true);
    Ok(())
}

/// The head follows the events as they arrive.
fn restore_stream(state: &mut State<'_>, session: &SessionRef, stream: &StreamRow) -> Result<()> {
    if state.facts.streams.contains_key(&(session.clone(), stream.name.clone()))
        && !mutant::is("restore/streams-twice")
    {
        return Err(
            Error::new(ErrorKind::AlreadyExists, "the stream is there already").with("stream", &stream.name)
        );
    }
    let mut stream = stream.clone();
    stream.head = stream.floor;
    state.put_stream(session, stream);
    Ok(())
}

fn restore_event(
    state: &mut State<'_>,
    session: &SessionRef,
    stream: &crate::id::StreamName,
    event: &Event,
) -> Result<()> {
    let Some(row) = state.facts.streams.get(&(session.clone(), stream.clone())) else {
        return Err(out_of_order(session, "a stream arrives before its events").with("stream", stream));
    };
    if row.head.checked_add(1) != Some(event.number) && !mutant::is("restore/events-with-gaps") {
        return Err(
            out_of_order(session, "events arrive in order and without gaps").with("event", event.number)
        );
    }
    let mut row = row.clone();
    row.head = event.number;
    state.put_stream(session, row);
    state.write_events(session, stream, vec![event.clone()]);
    Ok(())
}

pub(super) fn unowned_record(state: &mut State<'_>, record: &Record) -> Result<Outcome> {
    restore_record(state, record, None)?;
    state.touch_workspace();
    Ok(Outcome::Done)
}

fn restore_record(state: &mut State<'_>, record: &Record, owner: Option<&SessionRef>) -> Result<()> {
    let at = (record.collection.clone(), record.key.clone());
    if let Some(RecordFact {
        owner: OwnerState::Unowned | OwnerState::Active | OwnerState::Restoring, ..
    }) = state.facts.records.get(&at)
        && !mutant::is("restore/record-over-another")
    {
        return Err(Error::new(ErrorKind::AlreadyExists, "the record is there already; it was not touched")
            .with("collection", &record.collection)
            .with("key", &record.key));
    }
    let last = state.facts.ordinals.get(&(record.collection.clone(), owner.cloned())).copied().unwrap_or(0);
    records::set_ordinal(state, &record.collection, owner, last.max(record.ordinal));
    let mut record = record.clone();
    record.owner = owner.cloned();
    record.version = records::born(state);
    let owner = if owner.is_some() { OwnerState::Restoring } else { OwnerState::Unowned };
    state.facts.records.insert(at, RecordFact { record: record.clone(), owner });
    state.write(Write::Record { record: Box::new(record) });
    Ok(())
}

/// One slice of a fork. The first one finds out whether the source may be forked at all.
pub(super) fn copy(
    state: &mut State<'_>,
    from: &SessionRef,
    to: &SessionRef,
    after: Option<EntryNo>,
    through: EntryNo,
) -> Result<Outcome> {
    state.builder(to)?;
    let refused =
        |reason, message: &str| Error::new(ErrorKind::ForkRefused(reason), message).with("session", &from.id);
    let source = state
        .active(from)
        .map_err(|_| refused(ForkReason::SourceNotFound, "there is no such session to fork"))?;
    if let (Some(run), None) = (&source.active_run, after)
        && !mutant::is("fork/of-an-active-session")
    {
        let error =
            refused(ForkReason::SourceActive, "the session has an active run; fork it when the run is over");
        return Err(error.with("run", run));
    }
    if source.head.is_none_or(|head| through > head) && !mutant::is("fork/beyond-the-head") {
        return Err(
            refused(ForkReason::Unavailable, "the session has no such entry yet").with("entry", through)
        );
    }
    let source_runs = source.runs;
    if state.any(to)?.head != after && !mutant::is("fork/slices-in-any-order") {
        return Err(Error::new(
            ErrorKind::StaleLeaf,
            "the child has other entries than expected; go on after its head",
        )
        .with("session", &to.id)
        .with("observed", state.any(to)?.head.map_or(0, EntryNo::get)));
    }
    // Segments of two sources, or of rows restored before, would not fit together.
    let so_far = state.any(to)?.restore.unwrap_or_default().digest;
    if so_far != after.map_or([0; 32], |after| copied(from, after)) && !mutant::is("fork/of-two-sources") {
        return Err(Error::new(
            ErrorKind::Invalid,
            "a child is copied from one source, before anything else is put into it",
        )
        .with("session", &to.id));
    }
    let span = state.facts.spans.get(&(from.clone(), after, through)).cloned().unwrap_or_default();
    let row = state.touch(to, SessionChange::All)?;
    row.head = Some(through);
    row.messages = row.messages.saturating_add(mutant::either("fork/messages-not-counted", 0, span.messages));
    row.runs = row.runs.max(source_runs);
    if row.preview.is_none() {
        row.preview = span.first_user_text.as_deref().map(entries::preview);
    }
    if let Some((tip, segment)) = span.tip {
        row.path.tip = Some(tip);
        row.path.tip_segment = Some(segment);
    }
    let restore = row.restore.get_or_insert_default();
    restore.digest = copied(from, through);
    restore.rows = restore.rows.saturating_add(u64::from(through.get() - after.map_or(0, EntryNo::get)));
    state.copy(from, to, after, through)?;
    Ok(Outcome::Done)
}

pub(super) fn seal(
    state: &mut State<'_>,
    session: &SessionRef,
    leaf: Option<EntryNo>,
    rows: u64,
    digest: &[u8; 32],
) -> Result<Outcome> {
    state.builder(session)?;
    let built = state.any(session)?.restore.unwrap_or_default();
    if (built.rows != rows || built.digest != *digest) && !mutant::is("restore/seal-compares-nothing") {
        return Err(Error::new(
            ErrorKind::Corrupt,
            "what arrived is not what was sent; build the session again",
        )
        .with("session", &session.id)
        .with("expected_rows", rows)
        .with("observed_rows", built.rows));
    }
    entries::set_leaf(state, session, leaf)?;
    let row = state.touch(session, SessionChange::All)?;
    row.state = SessionState::Active;
    row.restore = None;
    // It keeps its old place in lists, so no activity tells that the workspace has one more session.
    state.touch_workspace();
    for record in state.facts.records.values_mut() {
        if record.record.owner.as_ref() == Some(session) {
            record.owner = OwnerState::Active;
        }
    }
    Ok(Outcome::Done)
}

fn out_of_order(session: &SessionRef, message: &str) -> Error {
    Error::new(ErrorKind::Invalid, message).with("session", &session.id)
}
