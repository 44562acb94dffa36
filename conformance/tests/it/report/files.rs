//! The folder of a report: the source, the page, the junit file, the certificate, the tapes.

use std::fs;

use quick_xml::Reader;
use quick_xml::events::Event;
use turnkeep_conformance::report::{self, Report, junit, page, read, read_certificate, verify, write};
use turnkeep_conformance::{Level, Verdict, registry};

use super::made::{broken, passed, with};

#[test]
fn a_report_reads_back_as_it_was_and_gives_the_same_bytes() {
    for report in [passed(), broken()] {
        let json = report.to_json().unwrap();
        let back: Report = serde_json::from_str(&json).unwrap();
        assert_eq!(back, report);
        assert_eq!(back.to_json().unwrap(), json);
        assert!(json.contains("\"began\": \"2023-11-14T22:13:20Z\""));
    }
}

#[test]
fn an_old_certificate_and_old_tapes_go_before_a_new_report() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let files = write(&passed(), folder.path()).unwrap();
    assert!(files.certificate.is_some() && at("certificate.json").exists());
    let (certificate, json) = read_certificate(folder.path()).unwrap();
    assert!(verify(&certificate, &json).unwrap().is_current);
    assert_eq!(read(folder.path()).unwrap(), passed());

    let files = write(&broken(), folder.path()).unwrap();
    assert!(files.certificate.is_none() && !at("certificate.json").exists());
    assert!(at("tapes/ORD-005.json").exists());
    fs::write(at("tapes/mine.json"), "{}").unwrap();

    write(&passed(), folder.path()).unwrap();
    assert!(!at("tapes/ORD-005.json").exists(), "a tape of an earlier report stands beside this one");
    assert!(at("tapes/mine.json").exists(), "a file of somebody else was removed");
    let parts = fs::read_dir(folder.path()).unwrap().filter(|entry| {
        entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "part")
    });
    assert_eq!(parts.count(), 0);
}

#[test]
fn what_a_report_calls_an_id_becomes_no_path() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = broken();
    let entry = report.clauses.iter_mut().find(|entry| entry.tape.is_some()).unwrap();
    entry.promise.id = "../../ORD-005".to_owned();
    let inner = folder.path().join("a/b");
    write(&report, &inner).unwrap();
    assert!(!folder.path().join("ORD-005.json").exists());
    assert!(!inner.join("tapes").exists());
}

/// A name, attributes, text.
type Element = (String, Vec<(String, String)>, String);

/// Element names and texts of a document, and that it is well-formed.
fn elements(xml: &str) -> Vec<Element> {
    let mut reader = Reader::from_str(xml);
    let mut found: Vec<Element> = Vec::new();
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) | Event::Empty(start) => {
                let attributes = start.attributes().map(|attribute| {
                    let attribute = attribute.unwrap();
                    let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).unwrap();
                    (attribute.key.as_ref().to_owned(), value.into_owned())
                });
                let name = start.name().as_ref().to_owned();
                found.push((name, attributes.collect(), String::new()));
            }
            Event::Text(text) => {
                // Before the root there is white space, and nothing else.
                match found.last_mut() {
                    Some((_, _, content)) => content.push_str(&text.xml10_content()),
                    None => assert_eq!(text.trim(), ""),
                }
            }
            Event::GeneralRef(reference) => {
                let name: &str = &reference;
                let text = match reference.resolve_char_ref().unwrap() {
                    Some(c) => c.to_string(),
                    None => quick_xml::escape::resolve_predefined_entity(name).unwrap().to_owned(),
                };
                found.last_mut().unwrap().2.push_str(&text);
            }
            Event::Eof => return found,
            _ => {}
        }
    }
}

#[test]
fn the_junit_file_is_well_formed_whatever_a_store_says() {
    let report = broken();
    let xml = junit(&report).unwrap();
    let legal = |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(xml.chars().all(legal), "a character that no XML document may hold");
    let elements = elements(&xml);
    let cases = elements.iter().filter(|(name, ..)| name == "testcase").count();
    assert_eq!(cases, registry::all().count());
    let (_, attributes, _) = &elements[0];
    let attribute = |name: &str| &attributes.iter().find(|(key, _)| key == name).unwrap().1;
    assert_eq!(attribute("tests"), &registry::all().count().to_string());
    assert_eq!((attribute("failures").as_str(), attribute("errors").as_str()), ("1", "0"));
    let (_, attributes, text) = elements.iter().find(|(name, ..)| name == "failure").unwrap();
    assert!(
        attributes[0]
            .1
            .starts_with("fail: expected <b>3</b> & \"more\", saw ]]> '2' \\u{1b}[31m\\u{0}\\u{fffe}")
    );
    assert!(text.contains("second line </script>") && text.contains("tape: {"), "{text}");
    assert!(text.contains("again: turnkeep certify made: --tier full --seed 17 --only ORD-005"), "{text}");
}

#[test]
fn junit_shows_what_need_not_hold_as_skipped_and_what_has_no_answer_as_an_error() {
    let count = |report: &Report, element: &str| {
        elements(&junit(report).unwrap()).iter().filter(|(name, ..)| name == element).count()
    };
    let should = registry::all().find(|clause| clause.level == Level::Should).unwrap().id;
    assert_eq!(count(&with(should, Verdict::Fail(String::new())), "skipped"), 1);
    assert_eq!(count(&with("ID-001", Verdict::Inconclusive(String::new())), "error"), 1);
    assert_eq!(count(&with("ID-001", Verdict::NotRun(String::new())), "skipped"), 1);
}

#[test]
fn the_page_stands_alone_and_lets_no_text_out_of_its_place() {
    let html = page(&broken());
    for loads in
        ["<link", "<img", "<iframe", " src=", "url(", "@import", "fetch(", "XMLHttpRequest", "import("]
    {
        assert!(!html.contains(loads), "the page loads something: {loads}");
    }
    assert_eq!(html.matches("<script>").count(), 1, "a text of the report became a script");
    assert_eq!(html.matches("</script>").count(), 1);
    assert!(html.contains("expected &lt;b&gt;3&lt;/b&gt; &amp; &quot;more&quot;"));
    assert!(html.contains("default-src 'none'"));
    assert!(html.contains("Not certified") && html.contains("1 promise is broken."));
    assert!(html.contains("turnkeep certify made: replay tapes/ORD-005.json"));
    for clause in registry::all() {
        assert!(html.contains(&format!("id=\"{}\"", clause.id)), "{} is not on the page", clause.id);
    }
}

#[test]
fn the_page_says_in_words_what_came_out() {
    assert!(page(&passed()).contains("Every promise that binds it was kept"));
    let open = page(&with("ID-001", Verdict::Error("no".to_owned())));
    assert!(open.contains("No promise was seen broken, but 1 clause has no answer."));
    let mut part = passed();
    part.run.only = vec!["ORD".to_owned()];
    assert!(page(&part).contains("Only a part of the clauses was asked."));
}

#[test]
fn a_later_round_cannot_make_a_failure_good() {
    let mut report = Report::blank(super::made::backend(), super::made::run());
    let entry = &mut report.clauses[0];
    entry.add(&super::made::finding(Verdict::Pass), 1);
    entry.add(&super::made::finding(Verdict::Fail("no".to_owned())), 2);
    entry.add(&super::made::finding(Verdict::Pass), 3);
    assert_eq!((&entry.verdict, entry.seed, entry.rounds), (&Verdict::Fail("no".to_owned()), 2, 3));
    assert_eq!((entry.counted["images"], entry.elapsed_ms), (1800, 360));
    assert_eq!(report::catalogue(report.clauses.iter().map(|entry| &entry.promise)), report.catalogue);
}
