//! Importing sessions of the pi coding agent.

use std::io::Cursor;
use std::ops::ControlFlow;

use turnkeep_core::id::EntryKind;
use turnkeep_core::model::{Entry, Visibility, VisibilitySet, entry_kind, role};
use turnkeep_core::query::EntryQuery;
use turnkeep_core::{SessionRef, Store};
use turnkeep_sessions::message::{Content, Message};
use turnkeep_sessions::replay::{LeftOutReason, ReplayPolicy, provider_valid, replay};
use turnkeep_sessions::transfer::{
    Format, ImportOptions, ImportReport, UnansweredIn, Wholeness, import, quietly,
};
use turnkeep_sessions::{ModelChange, ThinkingLevel, Workspace};

use crate::both::{Scene, all_sessions, on_each, row, workspace};

pub(crate) const FIXTURE: &str = include_str!("fixtures/pi-session.jsonl");
pub(crate) const FIXTURE_ID: &str = "5f2c7f0e-6a51-4a0e-9d0b-6c1f4a7d2b10";

pub(crate) async fn take_in(store: &dyn Store, text: impl AsRef<[u8]>) -> ImportReport {
    let mut file = Cursor::new(text.as_ref());
    import(store, &workspace(), &mut file, &ImportOptions::default(), &mut quietly()).await.unwrap()
}

pub(crate) async fn entries(store: &dyn Store, session: &SessionRef) -> Vec<Entry> {
    let mut query = EntryQuery::new(workspace(), session.clone());
    query.visibility = VisibilitySet::ALL;
    let mut all = Vec::new();
    loop {
        let page = store.entries(&query).await.unwrap();
        all.extend(page.items);
        query.cursor = page.next;
        if query.cursor.is_none() {
            return all;
        }
    }
}

on_each! {
    async fn a_pi_session_is_accounted_for_line_by_line(backend: Backend) {
        let store = backend.open().await;
        let report = take_in(&*store, FIXTURE).await;
        assert_eq!(report.format, Format::Pi);
        assert_eq!(report.session.id.as_str(), FIXTURE_ID);
        assert_eq!((report.headers, report.entries), (1, 17));
        let kept: Vec<(&str, u64)> = report.kept.iter().map(|(kind, n)| (kind.as_str(), *n)).collect();
        assert_eq!(
            kept,
            [("compaction", 1), ("message", 13), ("model_change", 1), ("thinking_level_change", 1), ("weather", 1)]
        );
        let said: Vec<(&str, u64)> = report.messages.iter().map(|(role, n)| (role.as_str(), *n)).collect();
        assert_eq!(said, [("assistant", 6), ("bystander", 1), ("tool", 2), ("user", 4)]);
        assert_eq!((report.tool_calls, report.tool_results, report.unanswered_calls), (6, 2, 4));
        assert_eq!(
            report.unanswered_in,
            [
                UnansweredIn { line: 10, calls: 3, cut_off: true },
                UnansweredIn { line: 14, calls: 1, cut_off: true },
            ]
        );
        assert_eq!(report.empty_assistant_messages, 2);
        assert_eq!((report.added, report.already_there), (17, 0));
        assert_eq!((report.dropped.len(), report.stand_ins, report.wholeness), (0, 0, Wholeness::Unproven));

        let row = row(&*store, FIXTURE_ID).await.unwrap();
        assert_eq!(row.created_at.as_millis(), 1_764_576_000_250);
        assert_eq!(row.updated_at.as_millis(), 1_764_576_017_000);
        assert_eq!(row.profile.cwd.as_deref(), Some("/home/ada/bakery"));
        assert_eq!((row.messages, row.preview.as_deref()), (13, Some("count the loaves")));
        assert_eq!(row.usage.input_tokens, 161);
        assert_eq!(row.usage.total_tokens, 126 + 12 + 2 + 60);
        assert_eq!(row.usage.requests, 4);
    }

    async fn a_second_import_adds_nothing_and_says_so(backend: Backend) {
        let store = backend.open().await;
        let first = take_in(&*store, FIXTURE).await;
        let second = take_in(&*store, FIXTURE).await;
        assert_eq!((second.added, second.already_there), (0, 17));
        assert_eq!(second.session, first.session);

        // Also once the session went on, from another handle, and with other line ends.
        let scene = Scene { store: backend.open().await, session: first.session.clone() };
        scene.append(vec![Message::user("more").to_new_entry(row(&*store, FIXTURE_ID).await.unwrap().updated_at).unwrap()]).await;
        let third = take_in(&*scene.store, FIXTURE.replace('\n', "\r\n")).await;
        assert_eq!((third.added, third.already_there), (0, 17));
        assert_eq!(entries(&*store, &first.session).await.len(), 19);
        assert_eq!(all_sessions(&*store).await.len(), 1);
    }

    async fn nothing_that_pi_wrote_is_lost(backend: Backend) {
        let store = backend.open().await;
        let report = take_in(&*store, FIXTURE).await;
        let entries = entries(&*store, &report.session).await;
        let lines: Vec<&str> = FIXTURE.lines().collect();
        assert_eq!(entries.len(), lines.len());
        assert_eq!(entries[0].payload.as_str(), lines[0]);
        assert_eq!(entries[0].visibility, Visibility::Internal);
        assert_eq!(entries[12].payload.as_str(), lines[12], "an unknown type is kept as it is");
        assert_eq!(entries[12].kind, EntryKind::new("weather").unwrap());

        let cut_off = Message::from_entry(&entries[2]).unwrap();
        assert_eq!(cut_off.stop_reason(), Some("aborted"));
        assert_eq!(cut_off.field("errorMessage"), Some("\"Stopped by the baker\""));
        assert_eq!(cut_off.field("timestamp"), Some("1764576001500"));

        let asks = Message::from_entry(&entries[6]).unwrap();
        let Content::Thinking(thinking) = asks.blocks()[0].content() else { panic!("no thinking") };
        assert_eq!(thinking.signature.as_deref(), Some("c2lnbmVk"));
        assert!(asks.blocks()[3].json().contains(r#""partialJson":"{\"shelf\":\"tw""#));
        assert_eq!(asks.stop_reason(), Some("tool_use"));

        let result = Message::from_entry(&entries[7]).unwrap();
        assert_eq!(result.field("details"), Some(r#"{"diff":"+7"}"#));
        assert_eq!(result.results().next().unwrap().name.as_deref(), Some("look"));
        assert_eq!(result.text(), "seven");
        let picture = Message::from_entry(&entries[8]).unwrap();
        let picture = picture.results().next().unwrap().clone();
        assert!(picture.is_error);
        let Content::Media(media) = picture.content[0].content() else { panic!("no media") };
        assert_eq!((media.uri.as_str(), media.media_type.as_deref()), ("data:image/png;base64,aGk=", Some("image/png")));

        let bystander = Message::from_entry(&entries[11]).unwrap();
        assert_eq!(bystander.role().as_str(), "bystander");
        assert_eq!(bystander.field("mood"), Some("\"calm\""));
        assert_eq!(entries[11].at.as_millis(), 1_764_576_011_000);
        assert_eq!(
            bystander.field("pi"),
            Some(r#"{"channel":"counter","timestamp":"2025-12-01T09:00:11+01:00"}"#)
        );

        let model = ModelChange::from_entry(&entries[3]).unwrap();
        assert_eq!((model.provider.as_str(), model.model.as_str()), ("acme", "oven-3"));
        assert_eq!(ThinkingLevel::from_entry(&entries[4]).unwrap().level, "low");
    }

    async fn case_24_a_nul_in_an_imported_message_is_kept_where_json_can_hold_it(backend: Backend) {
        let store = backend.open().await;
        let report = take_in(&*store, FIXTURE).await;
        let entries = entries(&*store, &report.session).await;
        assert!(entries[10].payload.as_str().contains(r"and a nul: \u0000."));
        assert_eq!(entries[10].text.as_deref(), Some("and a nul: \u{fffd}."));
    }

    async fn case_27_imported_arguments_keep_their_bytes(backend: Backend) {
        let store = backend.open().await;
        let report = take_in(&*store, FIXTURE).await;
        let asks = Message::from_entry(&entries(&*store, &report.session).await[6]).unwrap();
        let arguments = &asks.tool_calls().next().unwrap().arguments;
        assert_eq!(arguments.as_str(), r#"{"zebra":1,"alpha":{"z":1.50,"a":2}}"#);
    }

    async fn an_imported_session_replays_provider_valid_from_its_compaction(backend: Backend) {
        let store = backend.open().await;
        let report = take_in(&*store, FIXTURE).await;
        let replayed =
            replay(&*store, &workspace(), &report.session, &ReplayPolicy::default()).await.unwrap();
        provider_valid(&replayed.to_messages()).unwrap();
        // firstKeptEntryIndex 9 is the tenth line, the header among them.
        let numbers: Vec<Option<u32>> =
            replayed.messages.iter().map(|message| message.entry.map(|entry| entry.get())).collect();
        assert_eq!(
            numbers,
            [Some(16), Some(10), None, None, None, Some(11), Some(12), Some(14), None, Some(17), Some(18)]
        );
        assert_eq!(replayed.messages[0].message.text(), "Shelf one has seven loaves.");
        assert_eq!(replayed.left_out.count(LeftOutReason::Empty), 1);
        assert_eq!(replayed.repaired, 4);
        assert!(replayed.messages[1].message.is_from(role::ASSISTANT));
    }

    async fn an_imported_session_goes_two_ways(backend: Backend) {
        let store = backend.open().await;
        take_in(&*store, FIXTURE).await;
        let ws = Workspace::open(store, workspace()).await.unwrap();
        let session = ws.sessions().open_by_prefix(FIXTURE_ID).await.unwrap();
        let child = session.fork("f").await.unwrap().session;
        assert_eq!(child.replay().await.unwrap(), session.replay().await.unwrap());
        assert_eq!(child.info().await.unwrap().messages, 13);
    }

    async fn progress_begins_at_nothing_and_ends_with_all(backend: Backend) {
        let store = backend.open().await;
        let mut seen = Vec::new();
        let mut file = Cursor::new(FIXTURE);
        import(&*store, &workspace(), &mut file, &ImportOptions::default(), &mut |progress| {
            seen.push((progress.done, progress.total));
            ControlFlow::Continue(())
        }).await.unwrap();
        let total = 2 * FIXTURE.len() as u64;
        assert_eq!(seen.first(), Some(&(0, total)));
        assert_eq!(seen.last(), Some(&(total, total)));
        assert!(seen.is_sorted());
    }

    async fn a_session_without_a_header_gets_an_id_of_its_content(backend: Backend) {
        let store = backend.open().await;
        let body = FIXTURE.split_once('\n').unwrap().1;
        let report = take_in(&*store, body).await;
        assert_eq!((report.headers, report.entries), (0, 17));
        assert!(report.session.id.as_str().starts_with("pi-"));
        let row = row(&*store, report.session.id.as_str()).await.unwrap();
        assert_eq!(row.created_at.as_millis(), 1_764_576_001_000);
        assert_eq!(take_in(&*store, body).await.added, 0);
        assert_eq!(entries(&*store, &report.session).await[0].kind.as_str(), entry_kind::MESSAGE);
    }
}
