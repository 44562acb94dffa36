//! Every check of a statement, each made needless: what the mutation program breaks in SQL.
//!
//! `TURNKEEP_SQL_CHECKS` names a file to which each statement that is prepared writes its checks. One of them, named by
//! `TURNKEEP_MUTANT`, is then broken: a term of a condition holds always, a column keeps its value when it is to be
//! changed, a new row gets no value. All parameters stay, so that the statement still takes its values.

use std::collections::HashSet;
use std::io::Write as _;
use std::ops::Range;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

use turnkeep_core::digest::FieldDigest;
use turnkeep_core::mutant;

/// Names the file of the list.
const LIST: &str = "TURNKEEP_SQL_CHECKS";

/// A piece of a statement, and what takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    piece: Range<usize>,
    by: String,
}

/// Writes the checks of a statement down, once, if a list is asked for.
pub(super) fn list(text: &str, place: &Location<'_>) {
    static PATH: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(LIST).ok());
    static SEEN: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let Some(path) = &*PATH else { return };
    if !SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{place} {text}")) {
        return;
    }
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: String = checks(text)
        .iter()
        .map(|check| {
            let piece = &text[check.piece.clone()];
            let change = format!("{} => {}", plain(piece), plain(&check.by));
            format!("{}\t{place}: {change}\t{}\n", name(text, place, check), plain(text))
        })
        .collect();
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    // One write, so that processes do not write into each other's lines.
    let _ = file.and_then(|mut file| file.write_all(lines.as_bytes()));
}

/// The statement with the check that this process breaks, if it is one of its own.
pub(super) fn broken(text: &str, place: &Location<'_>) -> Option<String> {
    let chosen = mutant::chosen().filter(|chosen| chosen.starts_with("sql:"))?;
    let mut ours = checks(text);
    ours.retain(|check| name(text, place, check) == chosen);
    let mut broken = text.to_owned();
    for check in ours.iter().rev() {
        broken.replace_range(check.piece.clone(), &check.by);
    }
    (!ours.is_empty()).then_some(broken)
}

/// A check has one name in all statements that are put together alike: at one place, with the same verb and the same
/// tables. Where values are bound in the order in which conditions are put together, their numbers tell nothing.
fn name(text: &str, place: &Location<'_>, check: &Check) -> String {
    let piece = &text[check.piece.clone()];
    let tokens = tokens(text);
    let selects = tokens.first().is_some_and(|first| first.text == "SELECT");
    let digits = |c: char| c.is_ascii_digit();
    let piece = if selects {
        piece.split('?').map(|part| part.trim_start_matches(digits)).collect()
    } else {
        piece.to_owned()
    };
    let named = |pair: &[Token<'_>]| {
        let names = pair[0].depth == 0 && ["FROM", "JOIN", "INTO", "UPDATE"].contains(&pair[0].text);
        names.then(|| pair[1].text.to_owned())
    };
    let tables: Vec<String> = tokens.windows(2).filter_map(named).collect();
    let verb = tokens.first().map_or("", |first| first.text);
    let digest = FieldDigest::new("sql")
        .text(&place.to_string())
        .text(verb)
        .text(&tables.join(" "))
        .text(&piece)
        .finish();
    let short: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("sql:{short}")
}

/// A word, a sign or a bracket, and how deep in brackets it is.
struct Token<'t> {
    text: &'t str,
    at: Range<usize>,
    depth: usize,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut depth, mut at) = (Vec::new(), 0_usize, 0);
    while let Some(first) = text[at..].chars().next() {
        let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '?');
        let rest = &text[at..];
        let len = match first {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            _ if word(first) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        if first == ')' {
            depth = depth.saturating_sub(1);
        }
        if !first.is_whitespace() {
            tokens.push(Token { text: &rest[..len], at: at..at + len, depth });
        }
        if first == '(' {
            depth += 1;
        }
        at += len;
    }
    tokens
}

/// Words that end a term.
const ENDS: [&str; 15] = [
    "AND",
    "OR",
    "ORDER",
    "GROUP",
    "LIMIT",
    "WHERE",
    "ON",
    "CROSS",
    "LEFT",
    "JOIN",
    "UNION",
    "DO",
    "SET",
    "RETURNING",
    "FROM",
];

fn checks(text: &str) -> Vec<Check> {
    let tokens = tokens(text);
    let mut checks = Vec::new();
    let inserts = tokens.first().is_some_and(|first| first.text == "INSERT");
    let mut values = None;
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        match (token.text, next) {
            ("AND" | "WHERE" | "ON", Some(first)) if first.text != "CONFLICT" => {
                let ends = |other: &&Token<'_>| {
                    other.depth < token.depth
                        || (other.depth == token.depth && (ENDS.contains(&other.text) || other.text == ","))
                };
                let end = tokens[at + 1..].iter().find(ends).map_or(text.len(), |end| end.at.start);
                let piece = first.at.start..first.at.start + text[first.at.start..end].trim_end().len();
                let by = format!("({} OR 1)", &text[piece.clone()]);
                checks.push(Check { piece, by });
            }
            ("VALUES", Some(open)) if inserts => values = Some(open.depth),
            ("ON", Some(_)) => values = None,
            // A changed column, in an update or in place of an insert.
            ("=", Some(value)) if at > 0 && assigns(&tokens[..at]) => {
                let column = tokens[at - 1].text;
                let end = tokens[at + 1..]
                    .iter()
                    .find(|other| {
                        other.depth < token.depth
                            || (other.depth == token.depth && (other.text == "," || other.text == "WHERE"))
                    })
                    .map_or(text.len(), |end| end.at.start);
                let piece = value.at.start..value.at.start + text[value.at.start..end].trim_end().len();
                let by = format!("iif(1, {column}, {})", &text[piece.clone()]);
                checks.push(Check { piece, by });
            }
            (value, _) if value.starts_with('?') && values.is_some_and(|depth| token.depth == depth + 1) => {
                checks.push(Check { piece: token.at.clone(), by: format!("nullif({value}, {value})") });
            }
            _ => {}
        }
    }
    checks
}

/// Whether an equals sign after these tokens gives a column a value.
fn assigns(before: &[Token<'_>]) -> bool {
    let Some(column) = before.last() else { return false };
    let words = || before.iter().rev().skip(1).filter(|token| token.depth == column.depth);
    // The column follows `SET` or a comma of the same list, with no condition between.
    let follows = before.len() > 1 && matches!(before[before.len() - 2].text, "SET" | ",");
    follows
        && words()
            .find(|token| ["SET", "WHERE", "ON"].contains(&token.text))
            .is_some_and(|token| token.text == "SET")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> Vec<String> {
        checks(text).into_iter().map(|check| format!("{} => {}", &text[check.piece], check.by)).collect()
    }

    #[test]
    fn every_term_of_a_condition_is_a_check() {
        let text = "SELECT a FROM t CROSS JOIN u ON u.k = t.k AND u.x <> 'AND' \
                    WHERE t.a = ?1 AND (t.b IS NULL OR t.c = 'x') AND EXISTS (SELECT 1 FROM v WHERE v.t = t.k) ORDER BY a";
        assert_eq!(
            broken(text),
            [
                "u.k = t.k => (u.k = t.k OR 1)",
                "u.x <> 'AND' => (u.x <> 'AND' OR 1)",
                "t.a = ?1 => (t.a = ?1 OR 1)",
                "(t.b IS NULL OR t.c = 'x') => ((t.b IS NULL OR t.c = 'x') OR 1)",
                "EXISTS (SELECT 1 FROM v WHERE v.t = t.k) => (EXISTS (SELECT 1 FROM v WHERE v.t = t.k) OR 1)",
                "v.t = t.k => (v.t = t.k OR 1)",
            ]
        );
    }

    #[test]
    fn every_value_that_is_written_is_a_check() {
        assert_eq!(
            broken("INSERT INTO t (a, b) VALUES (?1, ?2) ON CONFLICT (a) DO UPDATE SET b = excluded.b"),
            ["?1 => nullif(?1, ?1)", "?2 => nullif(?2, ?2)", "excluded.b => iif(1, b, excluded.b)"]
        );
        assert_eq!(
            broken("UPDATE t SET a = ?2, b = max(b, ?3) WHERE k = ?1"),
            ["?2 => iif(1, a, ?2)", "max(b, ?3) => iif(1, b, max(b, ?3))", "k = ?1 => (k = ?1 OR 1)"]
        );
    }
}
