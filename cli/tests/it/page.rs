//! The page of a report, read and clicked in a real browser.

mod browser;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::kit::{Home, Running};
use browser::Browser;

/// The clause that is broken on the page.
const BROKEN: &str = "ORD-005";

/// A page on which one clause is broken, with the tape that shows it. The path of the page.
fn broken_page(home: &Home) -> PathBuf {
    let args = ["certify", "memory:", "--only", "ORD", "--only", "CAP", "--report", "report"];
    let mut command = home.command(&args);
    command.env("TMPDIR", home.path("home"));
    let ran = Running::start(command).end();
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    let folder = home.project().join("report");
    break_one(&folder.join("report.json"));
    let ran = home.run(&["certify", "report", "report"]);
    assert_eq!(ran.code, 17, "{}", ran.err);
    assert!(ran.out.contains("NOT CERTIFIED") && ran.out.contains("ORD-005 is broken"), "{}", ran.out);
    folder.join("report.html")
}

fn break_one(path: &Path) {
    let mut report: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let clauses = report["clauses"].as_array_mut().unwrap();
    let clause = clauses.iter_mut().find(|clause| clause["id"] == BROKEN).unwrap();
    clause["verdict"] = json!("fail");
    clause["detail"] = json!(
        "the newest 3 entries: expected [4, 5, 6], saw [3, 4, 5]\nfirst divergence at step 3 (ordering.rs:211)"
    );
    let append = |text: &str| json!({ "append": { "session": "a.1", "lines": [{ "text": text }] } });
    clause["tape"] = json!({ "version": 1, "clause": BROKEN, "seed": 17, "player": "sequential", "clients": 2, "steps": [
        { "act": { "commit": { "ops": [{ "create": { "session": "a.1" } }, append("one"), append("two")] } } },
        { "client": 1, "act": { "commit": {
            "guards": [{ "no_active_run": { "session": "a.1" } }], "ops": [append("three <b>bold</b>")],
        } } },
        { "act": { "look": { "entries": { "session": "a.1", "latest": 3 } } } },
    ] });
    fs::write(path, serde_json::to_vec(&report).unwrap()).unwrap();
}

#[test]
fn a_failing_clause_is_found_filtered_and_opened_in_a_browser() {
    let home = Home::new();
    let page = broken_page(&home);
    let browser = Browser::start(&home.path("home"));
    browser.open(&page);

    assert_eq!(browser.text("#verdict"), "Not certified");
    assert!(browser.text(".sentence").contains("1 promise is broken"));
    assert_eq!(browser.script("return performance.getEntriesByType('resource').length"), json!(0));

    // A group.
    browser.click("#group option[value=ORD]");
    let shown = browser.visible(".clause");
    assert!(shown.len() >= 8 && shown.iter().all(|id| id.starts_with("ORD-")), "{shown:?}");
    assert!(browser.text("#shown").starts_with(&format!("{} of ", shown.len())));

    // A verdict.
    browser.click(".chips button[data-verdict=fail]");
    assert_eq!(browser.visible(".clause"), [BROKEN]);
    assert_eq!(browser.attribute(".chips button[data-verdict=fail]", "aria-pressed"), "true");

    // The failing clause with its tape, step by step.
    assert!(!browser.is_shown("#ORD-005 .steps"));
    browser.click("#ORD-005 > summary");
    assert!(browser.text("#ORD-005 .detail").contains("expected [4, 5, 6], saw [3, 4, 5]"));
    let steps = browser.texts("#ORD-005 .steps > li");
    assert_eq!(steps.len(), 3);
    assert!(steps[0].starts_with("client 1 commit") && steps[0].contains("create session a.1"), "{steps:?}");
    assert!(steps[1].starts_with("client 2 commit") && steps[1].contains("three <b>bold</b>"), "{steps:?}");
    assert!(steps[2].contains("look"), "{steps:?}");
    let command = browser.text("#ORD-005 .tape .command code");
    assert_eq!(command, "turnkeep certify memory: replay tapes/ORD-005.json");
    browser.click("#ORD-005 .tape .copy");
    let copied = browser.wait_for_text("#ORD-005 .tape .copy", &["Copied", "Selected"]);
    assert!(!copied.is_empty());

    let shots = home.path("shots");
    fs::create_dir(&shots).unwrap();
    for (name, dark, width) in [("light", false, 1200), ("dark", true, 1200), ("narrow", false, 390)] {
        browser.show(dark, width);
        let shot = shots.join(format!("{name}.png"));
        browser.screenshot(&shot);
        assert!(fs::metadata(&shot).unwrap().len() > 10_000, "{name}: an empty picture");
        assert_eq!(browser.script(OVERFLOW), json!(0), "{name}: the page is wider than the screen");
        assert_eq!(browser.script(FAINT), json!([]), "{name}: text that is hard to read");
    }
    // Whoever wants to look at the pictures names a folder for them.
    if let Some(keep) = std::env::var_os("TURNKEEP_KEEP_SCREENSHOTS") {
        fs::create_dir_all(&keep).unwrap();
        for shot in fs::read_dir(&shots).unwrap() {
            let shot = shot.unwrap();
            fs::copy(shot.path(), Path::new(&keep).join(shot.file_name())).unwrap();
        }
    }
    browser.end();
}

#[test]
fn the_page_works_by_keyboard_and_a_link_leads_to_its_clause() {
    let home = Home::new();
    let page = broken_page(&home);
    let browser = Browser::start(&home.path("home"));
    browser.open(&page);

    // The search is one key away, and empties with another.
    browser.keys("body", "/");
    browser.keys(":focus", "newest last");
    let found = browser.visible(".clause");
    assert!(found.contains(&BROKEN.to_owned()) && found.len() < 20, "{found:?}");
    browser.keys("#search", "no such words anywhere");
    assert_eq!(browser.visible(".clause"), Vec::<String>::new());
    assert!(browser.is_shown("#none"));
    browser.keys("#search", ESCAPE);
    assert!(browser.visible(".clause").len() > 100);

    // A clause opens with a key.
    browser.keys("#ID-001 > summary", ENTER);
    assert!(browser.is_shown("#ID-001 dl"));

    // A link shows its clause, though a filter hides it.
    browser.click("#group option[value=ID]");
    assert!(!browser.is_shown("#ORD-005"));
    browser.click(".look a[href='#ORD-005']");
    assert!(browser.is_shown("#ORD-005 .steps"));

    let headings = browser
        .script("return Array.from(document.querySelectorAll('h1,h2,h3')).map((h) => h.tagName[1]).join('')");
    let headings = headings.as_str().unwrap();
    assert!(headings.starts_with('1') && headings.matches('1').count() == 1, "{headings}");
    assert!(!headings.contains("13"), "a level of headings is left out");
    let unnamed = browser.script(UNNAMED);
    assert_eq!(unnamed, json!([]), "fields and buttons without a name");
    browser.end();
}

const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";

/// How many pixels the page is wider than the screen.
const OVERFLOW: &str =
    "return Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)";

/// Fields and buttons that say nothing to somebody who cannot see them.
const UNNAMED: &str = "return Array.from(document.querySelectorAll('input, select, button'))
    .filter((one) => !(one.labels && one.labels.length) && !one.textContent.trim() && !one.getAttribute('aria-label'))
    .map((one) => one.outerHTML)";

/// Texts whose contrast with what is behind them is below 4.5 to 1.
const FAINT: &str = "
    const part = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); };
    const read = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    const behind = (one) => {
        for (let at = one; at; at = at.parentElement) {
            const c = read(getComputedStyle(at).backgroundColor);
            if (c.length === 3 || c[3] === 1) return c;
        }
        return [255, 255, 255];
    };
    const faint = new Set();
    for (const one of document.querySelectorAll('body *')) {
        const own = Array.from(one.childNodes).some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || !one.getClientRects().length) continue;
        const style = getComputedStyle(one);
        const [a, b] = [light(read(style.color)), light(behind(one))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5 && style.visibility === 'visible') faint.add(`${one.className || one.tagName} ${ratio.toFixed(2)}`);
    }
    return Array.from(faint);";
