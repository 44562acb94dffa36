//! `turnkeep sessions delete`

use std::io::{self, BufRead, IsTerminal, Write};

use serde::Serialize;
use turnkeep::model::SessionRow;

use crate::args::{Delete, Global};
use crate::failure::{Failure, Outcome};
use crate::output::session::{SessionData, name};
use crate::output::words::count;
use crate::output::{Out, text};
use crate::{exit, open, pick};

#[derive(Serialize)]
struct Answer<'a> {
    deleted: SessionData<'a>,
}

pub(crate) async fn run(global: &Global, delete: Delete, out: &mut Out) -> Outcome<u8> {
    let workspace = open::workspace(global).await?;
    let session = pick::session(&workspace, &delete.pick).await?;
    let row = session.info().await?;
    if !delete.yes && io::stdin().is_terminal() && io::stderr().is_terminal() && !agreed(&row)? {
        out.line("nothing was deleted")?;
        return Ok(exit::FAILED);
    }
    let mut gone = workspace.sessions().delete(row.id.clone());
    if delete.force {
        gone = gone.force();
    }
    gone.await?;
    if out.json {
        out.json(&Answer { deleted: SessionData::from(&row) })?;
    } else {
        out.line(format!("deleted {} ({}): {}", text::line(row.id.as_str()), size(&row), name(&row)))?;
    }
    Ok(exit::OK)
}

fn size(row: &SessionRow) -> String {
    count(row.messages.into(), "message")
}

/// Asks the person at the terminal.
fn agreed(row: &SessionRow) -> Outcome<bool> {
    let question = format!(
        "delete {} ({}, {}) for good? [y/N] ",
        text::line(row.id.as_str()),
        size(row),
        text::cut(&name(row), 60)
    );
    let mut answer = String::new();
    io::stderr()
        .write_all(question.as_bytes())
        .and_then(|()| io::stdin().lock().read_line(&mut answer))
        .map_err(|error| Failure::program(format!("the question cannot be asked: {error}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
