//! Did anything move?

use turnkeep_core::Result;
use turnkeep_core::query::{Mark, Scope};

use crate::codec::{Fields, Key};
use crate::read::{find, workspace};
use crate::source::{Source, Span, Toward, first};
use crate::tables;

pub(crate) fn changes(source: &dyn Source, scope: &Scope) -> Result<Mark> {
    match scope {
        Scope::Session { workspace, session } => {
            let (_, head) = find(source, workspace, session)?;
            Ok(Mark::new(head.revision))
        }
        Scope::Workspace(id) => match workspace(source, id)? {
            // Sessions move the activity, all else the mark, and both come from one growing number.
            Some(row) => Ok(Mark::new(row.mark.max(newest_activity(source, row.wkey)?))),
            None => Ok(Mark::START),
        },
    }
}

/// The highest activity number of any session that is there.
pub(crate) fn newest_activity(source: &dyn Source, wkey: u64) -> Result<u64> {
    let span = Span::within(Key::new().u64(wkey));
    let Some((key, _)) = first(source, tables::SESSIONS_BY_ACTIVITY, &span, Toward::Higher)? else {
        return Ok(0);
    };
    let mut fields = Fields::of_key(tables::SESSIONS_BY_ACTIVITY, &key);
    fields.u64()?;
    fields.u64().map(|inverted| !inverted)
}
