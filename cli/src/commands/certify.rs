//! `turnkeep certify`: the conformance suite, for the backends of this project.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use turnkeep_conformance::Harness;
use turnkeep_conformance::program::{Action, Ending, Host, Trouble};
use turnkeep_harnesses::{MemoryHarness, RedbHarness, SqliteHarness};

use crate::args::{Certify, Global};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::output::guard::JsonGuard;
use crate::output::text;

const KNOWN: &str = "give sqlite:, redb: or memory:, and after it, if you like, the folder to work in";

/// The suite has its own processes and waits for them: nothing here needs the runtime.
pub(crate) fn run(global: &Global, certify: &Certify) -> Outcome<u8> {
    let url = certify.url.as_deref();
    let backend = url.map(Backend::parse).transpose()?;
    // A tape names no backend by itself, nor does a command without one.
    if backend.is_none() && needs_backend(certify.line.action.as_ref()) {
        return Err(Failure::usage("certify needs a backend").hint(KNOWN));
    }
    let shown = url.unwrap_or("URL");
    let host = Host {
        program: format!("turnkeep certify {}", quoted(shown)),
        peer: ["certify", shown, "peer"].map(str::to_owned).to_vec(),
        harness: &|| match &backend {
            Some(backend) => Ok(backend.harness()),
            None => Err(Trouble::Usage("certify needs a backend".to_owned())),
        },
        within: backend.as_ref().and_then(|backend| backend.folder.clone()),
        json: global.json,
    };
    let ended = if global.json {
        let mut out = JsonGuard::new(io::stdout());
        let ended = certify.line.execute(&host, &mut out);
        out.finish()?;
        ended
    } else {
        certify.line.execute(&host, &mut io::stdout())
    };
    match ended {
        Ok(ending) => Ok(match ending {
            Ending::Done | Ending::Certified | Ending::Passed => exit::OK,
            Ending::NotCertified => exit::NOT_CERTIFIED,
            Ending::Interrupted => exit::CANCELLED,
        }),
        Err(trouble) => Err(failure(trouble)),
    }
}

fn needs_backend(action: Option<&Action>) -> bool {
    matches!(action, None | Some(Action::Replay { .. } | Action::Peer { .. }))
}

/// The backend that a URL names, and the folder to work in.
struct Backend {
    harness: fn() -> Arc<dyn Harness>,
    folder: Option<PathBuf>,
}

impl Backend {
    fn parse(url: &str) -> Outcome<Self> {
        let unknown = || {
            let shown = text::cut(&text::line(url), 80);
            Failure::usage(format!("{shown} names no backend that can be certified")).hint(KNOWN)
        };
        let (name, folder) = url.split_once(':').ok_or_else(unknown)?;
        let harness: fn() -> Arc<dyn Harness> = match name {
            "sqlite" => || Arc::new(SqliteHarness),
            "redb" => || Arc::new(RedbHarness),
            "memory" => || Arc::new(MemoryHarness),
            _ => return Err(unknown()),
        };
        let folder = Some(folder).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        if let Some(folder) = folder.as_ref().filter(|folder| !folder.is_dir()) {
            let shown = text::line(&folder.display().to_string());
            return Err(Failure::usage(format!("{shown} is no folder")).hint(KNOWN));
        }
        Ok(Self { harness, folder })
    }

    fn harness(&self) -> Arc<dyn Harness> {
        (self.harness)()
    }
}

/// A word of a command line, in quotes where a shell would take it for something else.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/:".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

fn failure(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Output(error) => error.into(),
        other => Failure::told(code(&other), other.to_string()),
    }
}

fn code(trouble: &Trouble) -> u8 {
    match trouble {
        Trouble::Usage(_) => exit::USAGE,
        Trouble::NotFound(_) => exit::NOT_FOUND,
        Trouble::BadFile(_) => exit::BAD_FILE,
        _ => exit::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_for_one_backend_ends_with_the_same_codes() {
        assert_eq!(Ending::NotCertified.code(), exit::NOT_CERTIFIED);
        assert_eq!(Ending::Interrupted.code(), exit::CANCELLED);
        for ending in [Ending::Done, Ending::Certified, Ending::Passed] {
            assert_eq!(ending.code(), exit::OK);
        }
        let text = || String::from("x");
        for trouble in [
            Trouble::Usage(text()),
            Trouble::NotFound(text()),
            Trouble::BadFile(text()),
            Trouble::Failed(text()),
        ] {
            assert_eq!(trouble.code(), code(&trouble));
        }
    }

    #[test]
    fn commands_can_be_typed_again() {
        assert_eq!(quoted("sqlite:/a-b/c.d"), "sqlite:/a-b/c.d");
        assert_eq!(quoted("sqlite:/it's here"), r"'sqlite:/it'\''s here'");
    }
}
