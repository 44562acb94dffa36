//! `turnkeep export`

use std::error::Error as _;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use tempfile::NamedTempFile;
use turnkeep::Session;
use turnkeep::transfer::{self, ExportReport, Progress};

use super::stop::Stop;
use crate::args::{Export, Global};
use crate::failure::{Failure, Outcome};
use crate::output::guard::JsonGuard;
use crate::output::words::count;
use crate::output::{Out, text};
use crate::{exit, open, pick};

#[derive(Serialize)]
struct Answer<'a> {
    file: String,
    export: &'a ExportReport,
}

pub(crate) async fn run(global: &Global, export: Export, out: &mut Out) -> Outcome<u8> {
    let to_file = export.output.as_deref().filter(|path| *path != Path::new("-"));
    if let Some(path) = to_file
        && !export.force
        && path.symlink_metadata().is_ok()
    {
        return Err(taken(path));
    }
    let workspace = open::workspace(global).await?;
    let session = pick::session(&workspace, &export.pick).await?;
    match to_file {
        Some(path) => file(&session, path, export.force, out).await?,
        None if out.terminal => {
            let mut guard = JsonGuard::new(io::BufWriter::new(io::stdout()));
            to_stdout(&session, &mut guard).await?;
            guard.finish()?;
        }
        None => to_stdout(&session, &mut io::BufWriter::new(io::stdout())).await?,
    }
    Ok(exit::OK)
}

async fn written(
    session: &Session,
    to: &mut (impl Write + Send),
    stop: &Stop,
) -> turnkeep::Result<ExportReport> {
    let workspace = session.workspace();
    let store = workspace.store().as_ref();
    let mut told = |_: Progress| stop.wanted();
    transfer::export(store, workspace.id(), session.session_ref(), to, &mut told).await
}

/// A reader that goes away is no failure, but what it got is no whole export: it has no footer.
async fn to_stdout(session: &Session, to: &mut (impl Write + Send)) -> Outcome<()> {
    let stop = Stop::on_interrupt()?;
    match written(session, to, &stop).await {
        Ok(_) => Ok(to.flush()?),
        Err(error) if is_closed_pipe(&error) => Err(Failure::ClosedPipe),
        Err(error) => Err(error.into()),
    }
}

fn is_closed_pipe(error: &turnkeep::Error) -> bool {
    let mut cause = error.source();
    while let Some(beneath) = cause {
        if beneath.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        {
            return true;
        }
        cause = beneath.source();
    }
    false
}

/// Writes beside the file first, so that it is there whole or not at all. Only its owner can read it.
async fn file(session: &Session, path: &Path, force: bool, out: &mut Out) -> Outcome<()> {
    let fail = |error: io::Error| unwritable(path, &error);
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let stop = Stop::on_interrupt()?;
    // Private from its first byte on: a temporary file has mode 0600.
    let mut temporary =
        tempfile::Builder::new().prefix(".turnkeep-export-").tempfile_in(folder).map_err(fail)?;
    let report = {
        let mut writer = io::BufWriter::new(temporary.as_file_mut());
        let report = written(session, &mut writer, &stop).await?;
        writer.flush().map_err(fail)?;
        report
    };
    temporary.as_file().sync_all().map_err(fail)?;
    keep(temporary, path, force)?;
    let shown = text::line(&path.display().to_string());
    if out.json {
        out.json(&Answer { file: path.display().to_string(), export: &report })
    } else {
        let id = text::line(session.id().as_str());
        let rows = count(report.rows, "row");
        out.line(format!("exported session {id} to {shown}: {rows}, {}", count(report.bytes, "byte")))
    }
}

fn keep(temporary: NamedTempFile, path: &Path, force: bool) -> Outcome<()> {
    let kept = if force { temporary.persist(path) } else { temporary.persist_noclobber(path) };
    match kept {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(taken(path)),
        Err(error) => Err(unwritable(path, &error.error)),
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::io(&format!("the file {} cannot be written", path.display()), error)
}

fn taken(path: &Path) -> Failure {
    Failure::told(exit::CONFLICT, format!("the file {} is there already", path.display()))
        .hint("give another name, or replace it with --force")
}
