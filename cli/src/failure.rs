//! What went wrong, as a person reads it: what failed, what to do, a code. One or two lines.

use std::any::Any;
use std::error::Error as _;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use turnkeep::ErrorKind;

use crate::exit;
use crate::output::{style::Paint, text};

/// The longest message, in characters. Ids and paths may be long; a person's screen is not.
const LONGEST: usize = 1_000;

/// A result of a command.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of standard output went away. Nobody is there to be told.
    ClosedPipe,
    /// To be told to a person.
    Told(Box<Told>),
}

/// What a person is told.
#[derive(Debug)]
pub(crate) struct Told {
    exit: u8,
    kind: Option<ErrorKind>,
    message: String,
    hint: Option<String>,
}

/// What a script is told.
#[derive(Serialize)]
struct ErrorLine {
    error: ErrorData,
}

#[derive(Serialize)]
struct ErrorData {
    exit: u8,
    code: Option<&'static str>,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// The input is wrong; `message` says what, and what to do.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::told(exit::USAGE, message)
    }

    /// Something of this program or of the machine failed.
    pub(crate) fn program(message: impl Into<String>) -> Self {
        Self::told(exit::FAILED, message)
    }

    /// A panic.
    pub(crate) fn of_this_program(fault: &(dyn Any + Send)) -> Self {
        let text = fault.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = text.or_else(|| fault.downcast_ref::<String>().cloned()).unwrap_or_default();
        let message = format!("this program has a fault, and ended: {said}");
        Self::program(message).hint("what was acknowledged is kept; please report what you did")
    }

    /// The operating system refused something; `what` says what.
    pub(crate) fn io(what: &str, error: &io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::PermissionDenied => exit::READ_ONLY,
            _ => exit::of(ErrorKind::of_io(error)),
        };
        // What is wrapped around the answer names a temporary file, of which nobody knows.
        let why = if error.get_ref().is_some() { error.kind().to_string() } else { error.to_string() };
        Self::told(code, format!("{what}: {why}"))
    }

    /// Ends with this exit code and this message.
    pub(crate) fn told(exit: u8, message: impl Into<String>) -> Self {
        Self::Told(Box::new(Told { exit, kind: None, message: message.into(), hint: None }))
    }

    /// Says what to do, in a line of its own.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Self::Told(told) = &mut self {
            told.hint.get_or_insert(hint.into());
        }
        self
    }

    /// Ends with another exit code.
    pub(crate) fn exit(mut self, exit: u8) -> Self {
        if let Self::Told(told) = &mut self {
            told.exit = exit;
        }
        self
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::ClosedPipe => exit::OK,
            Self::Told(told) => told.exit,
        }
    }

    /// The kind of the library's error, if it is one.
    pub(crate) fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::ClosedPipe => None,
            Self::Told(told) => told.kind,
        }
    }

    /// Tells the person, or as JSON a script, on standard error.
    pub(crate) fn tell(&self, as_json: bool) {
        let Self::Told(told) = self else { return };
        let message = text::cut(&text::line(&told.message), LONGEST);
        let hint = told.hint.as_deref().map(text::line);
        // If nobody reads standard error, the exit code still tells.
        if as_json {
            let (exit, code) = (told.exit, told.kind.map(ErrorKind::code));
            let line = ErrorLine { error: ErrorData { exit, code, message, hint } };
            let error = serde_json::to_string(&line).unwrap_or_default();
            let _ = writeln!(io::stderr(), "{}", text::json(&error));
            return;
        }
        let paint = Paint::of_terminal(io::stderr().is_terminal());
        let _ = writeln!(io::stderr(), "{} {message}", paint.error("error:"));
        if let Some(hint) = hint {
            let _ = writeln!(io::stderr(), "{} {hint}", paint.dim(" hint:"));
        }
    }
}

impl From<turnkeep::Error> for Failure {
    fn from(error: turnkeep::Error) -> Self {
        let mut message = error.to_string();
        let code = format!(" [{}]", error.code());
        if let Some(cause) = deepest(&error)
            && !message.contains(&cause)
        {
            let end = message.strip_suffix(&code).map_or(message.len(), str::len);
            message.insert_str(end, &format!(": {cause}"));
        }
        let hint = hint(error.kind()).map(str::to_owned);
        Self::Told(Box::new(Told { exit: exit::of(error.kind()), kind: Some(error.kind()), message, hint }))
    }
}

/// The cause beneath all others, in its own words.
fn deepest(error: &turnkeep::Error) -> Option<String> {
    let mut cause = error.source()?;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Some(match cause.downcast_ref::<turnkeep::Error>() {
        Some(error) => error.message().to_owned(),
        None => cause.to_string(),
    })
}

/// What to do at a terminal, where the library's message says it for programs.
fn hint(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::LeaseHeld | ErrorKind::ActiveRun => {
            "another program is at work on this session; wait for it, or begin another with `turnkeep chat`"
        }
        ErrorKind::Busy => "another process keeps the store; try again, or wait longer with --wait MS",
        ErrorKind::CommitUnknown | ErrorKind::Poisoned => "look at the session before you repeat this",
        _ => return None,
    })
}

impl From<io::Error> for Failure {
    /// Only writes to standard output come here: files are named where they are opened.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ClosedPipe;
        }
        Self::io("the output cannot be written", &error)
    }
}
