//! `turnkeep completions`

use clap::CommandFactory;

use crate::args::{CommandLine, Completions};
use crate::exit;
use crate::failure::Outcome;
use crate::output::Out;

pub(crate) fn run(completions: &Completions, out: &mut Out) -> Outcome<u8> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut CommandLine::command(), "turnkeep", &mut script);
    out.piece(&String::from_utf8_lossy(&script))?;
    Ok(exit::OK)
}
