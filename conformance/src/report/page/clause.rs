//! One clause: a line that opens to all that is known about it.

use maud::{Markup, html};
use turnkeep_core::Durability;

use super::super::data::{Entry, Report};
use super::super::steps::steps;
use super::head::command;
use super::words::{self, Shown};
use crate::clause::{Kind, Level};

pub(super) fn clause(report: &Report, entry: &Entry) -> Markup {
    let promise = &entry.promise;
    let shown = Shown::of(entry);
    let detail = entry.verdict.detail();
    html! {
        details.clause id=(promise.id) data-verdict=(shown.class()) data-text=(searchable(entry)) {
            summary {
                span.badge.(shown.class()) { (super::glyph(shown)) " " (shown.word()) }
                span.id { (promise.id) }
                span.title { (super::prose(&promise.title)) @if promise.level == Level::Should { " " span.level { "should" } } }
                span.took { (words::duration(entry.elapsed_ms)) }
                @if shown.needs_a_look() && !detail.is_empty() {
                    span.first { (detail.lines().next().unwrap_or_default()) }
                }
            }
            div.body {
                @if !detail.is_empty() {
                    h3 { (heading(shown)) }
                    pre.detail tabindex="0" { (detail) }
                } @else {
                    p { (shown.meaning()) }
                }
                (tape(report, entry))
                @if shown.needs_a_look() {
                    @if let Some(again) = report.again(entry) {
                        h3 { "Ask this clause again" }
                        p { (command(&again)) }
                    }
                }
                dl {
                    dt { "Why it matters" } dd { (super::prose(&promise.why)) }
                    dt { "Catches" } dd { (super::prose(&promise.catches)) }
                    @if !promise.links.is_empty() {
                        dt { "Seen elsewhere" }
                        dd.links { @for link in &promise.links { (report_link(link)) " " } }
                    }
                    @if !promise.cases.is_empty() { dt { "Covers" } dd { (promise.cases.join(", ")) } }
                    @if !promise.needs.is_empty() {
                        dt { "Needs" } dd { (promise.needs.iter().map(|need| need.as_str()).collect::<Vec<_>>().join(", ")) }
                    }
                    @if promise.durability > Durability::D0 {
                        dt { "Applies from" } dd { (format!("{:?}", promise.durability)) ": " (words::durability(promise.durability)) }
                    }
                    @if !entry.counted.is_empty() {
                        dt { "Rests on" } dd { (words::evidence(&entry.counted).join(", ")) }
                    }
                    @if promise.kind == Kind::Stochastic {
                        dt { "Chance" } dd { "depends on timing; asked " (times(entry.rounds)) ", seed " (entry.seed) }
                    }
                }
            }
        }
    }
}

fn heading(shown: Shown) -> &'static str {
    match shown {
        Shown::Fail | Shown::ShouldFail => "What was seen",
        Shown::Error => "What went wrong",
        Shown::Unsupported => "What was confirmed",
        _ => "What was said",
    }
}

fn times(rounds: u32) -> String {
    if rounds == 1 { "once".to_owned() } else { format!("{} times", words::thousands(u64::from(rounds))) }
}

/// The shortest tape that shows a failure, step by step, and how to play it again.
fn tape(report: &Report, entry: &Entry) -> Markup {
    let Some(tape) = &entry.tape else { return html! {} };
    let steps = steps(tape);
    html! {
        div.tape {
            h3 { "Shortest tape that shows it: " (words::number(steps.len() as u64, "step")) }
            ol.steps {
                @for step in &steps {
                    li { @if let Some(who) = &step.who { span.who { (who) } " " } span.what { (step.what) }
                        @if !step.with.is_empty() { ul.with { @for line in &step.with { li { (line) } } } } }
                }
            }
            @if let Some(replay) = report.replay(entry) {
                h3 { "Play it again, in the folder of this report" }
                p { (command(&replay)) }
            }
            details.raw { summary { "The tape as JSON" } pre tabindex="0" { (format!("{tape:#}")) } }
        }
    }
}

/// Where somebody reported it, as a link if it has the form of one.
fn report_link(link: &str) -> Markup {
    let plain =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    let place = link.split_once('#').and_then(|(repository, number)| {
        let (owner, name) = repository.split_once('/')?;
        (plain(owner) && plain(name) && number.parse::<u64>().is_ok()).then_some((repository, number))
    });
    html! {
        @match place {
            Some((repository, number)) => {
                a href={ "https://github.com/" (repository) "/issues/" (number) } rel="noopener noreferrer" target="_blank" { (link) }
            }
            None => (link),
        }
    }
}

/// What the search looks at, in small letters.
fn searchable(entry: &Entry) -> String {
    let promise = &entry.promise;
    [
        promise.id.as_str(),
        &promise.title,
        &promise.why,
        &promise.catches,
        &promise.cases.join(" "),
        &promise.links.join(" "),
        entry.verdict.as_str(),
        entry.verdict.detail(),
    ]
    .join(" ")
    .to_lowercase()
}
