//! Looks at everything and names what is damaged.

use rusqlite::Connection;
use turnkeep_core::store::{Damage, VerifyReport};
use turnkeep_core::{Payload, Result};

use super::readable::readable;
use crate::error::sql;
use crate::migrate::identity;
use crate::read::Snapshot;

/// Findings of one kind that are named; more say nothing new.
pub(super) const MOST: usize = 100;

/// What must never be found: the place of each row found, and what is wrong there.
const RULES: &[(&str, &str)] = &[
    (
        "has other entries than its head says",
        "SELECT 'session ' || s.id FROM sessions s WHERE s.state <> 'deleted' AND (
             (SELECT count(*) FROM entries e WHERE e.rid > s.skey << 32 AND e.rid <= ((s.skey << 32) | 4294967295))
                 <> coalesce(s.head, 0)
             OR coalesce((SELECT max(e.rid) & 4294967295 FROM entries e WHERE e.rid > s.skey << 32
                 AND e.rid <= ((s.skey << 32) | 4294967295)), 0) <> coalesce(s.head, 0))",
    ),
    (
        "counts other messages than it has",
        "SELECT 'session ' || s.id FROM sessions s WHERE s.state <> 'deleted' AND s.messages <> (
             SELECT count(*) FROM entries e WHERE e.rid > s.skey << 32 AND e.rid <= ((s.skey << 32) | 4294967295)
             AND e.kind = 'message' AND e.visibility = 'conversation')",
    ),
    (
        "has runs beyond its count",
        "SELECT 'session ' || s.id FROM sessions s WHERE s.state <> 'deleted' AND s.runs < coalesce((
             SELECT max(r.rkey) & 4294967295 FROM runs r
             WHERE r.rkey > s.skey << 32 AND r.rkey <= ((s.skey << 32) | 4294967295)), 0)",
    ),
    (
        "names another active run than it has",
        "SELECT 'session ' || s.id FROM sessions s WHERE s.state <> 'deleted' AND s.active_run IS NOT (
             SELECT max(r.id) FROM runs r WHERE r.rkey > s.skey << 32 AND r.rkey <= ((s.skey << 32) | 4294967295)
             AND r.state IN ('pending', 'running', 'waiting_approval', 'waiting_input', 'cancelling'))",
    ),
    (
        "has a leaf or a tip that lies on no path",
        "SELECT 'session ' || s.id FROM sessions s WHERE s.state <> 'deleted' AND (
             (s.leaf IS NOT NULL AND NOT EXISTS (
                 SELECT 1 FROM entries e WHERE e.rid = (s.skey << 32) | s.leaf AND e.on_path = 1))
             OR (s.tip IS NOT NULL AND NOT EXISTS (
                 SELECT 1 FROM entries e WHERE e.rid = (s.skey << 32) | s.tip AND e.on_path = 1)))",
    ),
    (
        "has a leaf or a tip in another segment than it says",
        "SELECT 'session ' || s.id FROM sessions s WHERE s.state <> 'deleted' AND (
             (s.leaf IS NOT NULL AND s.leaf_segment IS NOT (
                 SELECT max(g.first) FROM segments g WHERE g.skey = s.skey AND g.first <= s.leaf))
             OR (s.tip IS NOT NULL AND s.tip_segment IS NOT (
                 SELECT max(g.first) FROM segments g WHERE g.skey = s.skey AND g.first <= s.tip)))",
    ),
    (
        "begins at an entry that does not fit it",
        "SELECT 'session ' || s.id || ', segment ' || g.first FROM segments g JOIN sessions s ON s.skey = g.skey
         LEFT JOIN entries e ON e.rid = (g.skey << 32) | g.first
         WHERE s.state <> 'deleted' AND (e.rid IS NULL OR e.on_path <> 1 OR e.parent IS NOT g.parent
             OR g.parent >= g.first OR g.parent_segment IS NOT (
                 SELECT max(h.first) FROM segments h WHERE h.skey = g.skey AND h.first <= g.parent))",
    ),
    (
        "has a parent that is not older, or lies on a path without a segment",
        "SELECT 'session ' || s.id || ', entry ' || (e.rid & 4294967295) FROM sessions s JOIN entries e
         ON e.rid > s.skey << 32 AND e.rid <= ((s.skey << 32) | 4294967295)
         WHERE s.state <> 'deleted' AND (e.parent >= (e.rid & 4294967295) OR (e.on_path = 1 AND NOT EXISTS (
             SELECT 1 FROM segments g WHERE g.skey = s.skey AND g.first <= (e.rid & 4294967295))))",
    ),
    (
        "has other events than its head and floor say",
        "SELECT 'session ' || s.id || ', stream ' || t.name FROM streams t JOIN sessions s ON s.skey = t.skey
         WHERE s.state <> 'deleted' AND (
             (SELECT count(*) FROM events e WHERE e.stkey = t.stkey) <> t.head - t.floor
             OR coalesce((SELECT max(e.number) FROM events e WHERE e.stkey = t.stkey), t.head) <> t.head)",
    ),
    ("belongs to no session", "SELECT DISTINCT 'entries of session key ' || (rid >> 32) FROM entries
         WHERE rid >> 32 NOT IN (SELECT skey FROM sessions)"),
    ("belongs to no session", "SELECT DISTINCT 'runs of session key ' || (rkey >> 32) FROM runs
         WHERE rkey >> 32 NOT IN (SELECT skey FROM sessions)"),
    ("belongs to no session", "SELECT DISTINCT 'leases of session key ' || skey FROM leases
         WHERE skey <> 0 AND skey NOT IN (SELECT skey FROM sessions)"),
    ("belongs to no session", "SELECT DISTINCT 'requests of session key ' || skey FROM requests
         WHERE skey <> 0 AND skey NOT IN (SELECT skey FROM sessions)"),
    ("belongs to no session", "SELECT DISTINCT 'ordinals of session key ' || owner FROM ordinals
         WHERE owner <> 0 AND owner NOT IN (SELECT skey FROM sessions)"),
    ("has an ordinal beyond the last one given", "SELECT 'record ' || r.collection || ' ' || r.key FROM records r
         LEFT JOIN sessions s ON s.skey = r.owner
         WHERE (s.skey IS NULL OR s.state <> 'deleted') AND r.ordinal > coalesce((SELECT o.last FROM ordinals o
             WHERE o.owner = coalesce(r.owner, 0) AND o.wkey = r.wkey AND o.collection = r.collection), 0)"),
];

/// The same, of tables that format 2 brought.
const RULES_OF_THE_INDEX: &[(&str, &str)] = &[
    (
        "is in the index for searches and not in the store",
        "SELECT DISTINCT 'entries of session key ' || (d.id >> 32)
         FROM search_docsize d WHERE NOT EXISTS (SELECT 1 FROM entries e WHERE e.rid = d.id)",
    ),
    (
        "is indexed for searches beyond its head",
        "SELECT 'session ' || s.id FROM indexed i
         JOIN sessions s ON s.skey = i.skey WHERE i.through > coalesce(s.head, 0)",
    ),
];

/// Where JSON is kept: what to call a row, and its column.
const PAYLOADS: &[&str] = &[
    "SELECT coalesce('session ' || s.id, 'session key ' || (e.rid >> 32)) || ', entry ' || (e.rid & 4294967295), e.payload
     FROM entries e LEFT JOIN sessions s ON s.skey = e.rid >> 32",
    "SELECT coalesce('session ' || s.id || ', stream ' || t.name, 'stream key ' || e.stkey) || ', event ' || e.number,
     e.payload FROM events e LEFT JOIN streams t ON t.stkey = e.stkey LEFT JOIN sessions s ON s.skey = t.skey",
    "SELECT 'record ' || collection || ' ' || key, payload FROM records",
    "SELECT coalesce('meta of session ' || s.id, 'meta of session key ' || m.skey), m.meta
     FROM session_meta m LEFT JOIN sessions s ON s.skey = m.skey",
];

pub(super) fn verify(conn: &Connection) -> Result<VerifyReport> {
    let _snapshot = Snapshot::begin(conn)?;
    let mut report = VerifyReport::default();
    pages(conn, &mut report)?;
    if !report.damage.is_empty() {
        name_trees(conn, &mut report);
        // Counting through damaged pages would only repeat them, or fail. What can be said is what they took away.
        lost(conn, &mut report)?;
        return Ok(report);
    }
    let count = |text: &str| conn.query_row(text, [], |row| row.get::<_, i64>(0)).map_err(sql);
    let (sessions, entries) = (
        count("SELECT count(*) FROM sessions WHERE state <> 'deleted'")?,
        count("SELECT count(*) FROM entries")?,
    );
    report.sessions = sessions.unsigned_abs();
    report.entries = entries.unsigned_abs();
    foreign_keys(conn, &mut report)?;
    // A backup may be of an older format.
    let index = if identity(conn).map_err(sql)?.1 < 2 { &[] } else { RULES_OF_THE_INDEX };
    for (what, text) in RULES.iter().chain(index) {
        let mut statement = conn.prepare(text).map_err(sql)?;
        let places = statement.query_map([], |row| row.get::<_, String>(0)).map_err(sql)?;
        for place in places.take(MOST) {
            report.damage.push(Damage { place: place.map_err(sql)?, what: (*what).to_owned() });
        }
    }
    readable(conn, &mut report)?;
    for text in PAYLOADS {
        payloads(conn, text, &mut report)?;
    }
    Ok(report)
}

/// The engine's own check of every page and index, the one for searches too.
fn pages(conn: &Connection, report: &mut VerifyReport) -> Result<()> {
    let mut damaged = |what: String| report.damage.push(Damage { place: "database pages".to_owned(), what });
    let mut check = || -> rusqlite::Result<()> {
        let mut statement = conn.prepare("PRAGMA integrity_check")?;
        for found in statement.query_map([], |row| row.get::<_, String>(0))? {
            match found? {
                found if found == "ok" => {}
                found => damaged(found),
            }
        }
        Ok(())
    };
    match check() {
        // Damage that the check itself stumbles over is a finding and not the end of it.
        Err(error) if crate::error::kind(&error) == turnkeep_core::ErrorKind::Corrupt => {
            damaged(error.to_string());
            Ok(())
        }
        checked => checked.map_err(sql),
    }
}

/// The engine's check knows tables and indexes by the page that they begin with; people know them by name.
fn name_trees(conn: &Connection, report: &mut VerifyReport) {
    let mut roots = std::collections::HashMap::new();
    // Without the list of tables the findings stay as they are.
    let _ = each(conn, "SELECT rootpage, type || ' ' || name FROM sqlite_schema", [], |row| {
        roots.insert(row.get::<_, i64>(0)?, row.get::<_, String>(1)?);
        Ok(())
    });
    for damage in &mut report.damage {
        let after = damage.what.split_once("Tree ").map(|(_, after)| after);
        let root = after.and_then(|after| after.split(' ').next()).and_then(|root| root.parse().ok());
        if let Some(name) = root.and_then(|root: i64| roots.get(&root)) {
            damage.place = format!("pages of {name}");
        }
    }
}

/// Names the sessions whose entries or runs cannot be read to the end.
fn lost(conn: &Connection, report: &mut VerifyReport) -> Result<()> {
    const BELOW: [(&str, &str); 2] = [
        (
            "entries",
            "SELECT rid & 4294967295, payload FROM entries WHERE rid > ?1 AND rid <= ?2 ORDER BY rid",
        ),
        ("runs", "SELECT rkey & 4294967295, id FROM runs WHERE rkey > ?1 AND rkey <= ?2 ORDER BY rkey"),
    ];
    let mut sessions = Vec::new();
    let listed = each(conn, "SELECT skey, id FROM sessions WHERE state <> 'deleted'", [], |row| {
        sessions.push((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
        Ok(())
    })?;
    if let Some(error) = listed {
        let place = "table sessions".to_owned();
        report.damage.push(Damage { place, what: format!("cannot be read to the end: {error}") });
    }
    for (skey, id) in sessions {
        for (table, text) in BELOW {
            let mut last = 0_i64;
            let read = each(conn, text, [skey << 32, (skey << 32) | i64::from(u32::MAX)], |row| {
                row.get_ref(1)?;
                last = row.get(0)?;
                Ok(())
            })?;
            if let Some(error) = read {
                let place = format!("session {id}, {table} after {last}");
                report.damage.push(Damage { place, what: format!("cannot be read: {error}") });
            }
        }
    }
    Ok(())
}

/// Walks over rows, and answers where damage ended the walk.
fn each(
    conn: &Connection,
    text: &str,
    values: impl rusqlite::Params,
    mut row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<()>,
) -> Result<Option<rusqlite::Error>> {
    let walk = || -> rusqlite::Result<()> {
        let mut statement = conn.prepare(text)?;
        let mut rows = statement.query(values)?;
        while let Some(found) = rows.next()? {
            row(found)?;
        }
        Ok(())
    };
    match walk() {
        Ok(()) => Ok(None),
        Err(error) if crate::error::kind(&error) == turnkeep_core::ErrorKind::Corrupt => Ok(Some(error)),
        Err(error) => Err(sql(error)),
    }
}

fn foreign_keys(conn: &Connection, report: &mut VerifyReport) -> Result<()> {
    let mut statement = conn.prepare("PRAGMA foreign_key_check").map_err(sql)?;
    let found = statement
        .query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, String>(2)?))
        })
        .map_err(sql)?;
    for found in found.take(MOST) {
        let (table, row, parent) = found.map_err(sql)?;
        let row = row.map_or_else(String::new, |row| format!(" {row}"));
        let what = format!("names a row of {parent} that is not there");
        report.damage.push(Damage { place: format!("{table}{row}"), what });
    }
    Ok(())
}

/// A payload was checked when it was written, so one that is no JSON now was changed by something else.
fn payloads(conn: &Connection, text: &str, report: &mut VerifyReport) -> Result<()> {
    let mut statement = conn.prepare(text).map_err(sql)?;
    let mut rows = statement.query([]).map_err(sql)?;
    let mut found = 0;
    while let Some(row) = rows.next().map_err(sql)? {
        let bytes = row.get_ref(1).map_err(sql)?.as_bytes().unwrap_or_default();
        let whole = std::str::from_utf8(bytes).is_ok_and(|json| Payload::new(json).is_ok());
        if !whole && found < MOST {
            found += 1;
            let what = "holds a payload that is no valid JSON any more".to_owned();
            report.damage.push(Damage { place: row.get(0).map_err(sql)?, what });
        }
    }
    Ok(())
}
