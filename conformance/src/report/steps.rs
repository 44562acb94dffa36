//! A tape as lines for people. It reads the JSON, not the types, so that a tape of another version shows, too.

use serde_json::{Map, Value};

/// One step of a tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Which client, where it is said.
    pub(crate) who: Option<String>,
    /// What it does, in one or two words.
    pub(crate) what: String,
    /// With what: a line each.
    pub(crate) with: Vec<String>,
}

impl Step {
    /// The step on one line.
    pub(crate) fn line(&self, number: usize) -> String {
        let who = self.who.as_ref().map(|who| format!("{who}: ")).unwrap_or_default();
        let line = format!("{number:>3} {who}{} {}", self.what, self.with.join("; "));
        line.trim_end().to_owned()
    }
}

/// The steps of a tape.
pub(crate) fn steps(tape: &Value) -> Vec<Step> {
    let steps = tape.get("steps").unwrap_or(tape);
    match steps {
        Value::Array(steps) => steps.iter().map(step).collect(),
        other => vec![step(other)],
    }
}

fn step(value: &Value) -> Step {
    let Some(fields) = value.as_object() else {
        return Step { who: None, what: words(value, true), with: Vec::new() };
    };
    let Some(act) = fields.get("act") else { return named(value, None) };
    // The first client is the one that is left out.
    let client = fields.get("client").and_then(Value::as_u64).unwrap_or(0);
    named(act, Some(format!("client {}", client + 1)))
}

/// `"reopen"`, or `{"clock": 5}`: a name, and what belongs to it.
fn named(act: &Value, who: Option<String>) -> Step {
    match act {
        Value::Object(fields) if fields.len() == 1 => {
            let (name, content) =
                fields.iter().next().map_or(("", &Value::Null), |(name, content)| (name, content));
            let with = match (name, content) {
                ("commit", Value::Object(change)) => commit(change),
                (_, Value::Null) => Vec::new(),
                (_, content) => vec![words(content, true)],
            };
            Step { who, what: name.replace('_', " "), with }
        }
        other => Step { who, what: words(other, true), with: Vec::new() },
    }
}

/// A commit: what must be so, and what it does, each on a line.
fn commit(change: &Map<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, label) in [("request", "request"), ("fences", "fence"), ("guards", "if"), ("ops", "")] {
        let values: Vec<&Value> = match change.get(name) {
            Some(Value::Array(values)) => values.iter().collect(),
            Some(value) => vec![value],
            None => continue,
        };
        lines.extend(
            values.into_iter().map(|value| format!("{label} {}", words(value, true)).trim().to_owned()),
        );
    }
    let known = ["request", "fences", "guards", "ops"];
    let others = change.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    lines.extend(others.map(|(name, value)| format!("{name} {}", words(value, true))));
    lines
}

/// A value in words: `{"append": {"session": "a.1"}}` is `append session a.1`.
fn words(value: &Value, outside: bool) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(|value| words(value, false)).collect();
            format!("[{}]", values.join("; "))
        }
        Value::Object(fields) if fields.len() == 1 => {
            fields.iter().next().map_or_else(String::new, |(name, value)| {
                format!("{} {}", name.replace('_', " "), words(value, outside))
            })
        }
        Value::Object(fields) => {
            // Of whom it is said comes first.
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name != "session");
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{} {}", name.replace('_', " "), words(value, false)))
                .collect();
            let fields = fields.join(", ");
            if outside { fields } else { format!("({fields})") }
        }
        other => other.to_string(),
    }
}

/// Whether a text can stand among words without quotes.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/#:".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tape_reads_as_who_does_what_with_what() {
        let tape = json!({ "version": 1, "steps": [
            { "act": { "commit": {
                "guards": [{ "leaf": { "session": "a.1", "leaf": null } }],
                "ops": [{ "create": { "session": "a.1" } }, { "append": { "session": "a.1", "lines": [{ "text": "a b" }] } }],
            } } },
            { "client": 1, "act": "reopen" },
            { "client": 1, "act": { "clock": -5 } },
        ] });
        let steps = steps(&tape);
        assert_eq!(steps[0].who.as_deref(), Some("client 1"));
        assert_eq!(steps[0].what, "commit");
        assert_eq!(
            steps[0].with,
            [
                "if leaf session a.1, leaf null",
                "create session a.1",
                "append session a.1, lines [text \"a b\"]"
            ]
        );
        assert_eq!((steps[1].who.as_deref(), steps[1].what.as_str()), (Some("client 2"), "reopen"));
        assert_eq!((steps[2].what.as_str(), steps[2].with.join("")), ("clock", "-5".to_owned()));
    }

    #[test]
    fn what_is_no_tape_is_shown_all_the_same() {
        assert_eq!(steps(&json!("torn"))[0].what, "torn");
        assert_eq!(steps(&json!({ "cut": 3, "torn": true }))[0].what, "cut 3, torn true");
        assert_eq!(steps(&json!([1, 2])).len(), 2);
    }
}
