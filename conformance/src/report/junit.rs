//! The report as a junit file, for the programs that show test results.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::data::{Entry, Report};
use crate::clause::Level;
use crate::verdict::Verdict;

/// One suite per group, one case per clause. A broken promise that only should hold is shown as skipped: it is no
/// failure of the backend.
///
/// # Errors
/// Never: the text is written to memory.
pub fn junit(report: &Report) -> io::Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let entries: Vec<&Entry> = report.clauses.iter().collect();
    let name = format!("turnkeep conformance of {}", report.backend.name);
    let all = Sum::of(&entries);
    writer
        .create_element("testsuites")
        .with_attributes([("name", legal(&name).as_str())])
        .with_attributes(all.attributes().iter().map(|(name, value)| (*name, value.as_str())))
        .write_inner_content(|writer| {
            for group in groups(&entries) {
                write_group(writer, report, &group)?;
            }
            Ok(())
        })?;
    String::from_utf8(writer.into_inner()).map_err(io::Error::other)
}

/// The clauses by group, in the order in which the groups come.
fn groups<'a>(entries: &[&'a Entry]) -> Vec<Vec<&'a Entry>> {
    let mut groups: Vec<Vec<&Entry>> = Vec::new();
    for entry in entries {
        match groups.iter_mut().find(|group| group[0].promise.group() == entry.promise.group()) {
            Some(group) => group.push(entry),
            None => groups.push(vec![entry]),
        }
    }
    groups
}

fn write_group(writer: &mut Writer<Vec<u8>>, report: &Report, group: &[&Entry]) -> io::Result<()> {
    let began = super::time::show(report.run.began);
    let sum = Sum::of(group);
    writer
        .create_element("testsuite")
        .with_attributes([("name", legal(group[0].promise.group()).as_str()), ("timestamp", began.as_str())])
        .with_attributes(sum.attributes().iter().map(|(name, value)| (*name, value.as_str())))
        .write_inner_content(|writer| {
            for entry in group {
                write_case(writer, report, entry)?;
            }
            Ok(())
        })?;
    Ok(())
}

fn write_case(writer: &mut Writer<Vec<u8>>, report: &Report, entry: &Entry) -> io::Result<()> {
    let class = legal(&format!("{}.{}", report.backend.name, entry.promise.group()));
    let name = legal(&format!("{} {}", entry.promise.id, entry.promise.title));
    let time = seconds(entry.elapsed_ms);
    let case = writer.create_element("testcase").with_attributes([
        ("classname", class.as_str()),
        ("name", name.as_str()),
        ("time", time.as_str()),
    ]);
    match Shown::of(entry) {
        Shown::Passed => case.write_empty()?,
        shown => case.write_inner_content(|writer| {
            let message =
                legal(&format!("{}: {}", entry.verdict.as_str(), first_line(entry.verdict.detail())));
            let element =
                writer.create_element(shown.element()).with_attribute(("message", message.as_str()));
            match shown {
                Shown::Skipped => element.write_empty()?,
                _ => element.write_text_content(BytesText::new(&legal(&long(report, entry))))?,
            };
            Ok(())
        })?,
    };
    Ok(())
}

/// How junit shows an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Passed,
    Skipped,
    Failed,
    Error,
}

impl Shown {
    fn of(entry: &Entry) -> Self {
        match (&entry.verdict, entry.promise.level) {
            (Verdict::Pass, _) => Self::Passed,
            (Verdict::Fail(_), Level::Must) => Self::Failed,
            (Verdict::Error(_) | Verdict::Inconclusive(_), _) => Self::Error,
            (Verdict::Fail(_) | Verdict::Unsupported(_) | Verdict::Waived(_) | Verdict::NotRun(_), _) => {
                Self::Skipped
            }
        }
    }

    const fn element(self) -> &'static str {
        match self {
            Self::Passed | Self::Skipped => "skipped",
            Self::Failed => "failure",
            Self::Error => "error",
        }
    }
}

/// What junit wants to know of several cases.
struct Sum {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
    elapsed_ms: u64,
}

impl Sum {
    fn of(entries: &[&Entry]) -> Self {
        let count = |shown| entries.iter().filter(|entry| Shown::of(entry) == shown).count();
        Self {
            tests: entries.len(),
            failures: count(Shown::Failed),
            errors: count(Shown::Error),
            skipped: count(Shown::Skipped),
            elapsed_ms: entries.iter().map(|entry| entry.elapsed_ms).sum(),
        }
    }

    fn attributes(&self) -> [(&'static str, String); 5] {
        [
            ("tests", self.tests.to_string()),
            ("failures", self.failures.to_string()),
            ("errors", self.errors.to_string()),
            ("skipped", self.skipped.to_string()),
            ("time", seconds(self.elapsed_ms)),
        ]
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// All there is to say about a failure.
fn long(report: &Report, entry: &Entry) -> String {
    let mut text = format!("{}\nwhy: {}", entry.verdict.detail(), entry.promise.why);
    if let Some(tape) = &entry.tape {
        text.push_str(&format!("\ntape: {tape}"));
    }
    if let Some(again) = report.again(entry) {
        text.push_str(&format!("\nagain: {again}"));
    }
    text
}

/// Text without the characters that XML has no form for, not even an escaped one. They become visible.
fn legal(text: &str) -> String {
    let mut legal = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}' => {
                legal.push(c)
            }
            other => legal.extend(other.escape_unicode()),
        }
    }
    legal
}
