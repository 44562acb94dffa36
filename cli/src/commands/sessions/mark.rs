//! `turnkeep sessions pin`, `unpin`, `archive` and `unarchive`

use turnkeep::core::commit::SessionPatch;

use crate::args::{Global, Pick};
use crate::failure::Outcome;
use crate::output::session::{OneSession, name};
use crate::output::{Out, text};
use crate::{exit, open, pick};

/// What to make of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    Pin,
    Unpin,
    Archive,
    Unarchive,
}

impl Mark {
    fn patch(self) -> SessionPatch {
        let mut patch = SessionPatch::default();
        match self {
            Self::Pin => patch.pinned = Some(true),
            Self::Unpin => patch.pinned = Some(false),
            Self::Archive => patch.archived = Some(true),
            Self::Unarchive => patch.archived = Some(false),
        }
        patch
    }

    fn done(self) -> &'static str {
        match self {
            Self::Pin => "pinned",
            Self::Unpin => "no longer pinned",
            Self::Archive => "archived; `turnkeep sessions list --archived` shows it",
            Self::Unarchive => "back in the list",
        }
    }
}

pub(crate) async fn run(global: &Global, mark: Mark, pick: &Pick, out: &mut Out) -> Outcome<u8> {
    let workspace = open::workspace(global).await?;
    let session = pick::session(&workspace, pick).await?;
    session.patch(mark.patch()).await?;
    let row = session.info().await?;
    if out.json {
        out.json(&OneSession::from(&row))?;
    } else {
        out.line(format!("{} ({}) is {}", text::line(row.id.as_str()), name(&row), mark.done()))?;
    }
    Ok(exit::OK)
}
