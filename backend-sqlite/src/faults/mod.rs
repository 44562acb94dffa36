//! Deliberate faults in our SQL: see `turnkeep_core::mutant`. A fault takes a piece of a statement out, or puts another
//! one there, so that the statements themselves stay as they are.

mod checks;

use std::borrow::Cow;
use std::panic::Location;

use turnkeep_core::mutant;

/// A fault of one statement.
struct Fault {
    name: &'static str,
    /// Words that only this statement has.
    of: &'static str,
    /// The piece that is replaced, once,
    piece: &'static str,
    /// by this one.
    by: &'static str,
}

const fn fault(name: &'static str, of: &'static str, piece: &'static str, by: &'static str) -> Fault {
    Fault { name, of, piece, by }
}

const FAULTS: &[Fault] = &[
    // What reads find.
    fault("sqlite/reads-what-is-built", "SELECT s.skey, s.leaf", " AND s.state = 'active'", ""),
    fault("sqlite/any-life-is-read", "SELECT s.skey, s.leaf", "s.incarnation = ?3", "?3 IS NOT NULL"),
    fault("sqlite/records-of-the-dead", "FROM records r INDEXED BY", "o.state = 'active'", "1"),
    fault("sqlite/rows-of-every-owner", "FROM records r LEFT JOIN", "r.owner IS NULL", "1"),
    fault("sqlite/runs-backwards", "CROSS JOIN runs r", "ORDER BY r.rkey DESC", "ORDER BY r.rkey"),
    fault("sqlite/page-begins-with-the-last", "AND (s.activity < ", "(s.activity < ", "(s.activity <= "),
    fault("sqlite/recent-by-id", "ORDER BY s.activity DESC", "s.activity DESC, s.id", "s.id"),
    fault("sqlite/unowned-changes-unseen", "SELECT w.touches + max", "w.touches + ", ""),
    fault("sqlite/entries-by-time", "FROM entries NOT INDEXED", "ORDER BY rid", "ORDER BY at"),
    // What the rules are told.
    fault("sqlite/key-of-any-session", "SELECT rid FROM entries WHERE rid >> 32", "rid >> 32 = ?1", "?1 > 0"),
    fault(
        "sqlite/attempt-is-the-oldest",
        "SELECT id, attempt FROM runs",
        "attempt DESC, rkey DESC",
        "attempt",
    ),
    fault("sqlite/receipt-outlives-its-session", "FROM requests q", "o.state <> 'deleted'", "1"),
    fault("sqlite/record-of-any-workspace", "r.collection = ?2 AND r.key = ?3", "r.wkey = ?1", "?1 > 0"),
    fault("sqlite/message-of-any-kind-counted", "SELECT count(*) FILTER", "kind = 'message' AND ", ""),
    // What is written.
    fault("sqlite/payload-rewritten", "INSERT INTO entries (rid, parent", "?13)", "json(?13))"),
    fault("sqlite/empty-text-is-none", "INSERT INTO entries (rid, parent", "?12,", "nullif(?12, ''),"),
    fault("sqlite/times-in-seconds", "INSERT INTO entries (rid, parent", "?10,", "?10 / 1000 * 1000,"),
    fault("sqlite/lease-keeps-its-epoch", "INSERT INTO leases", "epoch = excluded.epoch, ", ""),
    fault(
        "sqlite/run-stays-active",
        "UPDATE sessions SET revision",
        "active_run = ?10",
        "active_run = coalesce(?10, active_run)",
    ),
    fault("sqlite/places-alike", "INSERT INTO ordinals", "UPDATE SET last = excluded.last", "NOTHING"),
    fault(
        "sqlite/batch-forgotten",
        "INSERT INTO streams",
        "batch_first = excluded.batch_first",
        "batch_first = 0",
    ),
    fault(
        "sqlite/meta-written-once",
        "INSERT INTO session_meta",
        "UPDATE SET meta = excluded.meta",
        "NOTHING",
    ),
    fault("sqlite/drops-one-too-many", "DELETE FROM events WHERE stkey", "number <= ?2", "number <= ?2 + 1"),
    fault("sqlite/deleted-by-id-only", "UPDATE sessions SET state = 'deleted'", "'deleted'", "'restoring'"),
    // What is copied.
    fault(
        "sqlite/slice-without-its-last",
        "INSERT INTO entries (rid, parent, on_path",
        "rid <= ?2",
        "rid < ?2",
    ),
    fault("sqlite/branches-not-copied", "INSERT INTO segments", "first > ?3", "0 AND first > ?3"),
    fault("sqlite/fork-without-runs", "FROM (SELECT DISTINCT run", "= ?4", "= -1 AND ?4"),
    fault("sqlite/run-copied-active", "FROM (SELECT DISTINCT run", "THEN 'interrupted'", "THEN r.state"),
    // What is removed.
    fault("sqlite/purge-forgets-events", "DELETE FROM events WHERE ekey", "t.skey = ?1", "t.skey = -?1"),
    fault("sqlite/purge-forgets-the-index", "DELETE FROM search WHERE", "rowid <= ?2", "?2 < 0"),
    fault("sqlite/purge-forgets-segments", "DELETE FROM segments", "skey = ?1", "skey = -?1"),
    fault("sqlite/purge-takes-neighbours", "DELETE FROM entries WHERE rid", "rid <= ?2", "?2 > 0"),
    fault(
        "sqlite/no-checkpoint",
        "PRAGMA wal_checkpoint(PASSIVE)",
        "PRAGMA wal_checkpoint(PASSIVE)",
        "SELECT 1",
    ),
];

/// The text of a statement that is prepared at a place, with the fault that this process commits.
pub(crate) fn in_statement<'t>(text: &'t str, place: &Location<'_>) -> Cow<'t, str> {
    checks::list(text, place);
    if let Some(broken) = checks::broken(text, place) {
        return Cow::Owned(broken);
    }
    match FAULTS.iter().find(|fault| mutant::is(fault.name) && text.contains(fault.of)) {
        Some(fault) => Cow::Owned(text.replacen(fault.piece, fault.by, 1)),
        None => Cow::Borrowed(text),
    }
}
