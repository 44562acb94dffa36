//! The report of a broken store: a real failing tape, and the page, read and clicked in a real browser.

mod browser;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use serde_json::json;
use tempfile::TempDir;
use turnkeep_conformance::certify::{self, Options};
use turnkeep_conformance::report::{self, Report, Shortfall};
use turnkeep_conformance::runner::Settings;
use turnkeep_conformance::{Harness, Manifest, OpenWith, Site, Tier, Verdict, registry, tape};
use turnkeep_core::{Result, Store};
use turnkeep_harnesses::MemoryHarness;
use turnkeep_memory::MemoryOptions;

use browser::Browser;

/// The clause that plays tapes, and catches this store with one.
const BROKEN: &str = "MOD-001";

/// A store whose clients do not see each other's work: each handle has a store of its own.
#[derive(Debug, Default)]
struct Apart(MemoryHarness);

#[async_trait]
impl Harness for Apart {
    fn manifest(&self) -> Manifest {
        self.0.manifest()
    }

    async fn provision(&self) -> Result<Site> {
        self.0.provision().await
    }

    async fn open(&self, _: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        let options = MemoryOptions::new();
        let options = match with.clock {
            Some(clock) => options.clock(clock),
            None => options,
        };
        Ok(Arc::new(options.build()))
    }

    async fn destroy(&self, site: &Site) -> Result<()> {
        self.0.destroy(site).await
    }
}

/// What the suite finds about it. Asked once, because making a tape short takes a moment.
fn found() -> &'static Report {
    static FOUND: OnceLock<Report> = OnceLock::new();
    FOUND.get_or_init(|| {
        let options = Options {
            tier: Tier::Smoke,
            only: ["MOD-001", "ORD", "BRA", "CAP-001"].map(str::to_owned).to_vec(),
            program: Some("certify-apart".to_owned()),
            command: "certify-apart --tier smoke --seed 0".to_owned(),
            ..Options::default()
        };
        let harness: Arc<dyn Harness> = Arc::new(Apart::default());
        certify::run(&harness, &options, &AtomicBool::new(false), &|_| {})
    })
}

/// Its page.
fn broken_page() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let files = report::write(found(), folder.path()).unwrap();
    assert!(files.certificate.is_none());
    (folder, files.page)
}

#[test]
fn a_broken_store_is_shown_by_a_short_tape_that_can_be_played_again() {
    let (folder, _page) = broken_page();
    let entry = found().entry(BROKEN).unwrap();
    assert!(matches!(&entry.verdict, Verdict::Fail(_)), "{}", entry.verdict);
    assert!(found().shortfalls().contains(&Shortfall::Broken { id: BROKEN.to_owned() }));
    let file = fs::read_to_string(folder.path().join("tapes/MOD-001.json")).unwrap();
    let steps = entry.tape.as_ref().unwrap()["steps"].as_array().unwrap().len();
    assert!((1..=4).contains(&steps), "one client's work and another one's look are enough: {file}");
    let clause = tape::clause_of(&file).unwrap();
    assert_eq!(clause.id, BROKEN);
    let again = tape::replay(Arc::new(Apart::default()), &file, Settings::of(clause));
    assert!(matches!(again.verdict, Verdict::Fail(_)), "{}", again.verdict);
    let whole = tape::replay(Arc::new(MemoryHarness), &file, Settings::of(clause));
    assert_eq!(whole.verdict, Verdict::Pass);
}

#[test]
fn a_failing_clause_is_found_filtered_and_opened_in_a_browser() {
    let (folder, page) = broken_page();
    let browser = Browser::start(folder.path());
    browser.open(&page);

    assert_eq!(browser.text("#verdict"), "Not certified");
    let broken = found().counts().fail;
    let sentence = browser.text(".sentence");
    assert!(
        sentence.starts_with(&format!("{broken} promise")) && sentence.ends_with("broken."),
        "{sentence}"
    );
    assert_eq!(browser.script("return performance.getEntriesByType('resource').length"), json!(0));

    // A group.
    browser.click("#group option[value=ORD]");
    let shown = browser.visible(".clause");
    let all = registry::all().filter(|clause| clause.group() == "ORD").map(|clause| clause.id);
    assert_eq!(shown, all.collect::<Vec<_>>());
    assert!(browser.text("#shown").starts_with(&format!("{} of ", shown.len())));

    // A verdict.
    browser.click("#group option[value=MOD]");
    browser.click(".chips button[data-verdict=fail]");
    assert_eq!(browser.visible(".clause"), [BROKEN]);
    assert_eq!(browser.attribute(".chips button[data-verdict=fail]", "aria-pressed"), "true");

    // The failing clause with its tape, step by step.
    assert!(!browser.is_shown("#MOD-001 .steps"));
    browser.click("#MOD-001 > summary");
    let entry = found().entry(BROKEN).unwrap();
    let seen = browser.text("#MOD-001 .detail");
    let said = entry.verdict.detail().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(seen, said);
    let steps = browser.texts("#MOD-001 .steps > li");
    assert_eq!(steps.len(), entry.tape.as_ref().unwrap()["steps"].as_array().unwrap().len());
    assert!(steps.iter().all(|step| step.starts_with("client ")), "{steps:?}");
    assert!(steps.iter().any(|step| step.contains("commit")), "{steps:?}");
    let command = browser.text("#MOD-001 .tape .command code");
    assert_eq!(command, "certify-apart replay tapes/MOD-001.json");
    browser.click("#MOD-001 .tape .copy");
    let copied = browser.wait_for_text("#MOD-001 .tape .copy", &["Copied", "Selected"]);
    assert!(!copied.is_empty());

    let shots = folder.path().join("shots");
    fs::create_dir(&shots).unwrap();
    for (name, dark, width) in [("light", false, 1200), ("dark", true, 1200), ("narrow", false, 390)] {
        browser.show(dark, width);
        let shot = shots.join(format!("{name}.png"));
        browser.screenshot(&shot);
        assert!(fs::metadata(&shot).unwrap().len() > 10_000, "{name}: an empty picture");
        assert_eq!(browser.script(OVERFLOW), json!(0), "{name}: the page is wider than the screen");
        assert_eq!(browser.script(FAINT), json!([]), "{name}: text that is hard to read");
        browser.script("document.querySelector('#MOD-001').scrollIntoView()");
        browser.screenshot(&shots.join(format!("{name}-tape.png")));
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
    let (folder, page) = broken_page();
    let browser = Browser::start(folder.path());
    browser.open(&page);

    // The search is one key away, and empties with another.
    browser.keys("body", "/");
    browser.keys(":focus", "newest last");
    let found = browser.visible(".clause");
    assert!(found.contains(&"ORD-005".to_owned()) && found.len() < 20, "{found:?}");
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
    assert!(!browser.is_shown("#MOD-001"));
    browser.click(".look a[href='#MOD-001']");
    assert!(browser.is_shown("#MOD-001 .steps"));

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
