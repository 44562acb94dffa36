//! Exit codes: one table, the same as in `docs/cli.md` (a test compares them).

use turnkeep::ErrorKind;

/// Done. Also when the reader of a pipe went away.
pub(crate) const OK: u8 = 0;
/// Something else failed: the operating system, or this program.
pub(crate) const FAILED: u8 = 1;
/// The command line is wrong, or an id on it.
pub(crate) const USAGE: u8 = 2;
/// Nothing has that id.
pub(crate) const NOT_FOUND: u8 = 3;
/// The beginning of an id fits several.
pub(crate) const AMBIGUOUS: u8 = 4;
/// It is there already, or somebody else changed it first.
pub(crate) const CONFLICT: u8 = 5;
/// Somebody else is at work on the session.
pub(crate) const IN_USE: u8 = 6;
/// The store stayed locked for longer than `--wait`.
pub(crate) const BUSY: u8 = 7;
/// The store, or its folder, cannot be written.
pub(crate) const READ_ONLY: u8 = 8;
/// No room left.
pub(crate) const FULL: u8 = 9;
/// The stored data is damaged, or is not turnkeep's.
pub(crate) const DAMAGED: u8 = 10;
/// The stored data has another format version.
pub(crate) const FORMAT: u8 = 11;
/// The state would lie inside the workspace.
pub(crate) const UNSAFE_ROOT: u8 = 12;
/// This store cannot do that.
pub(crate) const UNSUPPORTED: u8 = 13;
/// Nobody can say whether the last change landed.
pub(crate) const UNKNOWN: u8 = 14;
/// The file to import cannot be read as a session.
pub(crate) const BAD_FILE: u8 = 15;
/// Imported, but lines were dropped; the summary names each.
pub(crate) const INCOMPLETE: u8 = 16;
/// The backend is not certified: a promise is broken, or a clause has no answer.
pub(crate) const NOT_CERTIFIED: u8 = 17;
/// Cancelled with Ctrl-C.
pub(crate) const CANCELLED: u8 = 130;

/// Every exit code with its meaning, as `docs/cli.md` has it and `turnkeep --help` shows it.
pub(crate) const TABLE: &[(u8, &str)] = &[
    (OK, "done; also when the reader of a pipe went away"),
    (FAILED, "something else failed: the operating system, or this program"),
    (USAGE, "the command line is wrong, or an id on it"),
    (NOT_FOUND, "nothing has that id"),
    (AMBIGUOUS, "the beginning of an id fits several"),
    (CONFLICT, "it is there already, or somebody else changed it first"),
    (IN_USE, "somebody else is at work on the session"),
    (BUSY, "the store stayed locked for longer than --wait"),
    (READ_ONLY, "the store, or its folder, cannot be written"),
    (FULL, "no room left"),
    (DAMAGED, "the stored data is damaged, or is not turnkeep's"),
    (FORMAT, "the stored data has another format version"),
    (UNSAFE_ROOT, "the state would lie inside the workspace"),
    (UNSUPPORTED, "this store cannot do that"),
    (UNKNOWN, "nobody can say whether the last change landed"),
    (BAD_FILE, "the file to import cannot be read as a session"),
    (INCOMPLETE, "imported, but lines were dropped; the summary names each"),
    (NOT_CERTIFIED, "the backend is not certified: a promise is broken, or a clause has no answer"),
    (CANCELLED, "cancelled with Ctrl-C; a turn is recorded so, a report says so"),
];

/// The exit code of an error of the library.
pub(crate) fn of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::Ambiguous => AMBIGUOUS,
        ErrorKind::AlreadyExists
        | ErrorKind::StaleLeaf
        | ErrorKind::RunState
        | ErrorKind::TurnNotOpen
        | ErrorKind::RequestConflict
        | ErrorKind::RequestExpired
        | ErrorKind::VersionConflict
        | ErrorKind::ForkRefused(_) => CONFLICT,
        ErrorKind::ActiveRun | ErrorKind::LeaseHeld | ErrorKind::LeaseLost => IN_USE,
        ErrorKind::Invalid | ErrorKind::TooLarge => USAGE,
        ErrorKind::UnsafeRoot => UNSAFE_ROOT,
        ErrorKind::Unsupported => UNSUPPORTED,
        ErrorKind::Cancelled => CANCELLED,
        ErrorKind::Busy => BUSY,
        ErrorKind::Full => FULL,
        ErrorKind::ReadOnly => READ_ONLY,
        ErrorKind::Corrupt => DAMAGED,
        ErrorKind::NewerFormat | ErrorKind::OlderFormat => FORMAT,
        ErrorKind::CommitUnknown | ErrorKind::Poisoned => UNKNOWN,
        // `Io`, `Closed`, and kinds that are newer than this program.
        _ => FAILED,
    }
}

/// The table as lines, for `--help`.
pub(crate) fn help() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in TABLE {
        text.push_str(&format!("  {code:>3}  {meaning}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_exit_codes_is_the_one_in_the_docs() {
        let docs = include_str!("../../docs/cli.md");
        let section = docs.split("## Exit codes").nth(1).expect("docs/cli.md has a section `## Exit codes`");
        let section = section.split("\n## ").next().unwrap_or(section);
        let written: Vec<(u8, String)> = section
            .lines()
            .filter_map(|line| {
                let mut cells = line.trim().trim_matches('|').splitn(2, '|');
                let code = cells.next()?.trim().parse().ok()?;
                Some((code, cells.next()?.trim().replace('`', "")))
            })
            .collect();
        let built: Vec<(u8, String)> =
            TABLE.iter().map(|(code, meaning)| (*code, (*meaning).to_owned())).collect();
        assert_eq!(written, built);
    }

    #[test]
    fn every_code_stands_once_in_the_table() {
        let mut codes: Vec<u8> = TABLE.iter().map(|(code, _)| *code).collect();
        codes.dedup();
        assert!(codes.is_sorted());
        assert_eq!(codes.len(), TABLE.len());
    }
}
