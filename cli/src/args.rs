//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::open::Stores;

const EXAMPLES: &str = "\
Examples:
  turnkeep chat --say \"hello\"                begin a session
  turnkeep chat --last --say \"go on\"         continue it, also from another process
  turnkeep sessions list                      all sessions of this workspace
  turnkeep sessions search group commit       what was said, best hits first
  turnkeep sessions show --last               one conversation
  turnkeep import FILE.jsonl                  an export, or a session of the pi coding agent
  turnkeep export ID --output FILE.jsonl      everything of a session, byte for byte
  turnkeep store info                         where the data is, and what it promises
  turnkeep store backup                       a copy in one file, also while the store is in use
  turnkeep certify sqlite:                    ask a backend every promise, and write a report
";

/// Keeps what AI agents and their users said and did: list, read, continue, import and export sessions.
#[derive(Debug, Parser)]
#[command(
    name = "turnkeep",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    propagate_version = true,
    max_term_width = 100,
    after_help = "Begin with:  turnkeep chat --say \"hello\"",
    after_long_help = format!("{EXAMPLES}\n{}", crate::exit::help()),
)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Print data as JSON, and errors too
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Use this store instead of the workspace's own: `sqlite:PATH`, `redb:PATH`, or `memory:` (gone at the end)
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// The folder of the workspace
    #[arg(long, global = true, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Wait at most so many milliseconds for a store that others keep busy
    #[arg(long, global = true, value_name = "MS")]
    pub(crate) wait: Option<u64>,
    /// Hide common secrets (keys, tokens, passwords) in all that this command stores
    #[arg(long, global = true, env = "TURNKEEP_REDACT", hide_env_values = true, value_parser = BoolishValueParser::new())]
    pub(crate) redact: bool,
    /// What a command has opened, to be closed at its end.
    #[arg(skip)]
    pub(crate) stores: Stores,
}

impl Global {
    /// How long to wait for a busy store, if that was said.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait.map(Duration::from_millis)
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk; every word is kept, and Ctrl-C cancels a turn
    Chat(Chat),
    /// List, make, read, continue, pin, archive, rename and delete sessions
    #[command(subcommand)]
    Sessions(Sessions),
    /// Show what models consumed, per session, run or model
    Usage(UsageOf),
    /// Import a session: turnkeep's own export, or a file of the pi coding agent
    Import(Import),
    /// Export a session, byte for byte, so that an import reads the same
    Export(Export),
    /// The workspace: its id, and where its state lies
    #[command(subcommand)]
    Workspace(Workspace),
    /// The store: where the data is, and what it promises; copy, back up, verify, repair it
    #[command(subcommand)]
    Store(Store),
    /// Write the completions of a shell to standard output
    Completions(Completions),
    /// Write the manual pages into a folder
    Man(Man),
    /// Ask a backend every promise of the contract; a report, and a certificate if it keeps them
    #[cfg(feature = "certify")]
    Certify(Certify),
}

/// `turnkeep certify`
#[cfg(feature = "certify")]
#[derive(Debug, Args)]
#[command(after_help = CERTIFY_EXAMPLES)]
pub(crate) struct Certify {
    /// The backend: `sqlite:`, `redb:` or `memory:`. A folder after it is where stores are made, and removed again;
    /// the folder for temporary files by default
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) line: turnkeep_conformance::program::Line,
}

#[cfg(feature = "certify")]
const CERTIFY_EXAMPLES: &str = "\
Examples:
  turnkeep certify sqlite:                          everything; a certificate, if all is kept
  turnkeep certify redb:/mnt/disk --tier soak       stores on that disk, again and again for ten minutes
  turnkeep certify memory: --only ORD               one group
  turnkeep certify list                             what is asked
  turnkeep certify explain ORD-001                  why
  turnkeep certify sqlite: replay TAPE              play a failure again";

/// `turnkeep sessions …`
#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List the sessions of this workspace, the one that changed last first
    List(List),
    /// Make an empty session
    New(New),
    /// Search what was said, best hits first
    Search(Search),
    /// Show a session: its conversation and its runs
    Show(Show),
    /// Show the newest words of a session, and with -f those that come
    Tail(Tail),
    /// List the runs of a session: how each ended, and why
    Runs(Runs),
    /// Show the audit log of a session: what happened to its runs, without anybody's words
    Log(Log),
    /// Continue a session, as `chat --session` does
    Resume(Resume),
    /// Give a session another title
    Rename(Rename),
    /// Make a session of its own that begins with what another one holds
    Fork(Fork),
    /// Keep a session at the top of the list
    Pin(Pick),
    /// Keep a session at the top of the list no longer
    Unpin(Pick),
    /// Put a session away: it leaves the list, and nothing of it is deleted
    Archive(Pick),
    /// Bring an archived session back
    Unarchive(Pick),
    /// Delete a session and everything of it, for good
    Delete(Delete),
    /// Delete old sessions, if you say so; only shows them by default
    Prune(Prune),
}

/// `turnkeep workspace …`
#[derive(Debug, Subcommand)]
pub(crate) enum Workspace {
    /// Show the id of the workspace and where its state lies
    Show,
}

/// `turnkeep store …`
#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Show where the data is, what the store promises and how large it is
    Info,
    /// Copy everything into another store, of any kind, and prove that both are equal
    Copy(CopyStore),
    /// Back the store up to one file, also while it is in use
    Backup(BackupStore),
    /// Put a backup in the place of the store
    Restore(RestoreStore),
    /// Read everything and name what is damaged; changes nothing
    Verify,
    /// Save everything readable of a damaged store into a new one beside it
    Repair(RepairStore),
    /// Remove deleted sessions for good, and give unused space back
    Compact,
    /// Bring a store of an older version up to date. Every command does so by itself; this one says what was done
    Migrate,
}

/// `turnkeep store copy`
#[derive(Debug, Args)]
#[command(after_help = COPY_EXAMPLE)]
pub(crate) struct CopyStore {
    /// The store to copy: `sqlite:PATH` or `redb:PATH`; it may be in use
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// The store to copy to, which is made if it is not there; nothing else in it is ever changed
    #[arg(value_name = "TO")]
    pub(crate) to: String,
    /// Only this workspace; may be given several times
    #[arg(long, value_name = "WORKSPACE")]
    pub(crate) only: Vec<String>,
}

const COPY_EXAMPLE: &str = "\
Where the store of a workspace is, `turnkeep workspace show` says. A copy that was cut short is begun again \
with the same command, and goes on where it stopped.";

/// `turnkeep store backup`
#[derive(Debug, Args)]
pub(crate) struct BackupStore {
    /// The file to write, which must not be there; beside the store by default
    #[arg(value_name = "TO")]
    pub(crate) to: Option<PathBuf>,
}

/// `turnkeep store restore`
#[derive(Debug, Args)]
pub(crate) struct RestoreStore {
    /// A file that `store backup` or `store repair` wrote
    #[arg(value_name = "FROM")]
    pub(crate) from: PathBuf,
    /// Also if there is a store: it goes on under another name beside it
    #[arg(long)]
    pub(crate) force: bool,
}

/// `turnkeep store repair`
#[derive(Debug, Args)]
pub(crate) struct RepairStore {
    /// The new store, which must not be there; beside the damaged one by default
    #[arg(value_name = "TO")]
    pub(crate) to: Option<PathBuf>,
}

/// Which session a command is about.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Pick {
    /// The id of the session, a beginning of it that fits no other, or its title
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// The session that changed last
    #[arg(long)]
    pub(crate) last: bool,
}

/// How to talk.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Talking")]
pub(crate) struct Talk {
    /// Say this and end; may be given several times. Without it, lines are read from standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) say: Vec<String>,
    /// Who answers
    #[arg(long, value_enum, default_value_t = Provider::Echo)]
    pub(crate) provider: Provider,
    /// Spread the answer over so many milliseconds, so that there is time to interrupt it
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) delay: u64,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Provider {
    /// Repeats what you say; works offline, needs no key
    Echo,
}

/// `turnkeep chat`
#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Continue the session that changed last
    #[arg(long, conflicts_with = "session")]
    pub(crate) last: bool,
    /// Continue this session: its id, a beginning of it that fits no other, or its title
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The title of a new session
    #[arg(long, conflicts_with_all = ["last", "session"])]
    pub(crate) title: Option<String>,
    #[command(flatten)]
    pub(crate) talk: Talk,
}

/// `turnkeep sessions list`
#[derive(Debug, Default, Args)]
pub(crate) struct List {
    /// At most so many; all by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Only those with this text in id, title, folder or conversation
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// Only those made in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Also sessions of sub-agents
    #[arg(long)]
    pub(crate) all: bool,
    /// Only pinned ones
    #[arg(long)]
    pub(crate) pinned: bool,
    /// Only archived ones; they are left out otherwise
    #[arg(long)]
    pub(crate) archived: bool,
}

/// `turnkeep usage`
#[derive(Debug, Args)]
pub(crate) struct UsageOf {
    /// Only this session: its id, a beginning of it that fits no other, or its title
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Only the session that changed last
    #[arg(long, conflicts_with = "id")]
    pub(crate) last: bool,
    /// One row for each; `session` by default, `run` for one session
    #[arg(long, value_enum)]
    pub(crate) by: Option<By>,
}

/// What a row of the usage is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    /// A session
    Session,
    /// A run of one session
    Run,
    /// A model; reads every request, so that it takes longer
    Model,
}

/// `turnkeep completions`
#[derive(Debug, Args)]
#[command(
    after_help = "For bash:  turnkeep completions bash > ~/.local/share/bash-completion/completions/turnkeep"
)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `turnkeep man`
#[derive(Debug, Args)]
#[command(after_help = "For you alone:  turnkeep man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// `turnkeep sessions search`
#[derive(Debug, Args)]
#[command(after_help = SEARCH_EXAMPLES)]
pub(crate) struct Search {
    /// The words; each must be there, from the beginning of a word on. Every sign stands for itself
    #[arg(value_name = "TEXT", required = true, num_args = 1..)]
    pub(crate) text: Vec<String>,
    /// Only in this session: its id, or a beginning of it that fits no other
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// At most so many hits
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Also in sessions of sub-agents
    #[arg(long)]
    pub(crate) all: bool,
}

const SEARCH_EXAMPLES: &str = "\
Examples:
  turnkeep sessions search group commit         entries with both words, those with the phrase first
  turnkeep sessions search C++                  signs count
  turnkeep sessions search --session 01a parse  in one session; finds parser and parsing, too";

/// `turnkeep sessions new`
#[derive(Debug, Args)]
pub(crate) struct New {
    /// Its title
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Its id; one is drawn by default
    #[arg(long)]
    pub(crate) id: Option<String>,
}

/// `turnkeep sessions show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) pick: Pick,
    /// Only the newest so many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) latest: Option<u32>,
    /// Whole messages; long ones are cut otherwise
    #[arg(long)]
    pub(crate) full: bool,
}

/// `turnkeep sessions tail`
#[derive(Debug, Args)]
pub(crate) struct Tail {
    #[command(flatten)]
    pub(crate) pick: Pick,
    /// How many messages to begin with
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    pub(crate) lines: u32,
    /// Go on with what any program adds, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Whole messages; long ones are cut otherwise
    #[arg(long)]
    pub(crate) full: bool,
}

/// `turnkeep sessions runs`
#[derive(Debug, Args)]
pub(crate) struct Runs {
    #[command(flatten)]
    pub(crate) pick: Pick,
    /// Only those that are not over
    #[arg(long)]
    pub(crate) active: bool,
}

/// `turnkeep sessions log`
#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(flatten)]
    pub(crate) pick: Pick,
    /// Only the newest so many lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) latest: Option<u32>,
}

/// `turnkeep sessions resume`
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) pick: Pick,
    #[command(flatten)]
    pub(crate) talk: Talk,
}

/// `turnkeep sessions rename`
#[derive(Debug, Args)]
#[command(override_usage = "turnkeep sessions rename ID TITLE\n       turnkeep sessions rename --last TITLE")]
pub(crate) struct Rename {
    /// The id of the session, or a beginning of it that fits no other; then the new title
    #[arg(value_name = "ID|TITLE", num_args = 1..=2, required = true)]
    pub(crate) words: Vec<String>,
    /// The session that changed last
    #[arg(long)]
    pub(crate) last: bool,
}

/// `turnkeep sessions fork`
#[derive(Debug, Args)]
pub(crate) struct Fork {
    #[command(flatten)]
    pub(crate) pick: Pick,
    /// Only up to this entry: the last words of a turn, as `sessions show` numbers them. Everything by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) at: Option<u32>,
    /// The title of the fork; by default that of the source, with ` (fork)` after it
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// The id of the fork; one is drawn by default
    #[arg(long = "as", value_name = "NEW-ID")]
    pub(crate) new_id: Option<String>,
    /// Makes it safe to repeat, from a script: the same request gives the same fork
    #[arg(long, value_name = "TEXT")]
    pub(crate) request: Option<String>,
}

/// `turnkeep sessions delete`
#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    pub(crate) pick: Pick,
    /// Do not ask; only a terminal is asked
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Also while another program is at work on it; that program's writes are refused from then on
    #[arg(long)]
    pub(crate) force: bool,
}

/// `turnkeep sessions prune`
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Those that did not change for this long: `90d`, `12w`, `36h`
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Duration,
    /// Only those that were put away
    #[arg(long)]
    pub(crate) archived: bool,
    /// Also sessions of sub-agents
    #[arg(long)]
    pub(crate) all: bool,
    /// Delete them, for good; without this they are only shown
    #[arg(long)]
    pub(crate) apply: bool,
}

/// Hours, days or weeks.
fn age(text: &str) -> Result<Duration, String> {
    let hours = [("h", 1), ("d", 24), ("w", 7 * 24)];
    let read = hours.iter().find_map(|(unit, hours)| {
        let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
        count.checked_mul(*hours)?.checked_mul(60 * 60).map(Duration::from_secs)
    });
    match read {
        Some(age) if !age.is_zero() => Ok(age),
        _ => Err("give a number of hours, days or weeks: 36h, 90d, 12w".to_owned()),
    }
}

/// `turnkeep import`
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file, or a folder of files that end in .jsonl; `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Give the session this id instead of the one in the file
    #[arg(long)]
    pub(crate) id: Option<String>,
}

/// `turnkeep export`
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) pick: Pick,
    /// Write to this file, which only you can read; standard output by default
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;

    #[test]
    fn an_age_is_hours_days_or_weeks() {
        assert_eq!(super::age("36h"), Ok(Duration::from_secs(36 * 3600)));
        assert_eq!(super::age("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(super::age("2w"), Ok(Duration::from_secs(14 * 86_400)));
        for wrong in ["", "90", "d", "-1d", "0d", "1.5d", "1m", "99999999999999999999d", "9999999999999999d"]
        {
            assert!(super::age(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        super::CommandLine::command().debug_assert();
    }
}
