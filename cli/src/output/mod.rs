//! What a person or a script gets to see.
//!
//! Nothing here uses `print!`: a reader that goes away must end the program quietly, not with a panic.

pub(crate) mod chart;
pub(crate) mod guard;
pub(crate) mod list;
pub(crate) mod session;
pub(crate) mod style;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod upgrade;
pub(crate) mod words;

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde::Serialize;
use serde_json::json;

use crate::failure::{Failure, Outcome};
use style::Paint;

/// How often is looked whether somebody still reads, while nothing is written.
#[cfg(unix)]
const LOOK: std::time::Duration = std::time::Duration::from_millis(250);

/// Standard output, and how to write to it.
#[derive(Debug)]
pub(crate) struct Out {
    stdout: BufWriter<Stdout>,
    /// Data for scripts instead of text for people.
    pub(crate) json: bool,
    /// Whether a terminal shows it.
    pub(crate) terminal: bool,
    /// Columns, where they are known.
    pub(crate) width: Option<u16>,
    /// Colours, or none.
    pub(crate) paint: Paint,
}

impl Out {
    pub(crate) fn new(json: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            stdout: BufWriter::new(io::stdout()),
            json,
            terminal,
            width: width(),
            paint: Paint::of_terminal(terminal),
        }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Outcome<()> {
        self.stdout.write_all(text.as_ref().as_bytes())?;
        Ok(self.stdout.write_all(b"\n")?)
    }

    /// Writes text and shows it at once.
    pub(crate) fn piece(&mut self, text: &str) -> Outcome<()> {
        self.stdout.write_all(text.as_bytes())?;
        self.flush()
    }

    /// Writes lines, each indented by two blanks.
    pub(crate) fn indented(&mut self, text: &str) -> Outcome<()> {
        for line in text.lines() {
            if line.is_empty() {
                self.line("")?;
            } else {
                self.line(format!("  {line}"))?;
            }
        }
        Ok(())
    }

    /// Writes a value as JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Outcome<()> {
        let json = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::program(format!("the answer has no JSON form: {error}")))?;
        self.line(text::json(&json))
    }

    /// Writes name and value pairs, the values below one another. Values that are empty are left out.
    pub(crate) fn pairs(&mut self, pairs: &[(&str, String)]) -> Outcome<()> {
        let widest = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
            let name = self.paint.dim(&format!("{name:<widest$}"));
            self.line(format!("{name}  {value}"))?;
        }
        Ok(())
    }

    /// Ends when nobody reads standard output any more, which else only the next write would tell.
    #[cfg(unix)]
    pub(crate) async fn reader_gone(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        loop {
            tokio::time::sleep(LOOK).await;
            let mut watched = [PollFd::new(self.stdout.get_ref(), PollFlags::empty())];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let answer = poll(&mut watched, Some(&at_once));
            // An error of a pipe that is written to says that its other end is closed.
            if matches!(answer, Ok(1..)) && watched[0].revents().intersects(PollFlags::ERR) {
                return;
            }
        }
    }

    /// Ends when nobody reads standard output any more; here only a write can tell.
    #[cfg(not(unix))]
    pub(crate) async fn reader_gone(&self) {
        std::future::pending().await
    }

    pub(crate) fn flush(&mut self) -> Outcome<()> {
        Ok(self.stdout.flush()?)
    }
}

/// Says something beside the data: on standard error, where no script takes it for an answer.
pub(crate) fn note(as_json: bool, text: &str) {
    if as_json {
        let _ = writeln!(io::stderr(), "{}", text::json(&json!({ "note": text }).to_string()));
        return;
    }
    let paint = Paint::of_terminal(io::stderr().is_terminal());
    // If nobody reads the notes, nobody misses them.
    let _ = writeln!(io::stderr(), "{} {text}", paint.note("note:"));
}

/// The columns of the terminal: `COLUMNS` first, so that a person can set it, else what the terminal says.
fn width() -> Option<u16> {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    set.filter(|columns| *columns >= 30).or_else(|| comfy_table::Table::new().width())
}
