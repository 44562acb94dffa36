//! Appending entries and moving the leaf.

use crate::commit::{NewEntry, OnKey, Outcome, Parent, RefTarget};
use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryNo, SessionRef};
use crate::limits::PREVIEW_CHARS;
use crate::model::{Entry, PathState, Reference, SessionRow, Visibility, entry_kind, role};
use crate::mutant;
use crate::rules::{Place, Segment, SessionChange, Write};

use super::state::State;

pub(super) fn append(state: &mut State<'_>, session: &SessionRef, new: &[NewEntry]) -> Result<Outcome> {
    state.work_on(session)?;
    let mut batch = Batch::new(new.len());
    for (at, entry) in new.iter().enumerate() {
        append_one(state, session, entry, &mut batch).map_err(|error| error.with("place", at))?;
    }
    let outcome = Outcome::Entries(ranges(&batch.numbers));
    batch.write(state, session);
    Ok(outcome)
}

/// The entries and segments of one op, and the number that each place of the op came to.
pub(super) struct Batch {
    numbers: Vec<EntryNo>,
    entries: Vec<Entry>,
    segments: Vec<Segment>,
}

impl Batch {
    pub(super) fn new(len: usize) -> Self {
        Self { numbers: Vec::with_capacity(len), entries: Vec::with_capacity(len), segments: Vec::new() }
    }

    /// A place of the same op; validation has checked that it comes earlier.
    fn number_at(&self, place: usize) -> Result<EntryNo> {
        self.numbers.get(place).copied().ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "a place in the same append must come earlier")
                .with("place", place)
        })
    }

    pub(super) fn write(self, state: &mut State<'_>, session: &SessionRef) {
        if !self.segments.is_empty() {
            state.write(Write::Segments { session: session.clone(), segments: self.segments });
        }
        if !self.entries.is_empty() {
            state.write(Write::Entries { session: session.clone(), entries: self.entries });
        }
    }
}

fn append_one(state: &mut State<'_>, session: &SessionRef, new: &NewEntry, batch: &mut Batch) -> Result<()> {
    if let Some(key) = &new.key
        && let Some(taken) = state.entry_with_key(session, key)
        && !mutant::is("keys/used-twice")
    {
        return match new.on_key {
            OnKey::Skip => {
                batch.numbers.push(taken);
                Ok(())
            }
            OnKey::Refuse => Err(Error::new(ErrorKind::AlreadyExists, "an entry has this key already")
                .with("session", &session.id)
                .with("key", key)
                .with("entry", taken)),
        };
    }
    let row = state.any(session)?;
    let number = next_number(row)?;
    let head = row.head;
    let parent = match new.parent {
        Parent::Leaf => mutant::either("entries/parent-is-the-head", row.head, row.path.leaf),
        Parent::Root => None,
        Parent::Number(number) => Some(number),
        Parent::InCommit(place) => Some(batch.number_at(place)?),
    };
    let mut refs = Vec::with_capacity(new.refs.len());
    for (relation, target) in &new.refs {
        let entry = match target {
            RefTarget::Number(number) => *number,
            RefTarget::InCommit(place) => batch.number_at(*place)?,
        };
        // Numbers are contiguous, so every number up to the head exists.
        if head.is_none_or(|head| entry > head) && !mutant::is("references/to-nothing") {
            return Err(unknown_entry(session, entry, "a reference points to an entry that is not there"));
        }
        refs.push(Reference { relation: relation.clone(), entry });
    }
    let entry = Entry {
        number,
        parent,
        on_path: new.advance_leaf,
        kind: new.kind.clone(),
        role: new.role.clone(),
        run: new.run.clone(),
        turn: new.turn.clone(),
        key: new.key.clone(),
        visibility: new.visibility,
        at: new.at,
        refs,
        text: new.text.clone(),
        payload: new.payload.clone(),
    };
    batch.numbers.push(number);
    add(state, session, entry, batch)?;
    if new.advance_leaf && !(mutant::is("leaf/append-leaves-it") && head.is_some()) {
        let path = &mut state.touch(session, SessionChange::Counters)?.path;
        (path.leaf, path.leaf_segment) = (path.tip, path.tip_segment);
    }
    Ok(())
}

/// Adds an entry with its number: places it in a segment, counts it, remembers its key. Leaves the leaf alone.
pub(super) fn add(
    state: &mut State<'_>,
    session: &SessionRef,
    entry: Entry,
    batch: &mut Batch,
) -> Result<()> {
    let path = state.any(session)?.path;
    let parent_segment = match entry.parent {
        None => None,
        Some(parent) => Some(segment_of_parent(state, session, path, parent)?),
    };
    let number = entry.number;
    let row = state.touch(session, SessionChange::Counters)?;
    row.head = mutant::either("entries/number-given-twice", row.head.or(Some(number)), Some(number));
    if counts_as_message(&entry) {
        row.messages = row.messages.saturating_add(mutant::either("sessions/messages-not-counted", 0, 1));
        if (row.preview.is_none() || mutant::is("sessions/preview-of-the-last")) && is_user(&entry) {
            row.preview = entry.text.as_deref().map(preview);
        }
    }
    let mut segment = path.tip_segment;
    if entry.on_path {
        if (entry.parent.is_none() || entry.parent != path.tip) && !mutant::is("branches/none-begins") {
            segment = Some(number);
            batch.segments.push(Segment { first: number, parent: entry.parent, parent_segment });
        }
        row.path.tip = Some(number);
        row.path.tip_segment = segment;
    }
    let place = Place { on_path: entry.on_path, segment };
    state.facts.places.insert((session.clone(), number), place);
    if let Some(key) = &entry.key {
        state.facts.keys.insert((session.clone(), key.clone()), number);
    }
    batch.entries.push(entry);
    Ok(())
}

/// The segment that holds a parent. That of the leaf is known from the session row, so the usual append looks nothing
/// up.
fn segment_of_parent(
    state: &State<'_>,
    session: &SessionRef,
    path: PathState,
    parent: EntryNo,
) -> Result<EntryNo> {
    match path.leaf_segment {
        Some(segment) if path.leaf == Some(parent) => Ok(segment),
        _ => path_place(state, session, parent),
    }
}

/// The segment of an entry that must lie on a path.
fn path_place(state: &State<'_>, session: &SessionRef, number: EntryNo) -> Result<EntryNo> {
    match state.place_of(session, number) {
        None if mutant::is("parents/unknown-taken") => Ok(EntryNo::FIRST),
        None => Err(unknown_entry(session, number, "there is no such entry")),
        Some(Place { on_path: true, segment: Some(segment) }) => Ok(segment),
        Some(_) if mutant::is("parents/beside-the-path") => Ok(EntryNo::FIRST),
        Some(_) => Err(Error::new(
            ErrorKind::Invalid,
            "the entry lies beside the conversation, so no path leads through it",
        )
        .with("session", &session.id)
        .with("entry", number)),
    }
}

pub(super) fn move_leaf(state: &mut State<'_>, session: &SessionRef, to: Option<EntryNo>) -> Result<Outcome> {
    state.work_on(session)?;
    set_leaf(state, session, to)?;
    Ok(Outcome::Done)
}

/// Puts the leaf on an entry of a path, or before the first.
pub(super) fn set_leaf(state: &mut State<'_>, session: &SessionRef, to: Option<EntryNo>) -> Result<()> {
    let path = state.any(session)?.path;
    let segment = to.map(|to| segment_of_parent(state, session, path, to)).transpose()?;
    let path = &mut state.touch(session, SessionChange::Counters)?.path;
    path.leaf = mutant::either("leaf/move-does-nothing", path.leaf, to);
    path.leaf_segment = segment;
    Ok(())
}

pub(super) fn next_number(row: &SessionRow) -> Result<EntryNo> {
    row.next_entry().ok_or_else(|| {
        Error::new(ErrorKind::TooLarge, "the session holds as many entries as it can; fork it to go on")
            .with("session", &row.id)
    })
}

pub(super) fn unknown_entry(session: &SessionRef, number: EntryNo, message: &str) -> Error {
    Error::new(ErrorKind::NotFound, message).with("session", &session.id).with("entry", number)
}

/// What the message counter of a session counts. Backends use it for spans.
#[must_use]
pub fn counts_as_message(entry: &Entry) -> bool {
    entry.kind.as_str() == entry_kind::MESSAGE
        && (entry.visibility == Visibility::Conversation || mutant::is("partials/counted"))
}

fn is_user(entry: &Entry) -> bool {
    entry.role.as_ref().is_some_and(|of| of.as_str() == role::USER)
}

/// The beginning of a text on one line.
#[must_use]
pub(super) fn preview(text: &str) -> String {
    // A text may be long; with a space between them, so many words are more than fit.
    let words = text.split_whitespace().take(PREVIEW_CHARS);
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(PREVIEW_CHARS) {
        Some((cut, _)) => format!("{}…", line.get(..cut).unwrap_or_default()),
        None => line,
    }
}

/// Runs of consecutive numbers, in the order given.
fn ranges(numbers: &[EntryNo]) -> Vec<(EntryNo, EntryNo)> {
    let mut ranges: Vec<(EntryNo, EntryNo)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.next() == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}
