//! Files that are damaged, foreign or hostile: each line that cannot be kept is named, and nothing is half done.

use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::ControlFlow;

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};
use turnkeep_core::limits::PAYLOAD_BYTES;
use turnkeep_core::{Error, ErrorKind, Store};
use turnkeep_memory::{MemoryOptions, MemoryStore};
use turnkeep_sessions::message::Message;
use turnkeep_sessions::replay::{ReplayPolicy, provider_valid, replay};
use turnkeep_sessions::transfer::{DropReason, ImportOptions, Wholeness, import, quietly};

use crate::both::{all_sessions, on_each, workspace};
use crate::transfer::{exported, rich_session};
use crate::transfer_pi::{FIXTURE, entries, take_in};

async fn refused(store: &dyn Store, bytes: &[u8]) -> Error {
    let mut file = Cursor::new(bytes);
    let error =
        import(store, &workspace(), &mut file, &ImportOptions::default(), &mut quietly()).await.unwrap_err();
    assert!(all_sessions(store).await.is_empty(), "nothing is half done: {error}");
    error
}

fn dropped(report: &turnkeep_sessions::transfer::ImportReport) -> Vec<(u64, DropReason)> {
    report.dropped.iter().map(|line| (line.line, line.reason)).collect()
}

/// The fixture with one line replaced.
fn with_line(number: usize, line: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, old) in FIXTURE.lines().enumerate() {
        out.extend_from_slice(if at + 1 == number { line } else { old.as_bytes() });
        out.push(b'\n');
    }
    out
}

on_each! {
    async fn case_09_a_cut_last_line_is_dropped_by_name_and_the_rest_is_kept(backend: Backend) {
        let store = backend.open().await;
        let cut = &FIXTURE[..FIXTURE.len() - 30];
        let report = take_in(&*store, cut).await;
        assert_eq!((report.entries, report.added), (16, 16));
        assert_eq!(dropped(&report), [(18, DropReason::CutOff)]);
        assert_eq!(report.wholeness, Wholeness::Damaged);
        assert_eq!(entries(&*store, &report.session).await.len(), 17);
    }

    async fn case_09_a_cut_export_keeps_what_is_whole(backend: Backend) {
        let store = backend.open().await;
        let whole = exported(&*store, &rich_session(&store).await).await;
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        for keep in 1..lines.len() {
            // Cut in the middle of the line, and between two lines.
            for half in [true, false] {
                let other = backend.another();
                let other = other.open().await;
                let mut cut = lines[..keep].concat();
                if half {
                    cut.extend_from_slice(&lines[keep][..lines[keep].len() / 2]);
                }
                let report = take_in(&*other, &cut).await;
                assert_eq!(report.wholeness, Wholeness::Damaged, "cut after line {keep}");
                let expected = if half { vec![(keep as u64 + 1, DropReason::CutOff)] } else { Vec::new() };
                assert_eq!(dropped(&report), expected, "cut after line {keep}");
                let stored = entries(&*other, &report.session).await.len() as u64;
                assert_eq!(stored, report.entries + report.stand_ins);
                replay(&*other, &workspace(), &report.session, &ReplayPolicy::default()).await.unwrap();
            }
        }
    }

    async fn damaged_lines_are_named_with_their_reasons(backend: Backend) {
        let store = backend.open().await;
        let deep = format!(r#"{{"type":"message","message":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let long = format!(r#"{{"type":"message","text":"{}"}}"#, "x".repeat(PAYLOAD_BYTES + 2 * 1024 * 1024));
        let large = format!(r#"{{"type":"message","text":"{}"}}"#, "x".repeat(PAYLOAD_BYTES));
        let cases: [(&[u8], DropReason); 9] = [
            (b"{\"type\":\"message\",", DropReason::NotJson),
            (b"\0\0\0\0\0\0", DropReason::NotJson),
            (b"\xff\xfe{\"type\":\"message\"}", DropReason::NotUtf8),
            (br#"{"type":"message","message":{"role":"user","content":"\ud800"}}"#, DropReason::LoneSurrogate),
            (b"[1,2]", DropReason::NotARow),
            (br#"{"no":"type"}"#, DropReason::NotARow),
            (deep.as_bytes(), DropReason::TooDeep),
            (long.as_bytes(), DropReason::TooLong),
            (large.as_bytes(), DropReason::TooLarge),
        ];
        for (at, (line, reason)) in cases.into_iter().enumerate() {
            let mut file = with_line(6, line);
            // Each its own session, so that each is imported anew.
            let text = FIXTURE.lines().next().unwrap().replace("5f2c7f0e", &format!("5f2c7f{at:02}"));
            let end = file.iter().position(|byte| *byte == b'\n').unwrap();
            file.splice(..end, text.bytes());
            let report = take_in(&*store, &file).await;
            assert_eq!(dropped(&report), [(6, reason)]);
            assert_eq!((report.headers, report.entries), (1, 16), "{reason:?}");
            let replayed =
                replay(&*store, &workspace(), &report.session, &ReplayPolicy::default()).await.unwrap();
            provider_valid(&replayed.to_messages()).unwrap();
        }
    }

    async fn a_mark_at_the_beginning_and_windows_line_ends_change_nothing(backend: Backend) {
        let store = backend.open().await;
        let dressed = format!("\u{feff}{}", FIXTURE.replace('\n', "\r\n\r\n"));
        let report = take_in(&*store, &dressed).await;
        assert_eq!((report.headers, report.entries, report.dropped.len()), (1, 17, 0));
        let plain = take_in(&*store, FIXTURE).await;
        assert_eq!((plain.added, plain.session), (0, report.session));
    }

    async fn files_that_are_no_session_are_refused(backend: Backend) {
        let store = backend.open().await;
        let foreign: [(&str, &[u8]); 10] = [
            ("empty", b""),
            ("blank", b"\n \r\n\n"),
            ("prose", b"Dear Ada,\nthe bread is ready.\n"),
            ("other JSON lines", b"{\"a\":1}\n{\"a\":2}\n"),
            ("a JSON document", b"{\n  \"sessions\": []\n}\n"),
            ("another agent's lines", br#"{"type":"user","uuid":"u","message":{"role":"user"},"timestamp":"2025-01-01T00:00:00Z"}"#),
            ("UTF-16", b"\xff\xfe{\0\"\0t\0"),
            ("SQLite", b"SQLite format 3\0\x10\0\x01\x01"),
            ("zeros", &[0; 4096]),
            ("one cut line", br#"{"type":"ses"#),
        ];
        for (what, bytes) in foreign {
            assert_eq!(refused(&*store, bytes).await.kind(), ErrorKind::Invalid, "{what}");
        }
    }

    async fn versions_that_are_not_known_are_refused_by_name(backend: Backend) {
        let store = backend.open().await;
        let later = FIXTURE.replacen(r#""type":"session","#, r#""type":"session","version":4,"#, 1);
        assert_eq!(refused(&*store, later.as_bytes()).await.kind(), ErrorKind::Unsupported);
        let newer = br#"{"format":"turnkeep-session","version":2,"anything":true}"#;
        let error = refused(&*store, newer).await;
        assert_eq!(error.kind(), ErrorKind::NewerFormat);
        let named = FIXTURE.replacen(r#""type":"session","#, r#""type":"session","version":1,"#, 1);
        assert_eq!(take_in(&*store, named).await.added, 17);
    }

    async fn a_file_of_rubbish_is_given_up_in_bounded_memory(backend: Backend) {
        let store = backend.open().await;
        let mut file = FIXTURE.as_bytes().to_vec();
        file.extend_from_slice("rubbish\n".repeat(10_001).as_bytes());
        assert_eq!(refused(&*store, &file).await.kind(), ErrorKind::Invalid);
        file.truncate(file.len() - "rubbish\n".len());
        let report = take_in(&*store, &file).await;
        assert_eq!((report.entries, report.dropped.len()), (17, 10_000));
    }

    async fn a_lost_line_of_an_export_leaves_a_stand_in_so_that_numbers_stay(backend: Backend) {
        let store = backend.open().await;
        let source = rich_session(&store).await;
        let before = entries(&*store, &source).await;
        let whole = exported(&*store, &source).await;
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        for lost in 2..lines.len() {
            let mut damaged = lines.clone();
            damaged[lost - 1] = b"{\"row\":\"entry\",\"number\"\n";
            let other = backend.another();
            let other = other.open().await;
            let report = take_in(&*other, damaged.concat()).await;
            assert_eq!(dropped(&report)[0], (lost as u64, DropReason::NotJson));
            assert_eq!(report.wholeness, Wholeness::Damaged);
            let after = entries(&*other, &report.session).await;
            let differ: Vec<u32> = after
                .iter()
                .zip(&before)
                .filter(|(after, before)| after != before)
                .map(|(after, _)| after.number.get())
                .collect();
            assert!(differ.len() <= 1, "line {lost}: {differ:?}");
            for number in differ {
                let entry = &after[number as usize - 1];
                assert_eq!(entry.kind.as_str(), "lost");
                assert!(report.stand_ins >= 1);
            }
            replay(&*other, &workspace(), &report.session, &ReplayPolicy::default()).await.unwrap();
        }
    }

    async fn of_an_export_that_lacks_a_line_all_others_are_kept_and_the_missing_one_is_named(backend: Backend) {
        let store = backend.open().await;
        let session = rich_session(&store).await;
        let whole = exported(&*store, &session).await;
        let before = entries(&*store, &session).await;
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let mut named_entries = 0;
        // Neither the header, which says how much there is, nor the footer.
        for lost in 1..lines.len() - 1 {
            let other = backend.another();
            let other = other.open().await;
            let file = [&lines[..lost], &lines[lost + 1..]].concat().concat();
            let report = take_in(&*other, &file).await;
            assert_eq!(dropped(&report), [], "without line {}", lost + 1);
            assert_eq!(report.wholeness, Wholeness::Damaged);
            assert_eq!(report.missing.len() as u64, report.stand_ins, "{:?}", report.missing);
            assert!(report.missing.iter().all(|missing| missing.before_line > lost as u64));
            let after = entries(&*other, &report.session).await;
            for (old, new) in before.iter().zip(&after) {
                let named = report.missing.iter().any(|one| one.what == format!("entry {}", new.number));
                assert_eq!(old.number, new.number);
                assert!(old == new || (named && new.kind.as_str() == "lost"), "{old:?} and {new:?}");
            }
            let gone = report.missing.iter().filter(|one| one.what.starts_with("entry ")).count();
            assert!(gone == 0 || after.len() == before.len());
            named_entries += gone;
        }
        // The one at the very end is missed by the footer alone.
        assert_eq!(named_entries, before.len() - 1);
    }

    async fn rows_that_contradict_each_other_are_dropped_by_name(backend: Backend) {
        let store = backend.open().await;
        let whole = exported(&*store, &rich_session(&store).await).await;
        let text = String::from_utf8(whole).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        // The same entry twice, one far away, one before its parent; something after the end.
        let twice = [&lines[..4], &[lines[3]], &lines[4..]].concat();
        let far = lines[3].replacen("\"number\":2,", "\"number\":4000000000,", 1);
        let far = [&lines[..4], &[far.as_str()], &lines[4..]].concat();
        let orphan = lines[3].replacen("\"number\":2,\"parent\":1", "\"number\":2,\"parent\":9", 1);
        assert_ne!(orphan, lines[3]);
        let orphan = [&lines[..3], &[orphan.as_str()], &lines[4..]].concat();
        let after = [&lines[..], &[lines[3]]].concat();
        for (lines, place, reason) in [
            (twice, 5, DropReason::OutOfOrder),
            (far, 5, DropReason::OutOfOrder),
            (orphan, 4, DropReason::NotARow),
            (after, lines.len() as u64 + 1, DropReason::AfterEnd),
        ] {
            let other = backend.another();
            let other = other.open().await;
            let report = take_in(&*other, lines.join("\n")).await;
            assert_eq!(dropped(&report), [(place, reason)]);
            assert_eq!(report.wholeness, Wholeness::Damaged);
        }
    }

    async fn a_changed_byte_is_noticed_by_the_footer(backend: Backend) {
        let store = backend.open().await;
        let whole = String::from_utf8(exported(&*store, &rich_session(&store).await).await).unwrap();
        let changed = whole.replacen("hello", "hellO", 1);
        assert_ne!(changed, whole);
        let other = backend.another();
        let other = other.open().await;
        let report = take_in(&*other, &changed).await;
        assert_eq!((report.wholeness, report.dropped.len()), (Wholeness::Damaged, 0));
    }

    async fn a_file_that_changes_while_it_is_read_leaves_nothing(backend: Backend) {
        let store = backend.open().await;
        let mut file = Shifting { now: Cursor::new(FIXTURE.as_bytes().to_vec()), rewinds: 0 };
        let error = import(&*store, &workspace(), &mut file, &ImportOptions::default(), &mut quietly()).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Io);
        assert!(all_sessions(&*store).await.is_empty());
    }

    async fn a_cancelled_import_leaves_nothing(backend: Backend) {
        let store = backend.open().await;
        let total = 2 * FIXTURE.len() as u64;
        for stop_at in [0, total / 2, total] {
            let mut file = Cursor::new(FIXTURE);
            let error = import(&*store, &workspace(), &mut file, &ImportOptions::default(), &mut |progress| {
                if progress.done >= stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .await
            .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled);
            assert!(all_sessions(&*store).await.is_empty(), "stopped at {stop_at}");
        }
        assert_eq!(take_in(&*store, FIXTURE).await.added, 17);
    }
}

#[tokio::test]
async fn case_25_a_line_over_the_limit_of_the_store_is_dropped_and_the_session_stays_usable() {
    let limits = MemoryStore::new().info().limits.clone().with_payload_bytes(400);
    let store = MemoryOptions::new().limits(limits).open("a store with a low limit");
    let report = take_in(&store, FIXTURE).await;
    let large = FIXTURE.lines().filter(|line| line.len() > 460).count();
    assert!(large > 0 && report.dropped.len() >= large);
    assert!(report.dropped.iter().all(|line| line.reason == DropReason::TooLarge));
    let replayed = replay(&store, &workspace(), &report.session, &ReplayPolicy::default()).await.unwrap();
    provider_valid(&replayed.to_messages()).unwrap();
    let scene = crate::both::Scene { store: std::sync::Arc::new(store), session: report.session };
    scene
        .append(vec![Message::user("go on").to_new_entry(turnkeep_core::Timestamp::default()).unwrap()])
        .await;
}

/// An export of three words with two gaps before them, and a footer that agrees with its lines.
async fn with_gaps(gap: u32, said: u64) -> String {
    let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(MemoryStore::new());
    let scene = crate::both::Scene::create(&store, "gaps").await;
    let word = |word: &str| Message::user(word).to_new_entry(turnkeep_core::Timestamp::default()).unwrap();
    scene.append(vec![word("one"), word("two"), word("three")]).await;
    let whole = String::from_utf8(exported(&*store, &scene.session).await).unwrap();
    let mut file = String::new();
    let lines = whole.lines().count() - 1;
    for line in whole.lines().take(lines) {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        if line["format"].is_string() {
            line["entries"] = said.into();
        }
        if line["row"] == "session" {
            line["leaf"] = serde_json::Value::Null;
        }
        if line["row"] == "entry" {
            let before = line["number"].as_u64().unwrap() - 1;
            let number = |before: u64| 1 + before * (u64::from(gap) + 1);
            line["number"] = number(before).into();
            line["parent"] = before.checked_sub(1).map(number).into();
        }
        file.push_str(&format!("{line}\n"));
    }
    let sum = turnkeep_core::digest::to_hex(&Sha256::digest(file.as_bytes()));
    let (rows, entries) = (lines - 1, 3 + 2 * gap);
    file + &format!("{{\"row\":\"footer\",\"rows\":{rows},\"entries\":{entries},\"sha256\":\"{sum}\"}}\n")
}

#[tokio::test]
async fn a_footer_that_agrees_with_lines_that_have_gaps_proves_nothing() {
    let store = MemoryStore::new();
    assert_eq!(take_in(&store, with_gaps(0, 3).await).await.wholeness, Wholeness::Proven);
    let store = MemoryStore::new();
    let report = take_in(&store, with_gaps(2, 7).await).await;
    assert_eq!((dropped(&report), report.missing.len(), report.stand_ins), (vec![], 2, 4));
    assert_eq!(report.wholeness, Wholeness::Damaged);
}

#[tokio::test]
async fn a_short_file_never_becomes_a_huge_session() {
    let store = MemoryStore::new();
    let file = with_gaps(60_000, 4_000_000_000).await;
    let report = take_in(&store, &file).await;
    assert_eq!(report.stand_ins, 60_000);
    let [(_, DropReason::OutOfOrder)] = dropped(&report)[..] else { panic!("{:?}", report.dropped) };
    assert_eq!(take_in(&store, &file).await.added, 0);
}

/// A file that somebody appends to between two readings.
struct Shifting {
    now: Cursor<Vec<u8>>,
    rewinds: u32,
}

impl Read for Shifting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.now.read(buffer)
    }
}

impl Seek for Shifting {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if to == SeekFrom::Start(0) {
            self.rewinds += 1;
            // Once to find the format, once to survey, once to write.
            if self.rewinds == 3 {
                let line = FIXTURE.lines().last().unwrap();
                self.now.get_mut().extend_from_slice(line.as_bytes());
            }
        }
        self.now.seek(to)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn wherever_a_file_is_cut_every_whole_line_is_kept_and_at_most_one_is_dropped(
        cut in 1..FIXTURE.len(), own in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = MemoryStore::new();
            let file = if own {
                let scene_store: std::sync::Arc<dyn Store> = std::sync::Arc::new(MemoryStore::new());
                exported(&*scene_store, &rich_session(&scene_store).await).await
            } else {
                FIXTURE.as_bytes().to_vec()
            };
            let cut = cut.min(file.len() - 1);
            let kept = &file[..cut];
            let mut reader = Cursor::new(kept);
            let done = import(&store, &workspace(), &mut reader, &ImportOptions::default(), &mut quietly()).await;
            let whole_lines = kept.iter().filter(|byte| **byte == b'\n').count() as u64;
            match done {
                Ok(report) => {
                    prop_assert!(report.dropped.len() <= 1);
                    let lines = report.headers + report.entries + report.other_rows + report.dropped.len() as u64;
                    // The image of an export is a line that is counted nowhere.
                    prop_assert!(lines + u64::from(own) >= whole_lines, "{} of {}", lines, whole_lines);
                    let session = report.session.clone();
                    prop_assert_eq!(entries(&store, &session).await.is_empty(), whole_lines < 2 && report.headers + report.entries == 0 || (own && whole_lines <= 2));
                }
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Invalid);
                    prop_assert_eq!(whole_lines, 0, "only a file without a whole line is no session");
                }
            }
            Ok(())
        })?;
    }
}
