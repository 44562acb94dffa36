//! One file per command.

#[cfg(feature = "certify")]
mod certify;
mod chat;
mod completions;
mod export;
mod import;
mod interrupt;
mod man;
mod progress;
mod sessions;
mod stop;
mod store;
mod usage;
mod workspace;

use crate::args::{self, Command, Global};
use crate::failure::Outcome;
use crate::output::Out;
use sessions::mark::Mark;

/// Runs a command and answers with the exit code.
pub(crate) async fn run(global: &Global, command: Command, out: &mut Out) -> Outcome<u8> {
    match command {
        Command::Chat(chat) => chat::run(global, chat, out).await,
        Command::Sessions(args::Sessions::List(list)) => sessions::list::run(global, list, out).await,
        Command::Sessions(args::Sessions::Search(search)) => sessions::search::run(global, search, out).await,
        Command::Sessions(args::Sessions::New(new)) => sessions::new::run(global, new, out).await,
        Command::Sessions(args::Sessions::Show(show)) => sessions::show::run(global, show, out).await,
        Command::Sessions(args::Sessions::Tail(tail)) => sessions::tail::run(global, tail, out).await,
        Command::Sessions(args::Sessions::Runs(runs)) => sessions::runs::run(global, runs, out).await,
        Command::Sessions(args::Sessions::Log(log)) => sessions::log::run(global, log, out).await,
        Command::Sessions(args::Sessions::Resume(resume)) => chat::resume(global, resume, out).await,
        Command::Sessions(args::Sessions::Rename(rename)) => sessions::rename::run(global, rename, out).await,
        Command::Sessions(args::Sessions::Fork(fork)) => sessions::fork::run(global, fork, out).await,
        Command::Sessions(args::Sessions::Delete(delete)) => sessions::delete::run(global, delete, out).await,
        Command::Sessions(args::Sessions::Prune(prune)) => sessions::prune::run(global, prune, out).await,
        Command::Sessions(args::Sessions::Pin(pick)) => {
            sessions::mark::run(global, Mark::Pin, &pick, out).await
        }
        Command::Sessions(args::Sessions::Unpin(pick)) => {
            sessions::mark::run(global, Mark::Unpin, &pick, out).await
        }
        Command::Sessions(args::Sessions::Archive(pick)) => {
            sessions::mark::run(global, Mark::Archive, &pick, out).await
        }
        Command::Sessions(args::Sessions::Unarchive(pick)) => {
            sessions::mark::run(global, Mark::Unarchive, &pick, out).await
        }
        Command::Usage(of) => usage::run(global, of, out).await,
        Command::Completions(completions) => completions::run(&completions, out),
        Command::Man(man) => man::run(&man, out),
        Command::Import(import) => import::run(global, import, out).await,
        Command::Export(export) => export::run(global, export, out).await,
        Command::Workspace(args::Workspace::Show) => workspace::run(global, out).await,
        Command::Store(args::Store::Info) => store::info::run(global, out).await,
        Command::Store(args::Store::Copy(copy)) => store::copy::run(global, copy, out).await,
        Command::Store(args::Store::Backup(backup)) => store::backup::run(global, backup, out).await,
        Command::Store(args::Store::Restore(restore)) => store::restore::run(global, restore, out).await,
        Command::Store(args::Store::Verify) => store::verify::run(global, out).await,
        Command::Store(args::Store::Repair(repair)) => store::repair::run(global, repair, out).await,
        Command::Store(args::Store::Compact) => store::compact::run(global, out).await,
        Command::Store(args::Store::Migrate) => store::migrate::run(global, out).await,
        #[cfg(feature = "certify")]
        Command::Certify(line) => certify::run(global, &line),
    }
}
