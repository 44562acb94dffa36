//! `turnkeep store migrate`

use serde::Serialize;

use crate::args::Global;
use crate::failure::Outcome;
use crate::output::upgrade::Upgrades;
use crate::output::{Out, text};
use crate::{exit, open};

#[derive(Serialize)]
struct Answer {
    migrated: bool,
    /// The format of the store before, and now.
    from: u32,
    to: u32,
    backup: Option<String>,
}

/// Opening is what upgrades; this only says what came of it.
pub(crate) async fn run(global: &Global, out: &mut Out) -> Outcome<u8> {
    open::named_must_exist(global)?;
    let upgrades = Upgrades::default();
    let opened = open::open_watched(global, &upgrades).await?;
    let format = opened.workspace.store().info().format;
    let answer = match upgrades.done() {
        Some(upgrade) => Answer {
            migrated: true,
            from: upgrade.from,
            to: upgrade.to,
            backup: upgrade.backup.as_ref().map(|path| path.display().to_string()),
        },
        None => Answer { migrated: false, from: format, to: format, backup: None },
    };
    if out.json {
        out.json(&answer)?;
        return Ok(exit::OK);
    }
    if !answer.migrated {
        out.line(format!(
            "nothing to do: the store has format {format}, the newest that this program knows"
        ))?;
        return Ok(exit::OK);
    }
    out.line(format!(
        "the store had format {} and has format {} now; nothing of it was lost",
        answer.from, answer.to
    ))?;
    if let Some(backup) = &answer.backup {
        out.pairs(&[("backup", text::line(backup))])?;
        out.line("It holds the store as it was. Remove it when you do not want to go back.")?;
    }
    Ok(exit::OK)
}
