//! Appending to streams and dropping their beginnings.

use crate::commit::{NewEvent, Outcome};
use crate::digest::FieldDigest;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{SessionRef, StreamName};
use crate::model::{Event, StreamRow};
use crate::mutant;
use crate::rules::{SessionChange, Write, is_exclusive_stream};

use super::state::State;

pub(super) fn append(
    state: &mut State<'_>,
    session: &SessionRef,
    stream: &StreamName,
    expect_next: Option<u64>,
    new: &[NewEvent],
) -> Result<Outcome> {
    admit(state, session, stream)?;
    let mut row = stream_row(state, session, stream);
    let (first, len) =
        (row.head.saturating_add(mutant::either("events/number-left-out", 2, 1)), new.len() as u64);
    let digest = expect_next.map(|_| batch_digest(new));
    if let (Some(expected), Some(digest)) = (expect_next, digest)
        && expected != first
        && !mutant::is("events/any-next")
    {
        let last = expected.saturating_add(len).saturating_sub(1);
        if row.batch_first == expected
            && (row.batch_digest == digest || mutant::is("events/other-content-repeats"))
            && last == row.head
        {
            return Ok(Outcome::Events { first: expected, last });
        }
        return Err(Error::new(ErrorKind::VersionConflict, "the stream goes on at another number")
            .with("session", &session.id)
            .with("stream", stream)
            .with("expected", expected)
            .with("observed", first));
    }
    if row.closed && !mutant::is("streams/open-again") {
        return Err(Error::new(ErrorKind::TurnNotOpen, "the stream is closed; it takes no more events")
            .with("session", &session.id)
            .with("stream", stream));
    }
    let last = row.head.checked_add(len).filter(|last| i64::try_from(*last).is_ok()).ok_or_else(|| {
        Error::new(ErrorKind::TooLarge, "the stream holds as many events as it can").with("stream", stream)
    })?;
    let events = new.iter().zip(first..).map(|(event, number)| Event {
        number,
        kind: event.kind.clone(),
        run: event.run.clone(),
        at: event.at,
        payload: event.payload.clone(),
    });
    let events = events.collect();
    row.head = last;
    (row.batch_first, row.batch_digest) = digest.map_or((0, [0; 32]), |digest| (first, digest));
    state.touch(session, SessionChange::Counters)?;
    state.put_stream(session, row);
    state.write_events(session, stream, events);
    Ok(Outcome::Events { first, last })
}

/// A closed stream stays closed, also when nobody ever wrote to it: a late first piece is refused like any other.
pub(super) fn drop(
    state: &mut State<'_>,
    session: &SessionRef,
    stream: &StreamName,
    through: Option<u64>,
    close: bool,
) -> Result<Outcome> {
    admit(state, session, stream)?;
    let mut row = stream_row(state, session, stream);
    let through = through.map_or(row.head, |through| through.min(row.head));
    let drops = through > row.floor;
    let closes = close && !row.closed;
    if !drops && !closes {
        return Ok(Outcome::Done);
    }
    if drops {
        row.floor = through;
        row.head = mutant::either("events/numbers-begin-again", 0, row.head);
        if !mutant::is("events/drop-keeps-them") {
            state.write(Write::DropEvents { session: session.clone(), stream: stream.clone(), through });
        }
    }
    row.closed |= close && !mutant::is("streams/never-closed");
    state.touch(session, SessionChange::Counters)?;
    state.put_stream(session, row);
    Ok(Outcome::Done)
}

fn admit(state: &mut State<'_>, session: &SessionRef, stream: &StreamName) -> Result<()> {
    if is_exclusive_stream(stream.as_str()) && !mutant::is("exclusive/streams-are-shared") {
        state.exclusive(session)
    } else {
        state.active(session).map(|_| ())
    }
}

fn stream_row(state: &State<'_>, session: &SessionRef, stream: &StreamName) -> StreamRow {
    let known = state.facts.streams.get(&(session.clone(), stream.clone())).cloned();
    known.unwrap_or_else(|| StreamRow {
        name: stream.clone(),
        head: 0,
        floor: 0,
        closed: false,
        batch_first: 0,
        batch_digest: [0; 32],
    })
}

/// What a batch says, without its times: a retry may stamp it anew.
fn batch_digest(events: &[NewEvent]) -> [u8; 32] {
    let mut digest = FieldDigest::new("event-batch/1").number(events.len() as u64);
    for event in events {
        digest = digest.text(event.kind.as_str());
        digest = digest.maybe(event.run.as_ref().map(|run| run.as_str())).text(event.payload.as_str());
    }
    digest.finish()
}
