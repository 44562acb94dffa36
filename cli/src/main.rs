//! The `turnkeep` program: list, read, import, export and continue the sessions of agents.

mod args;
mod commands;
mod exit;
mod failure;
mod open;
mod output;
mod pick;
mod provider;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use clap::Parser;

use args::CommandLine;
use failure::{Failure, Outcome};
use output::Out;

fn main() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(wrong) => {
            return refuse(&wrong);
        }
    };
    let json = line.global.json;
    // A person reads what to do, and a trace only if asked for. Threads of a store answer their fault themselves.
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        panic::set_hook(Box::new(|_| {}));
    }
    let done = panic::catch_unwind(AssertUnwindSafe(|| run(line)));
    match done.unwrap_or_else(|fault| Err(Failure::of_this_program(fault.as_ref()))) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.tell(json);
            ExitCode::from(failure.code())
        }
    }
}

/// Help and version come this way, too.
fn refuse(wrong: &clap::Error) -> ExitCode {
    let code = u8::try_from(wrong.exit_code()).unwrap_or(exit::USAGE);
    if wrong.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let text = wrong.to_string();
        let first = text.lines().next().unwrap_or_default();
        let failure = Failure::usage(first.strip_prefix("error: ").unwrap_or(first));
        failure.exit(code).hint("--help shows what there is").tell(true);
    } else {
        // If nobody reads it, nobody misses it.
        let _ = wrong.print();
    }
    ExitCode::from(code)
}

fn run(line: CommandLine) -> Outcome<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::program(format!("the program cannot start: {error}")))?;
    let mut out = Out::new(line.global.json);
    let done = runtime.block_on(async {
        let done = commands::run(&line.global, line.command, &mut out).await;
        let shown = out.flush();
        line.global.stores.close().await;
        done.and_then(|code| shown.map(|()| code))
    });
    // A thread that still waits for a line of standard input must not keep the program.
    runtime.shutdown_background();
    done
}
