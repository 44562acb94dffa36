//! The report as one page for people: no network, no other files, readable without scripts.

mod clause;
mod head;
pub(crate) mod words;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::data::{Entry, Report};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Nothing is loaded from anywhere; only what stands in the page itself works.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// `report.html`.
#[must_use]
pub fn page(report: &Report) -> String {
    let standing = words::Standing::of(report);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (report.backend.name) ": " (standing.headline) " · turnkeep conformance" }
                style { (PreEscaped(STYLE)) }
            }
            body data-standing=(standing.class) {
                a.skip href="#clauses" { "Skip to the clauses" }
                (head::head(report, &standing))
                main id="clauses" {
                    (filters(report))
                    div.groups {
                        @for group in groups(report) {
                            (group_section(report, &group))
                        }
                        p.none id="none" hidden { "No clause fits these filters." }
                    }
                }
                footer {
                    p {
                        "Made from " code { "report.json" } " by turnkeep-conformance " (report.suite)
                        ". Clauses: " code title="digest of all clauses" { (report.catalogue) }
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// The clauses by group, in the order in which the groups come.
fn groups(report: &Report) -> Vec<Vec<&Entry>> {
    let mut groups: Vec<Vec<&Entry>> = Vec::new();
    for entry in &report.clauses {
        match groups.iter_mut().find(|group| group[0].promise.group() == entry.promise.group()) {
            Some(group) => group.push(entry),
            None => groups.push(vec![entry]),
        }
    }
    groups
}

fn filters(report: &Report) -> Markup {
    let all = report.clauses.len();
    html! {
        form.filters role="search" aria-label="Filter the clauses" {
            div.row {
                label.field for="search" { span { "Search" }
                    input id="search" type="search" placeholder="word, id or case" autocomplete="off" spellcheck="false";
                }
                label.field for="group" { span { "Group" }
                    select id="group" {
                        option value="" { "All groups" }
                        @for group in groups(report) {
                            @let short = group[0].promise.group();
                            option value=(short) { (short) " · " (words::group(short)) " (" (group.len()) ")" }
                        }
                    }
                }
            }
            div.chips role="group" aria-label="Verdicts" {
                button type="button" data-verdict="" aria-pressed="true" { "All " span.count { (all) } }
                @for shown in words::SHOWN {
                    @let count = report.clauses.iter().filter(|entry| words::Shown::of(entry) == shown).count();
                    @if count > 0 {
                        button type="button" class=(shown.class()) data-verdict=(shown.class()) aria-pressed="false" {
                            (glyph(shown)) " " (shown.word()) " " span.count { (count) }
                        }
                    }
                }
            }
            p.shown role="status" aria-live="polite" {
                span id="shown" { (all) " of " (all) " clauses" }
                button.quiet type="button" id="open-all" { "Open all shown" }
            }
        }
    }
}

fn group_section(report: &Report, group: &[&Entry]) -> Markup {
    let short = group[0].promise.group();
    let kept = group.iter().filter(|entry| words::Shown::of(entry) == words::Shown::Pass).count();
    html! {
        section data-group=(short) aria-labelledby={ "group-" (short) } {
            h2 id={ "group-" (short) } {
                (words::group(short)) " " span.short { (short) }
                span.tally { (kept) " of " (group.len()) " kept" }
            }
            div.list {
                @for entry in group {
                    (clause::clause(report, entry))
                }
            }
        }
    }
}

/// Text in which what stands between backticks is code.
fn prose(text: &str) -> Markup {
    html! {
        @for (at, piece) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}

/// The sign of an answer. The word beside it says the same.
fn glyph(shown: words::Shown) -> Markup {
    html! { span.glyph aria-hidden="true" { (shown.glyph()) } }
}
