//! `turnkeep import`

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use serde::Serialize;
use turnkeep::transfer::{ImportOptions, ImportReport, Progress, Wholeness};
use turnkeep::{ErrorKind, SessionId};

use super::progress;
use super::stop::Stop;
use crate::args::{Global, Import};
use crate::failure::{Failure, Outcome};
use crate::output::words::{count, count_of, thousands};
use crate::output::{Out, text};
use crate::{exit, open};

/// Messages with unanswered calls that are named for a person.
const NAMED: usize = 10;

#[derive(Serialize)]
struct Answer<'a> {
    import: &'a ImportReport,
}

pub(crate) async fn run(global: &Global, import: Import, out: &mut Out) -> Outcome<u8> {
    let id = import.id.as_deref().map(SessionId::new).transpose()?;
    if import.file.is_dir() {
        if id.is_some() {
            return Err(Failure::usage(
                "--id names one session, and a folder may hold several; give one file",
            ));
        }
        return folder(global, &import.file, out).await;
    }
    let name = import.file.display().to_string();
    // Before the workspace: a file that is not there must not leave anything behind.
    let mut file = seekable(&import.file)?;
    let workspace = open::workspace(global).await?;
    let bar = progress::bar("importing");
    let stop = Stop::on_interrupt()?;
    let mut told = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        stop.wanted()
    };
    let options = ImportOptions { id, ..ImportOptions::default() };
    let report = workspace.import(&mut file, options, &mut told).await;
    bar.finish_and_clear();
    let report = report.map_err(|error| refused(error, &name))?;
    if out.json {
        out.json(&Answer { import: &report })?;
    } else {
        summary(&name, &report, out)?;
    }
    Ok(if report.dropped.is_empty() && report.wholeness != Wholeness::Damaged {
        exit::OK
    } else {
        exit::INCOMPLETE
    })
}

/// What became of a file of a folder.
#[derive(Serialize)]
struct OfFolder {
    file: String,
    import: Option<ImportReport>,
    refused: Option<String>,
}

/// Every session file below a folder. Each is a whole import of its own: what an earlier one took in is not taken in
/// again, whatever else the store holds, and one that is refused does not keep the others out.
async fn folder(global: &Global, folder: &Path, out: &mut Out) -> Outcome<u8> {
    let mut files = Vec::new();
    session_files(folder, FOLDERS_DEEP, &mut files)?;
    files.sort();
    if files.is_empty() {
        let message = format!("the folder {} holds no file that ends in .jsonl", folder.display());
        return Err(Failure::told(exit::BAD_FILE, message));
    }
    let workspace = open::workspace(global).await?;
    let stop = Stop::on_interrupt()?;
    let mut told = |_: Progress| stop.wanted();
    let (mut answers, mut whole) = (Vec::new(), true);
    for path in files {
        let name = path.display().to_string();
        let imported = match seekable(&path) {
            Ok(mut file) => workspace.import(&mut file, ImportOptions::default(), &mut told).await,
            Err(failure) => return Err(failure),
        };
        let answer = match imported {
            Ok(report) => {
                whole &= report.dropped.is_empty() && report.wholeness != Wholeness::Damaged;
                OfFolder { file: name, import: Some(report), refused: None }
            }
            // Nothing more can be imported by a store that does not answer, or for a person who wants no more.
            Err(error) if !is_of_the_file(error.kind()) => return Err(error.with("file", &name).into()),
            Err(error) => {
                whole = false;
                OfFolder { file: name, import: None, refused: Some(error.to_string()) }
            }
        };
        if !out.json {
            out.line(of_folder(&answer))?;
        }
        answers.push(answer);
    }
    if out.json {
        out.json(&FolderAnswer { imports: &answers })?;
    }
    Ok(if whole { exit::OK } else { exit::INCOMPLETE })
}

#[derive(Serialize)]
struct FolderAnswer<'a> {
    imports: &'a [OfFolder],
}

fn of_folder(answer: &OfFolder) -> String {
    let file = text::line(&answer.file);
    match (&answer.import, &answer.refused) {
        (Some(report), _) if report.added == 0 && report.already_there > 0 => {
            format!("{file}: nothing to add, session {} has it", text::line(report.session.id.as_str()))
        }
        (Some(report), _) => {
            let dropped = match report.dropped.len() {
                0 => String::new(),
                n => format!(", {} dropped", count(n as u64, "line")),
            };
            let missing = if report.missing.is_empty() { "" } else { ", lines are missing" };
            let (entries, id) = (count_of(report.entries, "entry", "entries"), report.session.id.as_str());
            format!("{file}: session {}, {entries}{dropped}{missing}", text::line(id))
        }
        (None, refused) => format!("{file}: refused, {}", text::line(refused.as_deref().unwrap_or_default())),
    }
}

/// Whether an import was refused because of what is in the file.
fn is_of_the_file(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Invalid
            | ErrorKind::TooLarge
            | ErrorKind::NewerFormat
            | ErrorKind::Unsupported
            | ErrorKind::AlreadyExists
    )
}

/// Folders below folders are looked into as deep as this. Links are not followed.
const FOLDERS_DEEP: u32 = 8;

fn session_files(folder: &Path, deep: u32, found: &mut Vec<PathBuf>) -> Outcome<()> {
    let fail = |error: io::Error| {
        Failure::told(exit::BAD_FILE, format!("the folder {} cannot be read: {error}", folder.display()))
    };
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let kind = entry.file_type().map_err(fail)?;
        let path = entry.path();
        if kind.is_dir() && deep > 0 {
            session_files(&path, deep - 1, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "jsonl") {
            found.push(path);
        }
    }
    Ok(())
}

/// The file; what cannot be read twice, such as a pipe, is copied first.
fn seekable(path: &Path) -> Outcome<File> {
    let fail = |error: io::Error| {
        let code = if error.kind() == io::ErrorKind::NotFound { exit::NOT_FOUND } else { exit::BAD_FILE };
        Failure::told(code, format!("the file {} cannot be read: {error}", path.display()))
    };
    if path == Path::new("-") {
        return spooled(&mut io::stdin().lock()).map_err(fail);
    }
    let mut file = File::open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if metadata.is_file() { Ok(file) } else { spooled(&mut file).map_err(fail) }
}

fn spooled(from: &mut impl io::Read) -> io::Result<File> {
    let mut copy = tempfile::tempfile()?;
    io::copy(from, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

/// A file that is no session is another matter than an id that is none.
fn refused(error: turnkeep::Error, name: &str) -> Failure {
    let bad_file = matches!(
        error.kind(),
        ErrorKind::Invalid | ErrorKind::TooLarge | ErrorKind::NewerFormat | ErrorKind::Unsupported
    );
    let failure = Failure::from(error.with("file", name));
    if bad_file { failure.exit(exit::BAD_FILE).hint("nothing was imported") } else { failure }
}

fn summary(name: &str, report: &ImportReport, out: &mut Out) -> Outcome<()> {
    let file = text::line(name);
    let session = text::line(report.session.id.as_str());
    if report.added == 0 && report.already_there > 0 {
        out.line(format!("nothing to add: session {session} already holds what {file} has"))?;
    } else {
        let kind = report.format;
        out.line(format!("imported {file} ({kind}) as session {session}"))?;
    }
    let mut pairs = vec![("kept", kept(report))];
    if report.added > 0 && report.already_there > 0 {
        pairs.push(("new", format!("{} of them; {} were there already", report.added, report.already_there)));
    }
    pairs.push(("tools", tools(report)));
    pairs.push((
        "empty",
        match report.empty_assistant_messages {
            0 => String::new(),
            n => format!("{} without any content", count(n, "assistant message")),
        },
    ));
    pairs.push((
        "whole",
        match report.wholeness {
            Wholeness::Proven => "yes: the footer agrees with the lines".to_owned(),
            Wholeness::Unproven => {
                "unknown: files of this format have no footer that could prove it".to_owned()
            }
            Wholeness::Damaged => "no: lines of it are missing or damaged".to_owned(),
        },
    ));
    let lines = u64::try_from(report.dropped.len()).unwrap_or(u64::MAX);
    pairs.push((
        "dropped",
        match lines {
            0 => "nothing".to_owned(),
            n => out.paint.warn(&format!("{}:", count(n, "line"))),
        },
    ));
    out.pairs(&pairs)?;
    for dropped in &report.dropped {
        out.line(format!("  line {}: {}", dropped.line, dropped.reason))?;
    }
    if !report.missing.is_empty() {
        out.line("missing from the file:")?;
        for missing in &report.missing {
            out.line(format!("  before line {}: {}", missing.before_line, text::line(&missing.what)))?;
        }
    }
    if report.stand_ins > 0 {
        out.line(format!(
            "{} took the place of what was dropped or is missing, so that all others keep their numbers",
            count(report.stand_ins, "stand-in")
        ))?;
    }
    Ok(())
}

fn kept(report: &ImportReport) -> String {
    let mut text =
        format!("{}, {}", count(report.headers, "header"), count_of(report.entries, "entry", "entries"));
    let kinds: Vec<String> = report
        .kept
        .iter()
        .map(|(kind, n)| {
            let kind = text::line(&kind.replace('_', " "));
            if kind == "message" && !report.messages.is_empty() {
                let roles: Vec<String> = report
                    .messages
                    .iter()
                    .map(|(role, n)| format!("{} {}", thousands(*n), text::line(role)))
                    .collect();
                format!("{} ({})", count(*n, "message"), roles.join(", "))
            } else {
                count(*n, &kind)
            }
        })
        .collect();
    if !kinds.is_empty() {
        text.push_str(&format!(": {}", kinds.join(", ")));
    }
    if report.other_rows > 0 {
        text.push_str(&format!("; {} beside them", count(report.other_rows, "row")));
    }
    text
}

fn tools(report: &ImportReport) -> String {
    if report.tool_calls == 0 && report.tool_results == 0 {
        return String::new();
    }
    let mut text = format!("{}, {}", count(report.tool_calls, "call"), count(report.tool_results, "result"));
    if report.unanswered_calls > 0 {
        let mut lines: Vec<String> = report
            .unanswered_in
            .iter()
            .take(NAMED)
            .map(|message| match (message.calls, message.cut_off) {
                (1, false) => message.line.to_string(),
                (n, false) => format!("{} ({n})", message.line),
                (n, true) => format!("{} ({n}, cut off)", message.line),
            })
            .collect();
        if report.unanswered_in.len() > NAMED {
            lines.push("…".to_owned());
        }
        let word = if lines.len() == 1 { "line" } else { "lines" };
        text.push_str(&format!(
            "; {} without a result, in {word} {}",
            count(report.unanswered_calls, "call"),
            lines.join(", ")
        ));
    }
    text
}
