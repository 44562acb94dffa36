//! The suite as a program: `certify`, `list`, `explain`, `replay`, `report`, `verify`.
//!
//! A backend author writes one line, and has all of it:
//!
//! ```ignore
//! fn main() -> std::process::ExitCode {
//!     turnkeep_conformance::program::main::<MyHarness>()
//! }
//! ```
//!
//! `turnkeep certify` is the same with the backend named by a URL: both parse a [`Line`] and [`Line::execute`] it.

mod bar;
mod certifying;
mod ending;
mod folders;
mod interrupt;
mod line;
mod reading;
mod replaying;
mod show;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

pub use ending::{Ending, Trouble};
pub use line::{Action, Asking, Line};

use crate::harness::Harness;

/// Who runs the suite, and on what.
pub struct Host<'a> {
    /// The program with its backend, as a person types it: `turnkeep certify sqlite:`.
    pub program: String,
    /// What makes this program ask one clause in a process of its own, before the id of the clause.
    pub peer: Vec<String>,
    /// The backend. Called only by what opens one.
    pub harness: &'a dyn Fn() -> Result<Arc<dyn Harness>, Trouble>,
    /// Where sites are made; among the temporary files by default.
    pub within: Option<PathBuf>,
    /// Data for scripts instead of text for people.
    pub json: bool,
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("program", &self.program).finish_non_exhaustive()
    }
}

impl Line {
    /// Does what the line says. Answers go to `out`, progress to standard error.
    ///
    /// # Errors
    /// When it cannot be done; a backend that falls short is no error, see [`Ending`].
    pub fn execute(&self, host: &Host<'_>, out: &mut dyn Write) -> Result<Ending, Trouble> {
        match &self.action {
            None => certifying::run(&self.asking, host, out),
            Some(Action::List { group }) => reading::list(group.as_deref(), host, out),
            Some(Action::Explain { id }) => reading::explain(id, host, out),
            Some(Action::Replay { tape }) => replaying::run(tape, host, out),
            Some(Action::Report { from, to }) => folders::report(from, to.as_deref(), host, out),
            Some(Action::Verify { folder }) => folders::verify(folder, host, out),
            Some(Action::Peer { id }) => certifying::peer(id, host),
        }
    }
}

/// The suite for one backend.
#[derive(Debug, Parser)]
#[command(about = "Certifies a turnkeep backend", version, max_term_width = 100, propagate_version = true)]
struct Alone {
    #[command(flatten)]
    line: Line,
    /// Print data as JSON
    #[arg(long, global = true)]
    json: bool,
}

/// The whole program for one backend. The exit code is 0 with a certificate, or if all that was asked passed; 17
/// without; see [`Ending::code`] and [`Trouble::code`].
#[must_use]
pub fn main<H: Harness + Default>() -> ExitCode {
    let alone = match Alone::try_parse() {
        Ok(alone) => alone,
        Err(wrong) => {
            // If nobody reads it, nobody misses it.
            let _ = wrong.print();
            return ExitCode::from(u8::try_from(wrong.exit_code()).unwrap_or(2));
        }
    };
    let host = Host {
        program: program_name(),
        peer: vec!["peer".to_owned()],
        harness: &|| Ok(Arc::new(H::default())),
        within: None,
        json: alone.json,
    };
    let mut out = io::stdout();
    let code = match alone.line.execute(&host, &mut out) {
        Ok(ending) => ending.code(),
        Err(trouble) if trouble.is_closed_pipe() => 0,
        Err(trouble) => {
            let _ = writeln!(io::stderr(), "error: {}", show::plain(&trouble.to_string()));
            trouble.code()
        }
    };
    ExitCode::from(code)
}

/// The name of this program, as it was called.
fn program_name() -> String {
    std::env::args().next().unwrap_or_else(|| "certify".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(words: &[&str]) -> Result<Alone, clap::Error> {
        Alone::try_parse_from([&["certify"], words].concat())
    }

    #[test]
    fn a_program_for_one_backend_takes_the_same_line() {
        Alone::command().debug_assert();
        let plain = parse(&["--tier", "smoke", "--only", "ord", "--json"]).unwrap();
        assert!(plain.json && plain.line.action.is_none());
        assert_eq!(plain.line.asking.only, ["ORD"]);
        assert!(matches!(parse(&["list"]).unwrap().line.action, Some(Action::List { group: None })));
        assert!(matches!(parse(&["peer", "ID-001"]).unwrap().line.action, Some(Action::Peer { .. })));
        assert!(matches!(parse(&["replay", "tape.json"]).unwrap().line.action, Some(Action::Replay { .. })));
        assert!(parse(&["sqlite:"]).is_err(), "it has one backend, and takes no other");
    }

    #[test]
    fn what_opens_nothing_asks_for_no_backend() {
        let host = Host {
            program: "certify".to_owned(),
            peer: Vec::new(),
            harness: &|| Err(Trouble::Failed("a backend was asked for".to_owned())),
            within: None,
            json: false,
        };
        let mut out = Vec::new();
        for words in [&["list"][..], &["explain", "ID-001"]] {
            let ended = parse(words).unwrap().line.execute(&host, &mut out);
            assert_eq!(ended.unwrap(), Ending::Done);
        }
        assert!(String::from_utf8(out).unwrap().contains("certify --only ID-001"));
        assert!(parse(&["--only", "ID-001"]).unwrap().line.execute(&host, &mut Vec::new()).is_err());
    }
}
