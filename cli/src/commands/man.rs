//! `turnkeep man`

use clap::CommandFactory;

use crate::args::{CommandLine, Man};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::output::{Out, text};

pub(crate) fn run(man: &Man, out: &mut Out) -> Outcome<u8> {
    let failed = |error: std::io::Error| {
        let folder = text::line(&man.folder.to_string_lossy());
        Failure::program(format!("the manual pages cannot be written to {folder}: {error}"))
    };
    std::fs::create_dir_all(&man.folder).map_err(failed)?;
    clap_mangen::generate_to(CommandLine::command(), &man.folder).map_err(failed)?;
    if !out.json {
        let folder = text::line(&man.folder.to_string_lossy());
        out.line(format!("the manual pages are in {folder}; read one with: man -l {folder}/turnkeep.1"))?;
    }
    Ok(exit::OK)
}
