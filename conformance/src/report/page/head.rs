//! The top of the page: what came out, of whom, and how it was asked.

use maud::{Markup, html};

use super::super::data::Report;
use super::super::time;
use super::words::{self, Shown, Standing};

pub(super) fn head(report: &Report, standing: &Standing) -> Markup {
    let counts = report.counts();
    let store = report.backend.store.as_ref();
    html! {
        header {
            p.eyebrow { "turnkeep conformance report" }
            h1 {
                (report.backend.name)
                @if let Some(store) = store { " " span.version { (store.version) } }
            }
            @if let Some(store) = store { @if !store.engine.is_empty() { p.engine { (store.engine) } } }
            div.verdict role="status" {
                p.headline id="verdict" { (standing.headline) }
                p.sentence { (standing.sentence) }
                @if counts.should_fail > 0 {
                    p.sentence { (words::number(u64::from(counts.should_fail), "promise"))
                        " that should hold, but need not, " (if counts.should_fail == 1 { "was" } else { "were" }) " not met." }
                }
            }
            (tiles(report))
            (look(report, standing))
            (facts(report))
        }
    }
}

fn tiles(report: &Report) -> Markup {
    let counts = report.counts();
    let open = counts.error + counts.waived + counts.not_run + counts.inconclusive;
    let tile = |class: &str, count: u32, word: &str| {
        html! { li class=(class) { span.figure { (count) } " " span.word { (word) } } }
    };
    html! {
        ul.tiles aria-label="Counts" {
            (tile("pass", counts.pass, "kept"))
            (tile(if counts.fail > 0 { "fail" } else { "calm" }, counts.fail, "broken"))
            (tile("unsupported", counts.unsupported, "not offered"))
            (tile(if open > 0 { "open" } else { "calm" }, open, "without an answer"))
            li.class {
                span.figure { (format!("{:?}", report.backend.durability)) } " "
                span.word { (words::durability(report.backend.durability)) }
            }
        }
    }
}

/// What a person has to look at: each links to its clause.
fn look(report: &Report, standing: &Standing) -> Markup {
    const MOST: usize = 12;
    let entries: Vec<_> = report
        .clauses
        .iter()
        .filter(|entry| {
            matches!(Shown::of(entry), Shown::Fail | Shown::Error | Shown::ShouldFail | Shown::Inconclusive)
        })
        .collect();
    // Each clause with a verdict of its own is listed below; here stand the reasons that are of no clause.
    let general: Vec<String> = standing
        .shortfalls
        .iter()
        .filter(|shortfall| shortfall.clause().is_none())
        .map(|shortfall| capital(&shortfall.to_string()))
        .collect();
    html! {
        @if !general.is_empty() {
            section.look aria-labelledby="reasons" {
                h2 id="reasons" { "Why there is no certificate" }
                ul { @for reason in &general { li { (reason) "." } } }
            }
        }
        @if !entries.is_empty() {
            section.look aria-labelledby="look" {
                h2 id="look" { "What to look at" }
                ul {
                    @for entry in entries.iter().take(MOST) {
                        @let shown = Shown::of(entry);
                        li class=(shown.class()) {
                            a href={ "#" (entry.promise.id) } { (super::glyph(shown)) " " (entry.promise.id) }
                            " " (super::prose(&entry.promise.title))
                        }
                    }
                }
                @if entries.len() > MOST {
                    p { "And " (entries.len() - MOST) " more, below." }
                }
            }
        }
    }
}

fn facts(report: &Report) -> Markup {
    let run = &report.run;
    let took = run.ended.since_ms(run.began).max(0).unsigned_abs();
    let evidence = words::evidence(&report.counted());
    let has = report.backend.capabilities;
    let abilities = [
        ("keeps data", has.persistent),
        ("several processes", has.multi_process),
        ("knows dead owners", has.owner_liveness),
        ("search", has.search),
        ("backup", has.backup),
        ("compaction", has.compact),
    ];
    html! {
        @if !evidence.is_empty() {
            p.evidence { span.label { "The answers rest on" } " "
                @for (at, piece) in evidence.iter().enumerate() {
                    @if at > 0 { ", " }
                    span { (piece) }
                }
                "."
            }
        }
        p.again { span.label { "Ask again" } " " (command(&run.command)) }
        details.facts {
            summary { "How it was asked" }
            dl {
                dt { "Specification" } dd { (report.spec) }
                dt { "Tier" } dd { (run.tier.as_str()) }
                dt { "Seed" } dd { (run.seed) }
                dt { "Budget" } dd { @match run.budget_s { Some(s) => (words::duration(s.saturating_mul(1000))), None => "none" } }
                @if !run.only.is_empty() { dt { "Narrowed to" } dd { (run.only.join(", ")) } }
                dt { "Began" } dd { time { (time::show(run.began)) } }
                dt { "Took" } dd { (words::duration(took)) }
                @if let Some(store) = &report.backend.store {
                    dt { "Format" } dd { @if store.format == 0 { "none" } @else { (store.format) } }
                    dt { "Place" } dd { (store.location) }
                }
                dt { "Offers" } dd { (list(&abilities, true)) }
                dt { "Does not offer" } dd { (list(&abilities, false)) }
                dt { "Payload" } dd { "up to " (words::thousands(report.backend.limits.payload_bytes as u64)) " bytes, depth " (report.backend.limits.payload_depth) }
                dt { "Commit" } dd { "up to " (words::thousands(report.backend.limits.commit_bytes as u64)) " bytes, " (words::thousands(report.backend.limits.commit_ops as u64)) " operations" }
                dt { "Clock" } dd { @if report.backend.policies.clock { "set by the suite" } @else { "the machine's" } }
            }
        }
    }
}

fn list(abilities: &[(&str, bool)], wanted: bool) -> String {
    let names: Vec<&str> =
        abilities.iter().filter(|(_, has)| *has == wanted).map(|(name, _)| *name).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// A command with a button that copies it.
pub(super) fn command(text: &str) -> Markup {
    html! {
        span.command {
            code { (text) }
            button.copy type="button" { "Copy" }
        }
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
