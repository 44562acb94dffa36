//! A slice of a fork. Each row is held in memory alone, so that a slice of large entries needs no large memory.

use std::collections::BTreeSet;

use turnkeep_core::model::RunState;
use turnkeep_core::mutant;
use turnkeep_core::{Result, RunId, SessionRef};

use crate::codec::{Key, Value};
use crate::error::damaged;
use crate::read::{read_segment, segment_key};
use crate::rows::{entry_key, read_entry, read_number, read_run, run_key, write_entry};
use crate::source::{Source as _, Span, Toward};
use crate::tables;
use crate::write::apply::Target;
use crate::write::rows::{open, put};

/// Copies the entries `after+1 ..= through` with their numbers, the segments that begin among them, and the runs they
/// name that the child does not have yet. A run that is active arrives interrupted.
pub(super) fn slice(
    target: &mut Target<'_>,
    from: u64,
    child: u64,
    child_ref: &SessionRef,
    after: u32,
    through: u32,
) -> Result<()> {
    let mut named: BTreeSet<RunId> = BTreeSet::new();
    for number in after.saturating_add(1)..=through {
        let key = entry_key(from, number);
        let body = target.to.get(tables::ENTRIES, &key)?.ok_or_else(|| damaged(tables::ENTRIES, "number"))?;
        let entry = read_entry(key.as_bytes(), &body)?;
        put(target.to, tables::ENTRIES, &entry_key(child, number), write_entry(&entry))?;
        target.entry_indexes(child, &entry)?;
        named.extend(entry.run);
    }
    let after = mutant::either("redb/branches-not-copied", through, after);
    let span = Span::all().after(segment_key(from, after)).through(segment_key(from, through));
    let mut segments = Vec::new();
    target.to.scan(tables::SEGMENTS, &span, Toward::Higher, &mut |key, body| {
        segments.push(read_segment(key, body)?);
        Ok(true)
    })?;
    {
        let mut table = open(target.to, tables::SEGMENTS)?;
        for segment in segments {
            let number = |number: Option<turnkeep_core::EntryNo>| number.map_or(0, |number| number.get());
            let value = Value::new().u32(number(segment.parent)).u32(number(segment.parent_segment));
            table.put(&segment_key(child, segment.first), value)?;
        }
    }
    for id in named {
        let place = |skey: u64| Key::new().u64(skey).tail(id.as_str());
        if target.to.get(tables::RUN_IDS, &place(child))?.is_some() {
            continue;
        }
        let Some(number) = target.to.get(tables::RUN_IDS, &place(from))? else { continue };
        let number = u32::try_from(read_number(tables::RUN_IDS, &number)?)
            .map_err(|_| damaged(tables::RUN_IDS, "number"))?;
        let body = target.to.get(tables::RUNS, &run_key(from, number))?;
        let mut run = read_run(&body.ok_or_else(|| damaged(tables::RUN_IDS, "run"))?)?;
        run.session = child_ref.clone();
        if !run.state.is_terminal() && !mutant::is("redb/run-copied-active") {
            run.state = RunState::Interrupted;
            run.finished_at = Some(run.updated_at);
        }
        target.run(child, &run, true)?;
    }
    Ok(())
}
