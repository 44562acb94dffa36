//! `list` and `explain`: what there is, without opening anything.

use std::io::Write;

use serde_json::json;

use super::Host;
use super::ending::{Ending, Trouble};
use super::line;
use crate::catalogue::Promise;
use crate::clause::{Clause, Kind};
use crate::registry;
use crate::report::words;

/// `list [GROUP]`
pub(super) fn list(group: Option<&str>, host: &Host<'_>, out: &mut dyn Write) -> Result<Ending, Trouble> {
    let wanted =
        |clause: &&'static Clause| group.is_none_or(|name| name == clause.group() || name == clause.id);
    if host.json {
        let promises: Vec<Promise> = registry::all().filter(wanted).map(Promise::from).collect();
        writeln!(out, "{:#}", json!({ "clauses": promises }))?;
        return Ok(Ending::Done);
    }
    let mut before = "";
    for clause in registry::all().filter(wanted) {
        let group = clause.group();
        if group != before {
            let gap = if before.is_empty() { "" } else { "\n" };
            writeln!(out, "{gap}{group}  {}", words::group(group))?;
            before = group;
        }
        writeln!(out, "  {}  {:<6}  {}", clause.id, clause.level.as_str(), clause.title)?;
    }
    Ok(Ending::Done)
}

/// `explain ID`
pub(super) fn explain(id: &str, host: &Host<'_>, out: &mut dyn Write) -> Result<Ending, Trouble> {
    let clause = line::clause(id).map_err(Trouble::NotFound)?;
    if host.json {
        writeln!(out, "{:#}", json!({ "clause": Promise::from(clause) }))?;
        return Ok(Ending::Done);
    }
    writeln!(out, "{}  {}", clause.id, words::group(clause.group()))?;
    writeln!(out, "{}", clause.title)?;
    writeln!(out)?;
    let chance = match clause.kind {
        Kind::Deterministic => "one run decides",
        Kind::Stochastic => "depends on timing: a pass is evidence that grows with runs, a failure is proof",
    };
    let needs: Vec<&str> = clause.needs.iter().map(|need| need.as_str()).collect();
    let class = format!("{:?}: {}", clause.durability, words::durability(clause.durability));
    let pairs = [
        ("level", format!("{} (since specification {})", clause.level.as_str(), clause.since)),
        ("kind", chance.to_owned()),
        ("needs", needs.join(", ")),
        ("from", if clause.durability > turnkeep_core::Durability::D0 { class } else { String::new() }),
        ("why", clause.why.to_owned()),
        ("catches", clause.catches.to_owned()),
        ("seen in", clause.links.join(", ")),
        ("covers", clause.cases.join(", ")),
        ("time", format!("at most {}", words::duration(crate::report::millis(clause.timeout)))),
        ("ask", format!("{} --only {}", host.program, clause.id)),
    ];
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(out, "{name:<8} {value}")?;
    }
    Ok(Ending::Done)
}
