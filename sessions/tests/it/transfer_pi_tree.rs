//! Importing sessions of the pi coding agent that are trees: versions 2 and 3.

use std::io::Cursor;

use turnkeep_core::model::{Entry, Visibility, entry_kind, role};
use turnkeep_core::{EntryNo, ErrorKind, WorkspaceId};
use turnkeep_sessions::message::Message;
use turnkeep_sessions::replay::{ReplayPolicy, provider_valid, replay};
use turnkeep_sessions::testing::{Fault, FaultStore};
use turnkeep_sessions::transfer::{Format, ImportOptions, import, quietly};
use turnkeep_sessions::{BranchSummary, Compaction, Label, Session, Workspace};

use crate::site::{Site, on_each};

const TREE: &str = include_str!("fixtures/pi-tree.jsonl");
const TREE_ID: &str = "0c9f3a52-77aa-4b8e-b9f1-2d6c4a7d9e01";

fn no(number: u32) -> EntryNo {
    EntryNo::new(number).unwrap()
}

async fn imported(ws: &Workspace, file: impl AsRef<[u8]> + Send + Sync) -> Session {
    let report = ws.import(&mut Cursor::new(file), ImportOptions::default(), &mut quietly()).await.unwrap();
    assert_eq!(report.format, Format::Pi);
    assert_eq!(report.dropped, []);
    ws.sessions().open(&report.session.id).await.unwrap()
}

async fn all(session: &Session) -> Vec<Entry> {
    session.entries(|query| query.limit = 1_000).await.unwrap().items
}

on_each!(
    a_tree_keeps_its_parents_branches_labels_and_leaf,
    what_extensions_put_in_is_for_the_model_and_what_a_person_hid_is_not,
    each_branch_of_a_tree_replays_by_itself,
    version_2_reads_as_version_3_and_later_ones_are_refused,
    a_tree_with_lost_lines_keeps_the_rest,
    a_killed_import_of_a_tree_goes_on_where_it_was,
);

async fn a_tree_keeps_its_parents_branches_labels_and_leaf(site: Site) {
    let session = imported(&site.workspace().await, TREE).await;
    assert_eq!(session.id().as_str(), TREE_ID);
    let entries = all(&session).await;
    assert_eq!(entries.len(), TREE.lines().count(), "every line is an entry");
    let parents: Vec<u32> = entries.iter().map(|entry| entry.parent.map_or(0, EntryNo::get)).collect();
    // The title (8) follows what the label (7) followed; branch 10 begins at 3; the last label stands beside 19.
    assert_eq!(parents, [0, 1, 2, 3, 4, 5, 6, 6, 8, 3, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    let beside: Vec<u32> =
        entries.iter().filter(|entry| !entry.on_path).map(|entry| entry.number.get()).collect();
    assert_eq!(beside, [7, 20]);
    let row = session.info().await.unwrap();
    assert_eq!(row.path.leaf, Some(no(19)));
    assert_eq!(row.profile.title.unwrap().text, "Loaves");
    assert_eq!(row.profile.parent.unwrap().as_str(), "7be1f1d4-8f5e-4a4b-9c51-31b9a8a1c0de");
    assert_eq!((row.usage.input_tokens, row.usage.requests), (10, 1));

    let label = Label::from_entry(&entries[6]).unwrap();
    assert_eq!((label.label.as_deref(), label.target), (Some("the beginning"), Some(no(3))));
    let cleared = Label::from_entry(&entries[19]).unwrap();
    assert_eq!((cleared.label, cleared.target), (None, Some(no(17))));
    let summary = BranchSummary::from_entry(&entries[9]).unwrap();
    assert_eq!((summary.summary.as_str(), summary.from), ("Rye was tried.", Some(no(9))));
    let compaction = Compaction::from_entry(&entries[17]).unwrap();
    assert_eq!((compaction.first_kept, compaction.tokens_before), (Some(no(17)), 900));
    // Titles are of the branch; this one is on the other.
    assert_eq!(session.latest_title().await.unwrap(), None);
    assert_eq!(session.latest_model().await.unwrap().unwrap().value.model, "oven-3");
    // What it was called in the file is still there.
    assert!(entries[2].payload.as_str().contains(r#""pi":{"id":"aa000002","parentId":"aa000001"}"#));
}

async fn what_extensions_put_in_is_for_the_model_and_what_a_person_hid_is_not(site: Site) {
    let session = imported(&site.workspace().await, TREE).await;
    let entries = all(&session).await;
    let kinds: Vec<&str> = entries[11..16].iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, ["custom", "custom_message", "custom_message", "custom_message", "custom"]);
    assert!(entries[11..16].iter().all(|entry| entry.visibility == Visibility::Internal));
    let said: Vec<String> =
        entries[12..15].iter().map(|entry| Message::from_entry(entry).unwrap().text()).collect();
    assert_eq!(said, ["The oven is hot.", "Flour is left.", "Ran `ls`:\n\nflour\n"]);
    assert!(entries[12..15].iter().all(|entry| Message::from_entry(entry).unwrap().is_from(role::USER)));
    assert!(entries[13].payload.as_str().contains(r#""role":"custom""#), "pi's own word is kept");
    assert!(entries[15].payload.as_str().contains("dear diary"));
    assert!(Message::from_entry(&entries[15]).is_err(), "no model is shown it");
}

async fn each_branch_of_a_tree_replays_by_itself(site: Site) {
    let session = imported(&site.workspace().await, TREE).await;
    let shown = async |session: &Session| -> Vec<String> {
        let replay = session.replay().await.unwrap();
        provider_valid(&replay.to_messages()).unwrap();
        replay.messages.iter().map(|shown| shown.message.text()).collect()
    };
    assert_eq!(shown(&session).await, ["Wheat after rye.", "Wheat is in.", "how long?"]);
    session.move_leaf(Some(no(17))).await.unwrap();
    let before = [
        "bake a loaf",
        "Rye was tried.",
        "wheat, please",
        "The oven is hot.",
        "Flour is left.",
        "Ran `ls`:\n\nflour\n",
        "Wheat is in.",
    ];
    assert_eq!(shown(&session).await, before);
    session.move_leaf(Some(no(9))).await.unwrap();
    assert_eq!(shown(&session).await, ["bake a loaf", "", "a rye loaf", "Rye it is.", "no, wheat"]);
    assert_eq!(session.latest_title().await.unwrap().unwrap().value.text, "Loaves");
}

async fn version_2_reads_as_version_3_and_later_ones_are_refused(site: Site) {
    let ws = site.workspace().await;
    let second = TREE
        .replace("\"version\":3", "\"version\":2")
        .replace("\"role\":\"custom\"", "\"role\":\"hookMessage\"")
        .replace(TREE_ID, "an-older-one");
    let (new, old) = (imported(&ws, TREE).await, imported(&ws, second).await);
    let forms = async |session: &Session| -> Vec<(String, Option<EntryNo>, Option<String>)> {
        let entries = all(session).await.into_iter();
        entries.map(|entry| (entry.kind.to_string(), entry.parent, entry.text)).collect()
    };
    assert_eq!(forms(&new).await, forms(&old).await);
    let fourth = TREE.replace("\"version\":3", "\"version\":4");
    let refused =
        ws.import(&mut Cursor::new(fourth), ImportOptions::default(), &mut quietly()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}

async fn a_tree_with_lost_lines_keeps_the_rest(site: Site) {
    let ws = site.workspace().await;
    // The header, a parent and the target of a compaction are gone; one line is cut.
    let lost = ["\"type\":\"session\"", "\"id\":\"aa000003\"", "\"id\":\"aa000010\""];
    let lines: Vec<&str> = TREE.lines().filter(|line| !lost.iter().any(|lost| line.contains(lost))).collect();
    let file = format!("{}\n{{\"type\":\"message\",\"id\":\"aa0000ff\",\"parentId\":\"aa0", lines.join("\n"));
    let report = ws.import(&mut Cursor::new(file), ImportOptions::default(), &mut quietly()).await.unwrap();
    assert_eq!((report.entries, report.dropped.len()), (17, 1));
    let session = ws.sessions().open(&report.session.id).await.unwrap();
    let entries = all(&session).await;
    // The answer of the lost call follows what the call followed, and is not replayed.
    assert_eq!((entries[2].kind.as_str(), entries[2].parent), (entry_kind::MESSAGE, Some(no(2))));
    let store = ws.store();
    let replay = replay(&**store, ws.id(), session.session_ref(), &ReplayPolicy::default()).await.unwrap();
    provider_valid(&replay.to_messages()).unwrap();
    assert_eq!(replay.to_messages().last().unwrap().text(), "how long?");
}

async fn a_killed_import_of_a_tree_goes_on_where_it_was(site: Site) {
    // Long enough for several slices.
    let mut file = TREE.to_owned();
    for number in 0..2_500 {
        let parent = if number % 7 == 0 { "aa000002".to_owned() } else { format!("b{}", number - 1) };
        file.push_str(&format!(
            "{{\"type\":\"message\",\"id\":\"b{number}\",\"parentId\":\"{parent}\",\
             \"timestamp\":\"2026-02-01T11:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"n{number}\"}}}}\n"
        ));
    }
    let id = WorkspaceId::new("w").unwrap();
    {
        let store = FaultStore::new(site.store().await);
        // Begun, one slice written, and then the process is gone.
        store.next([Fault::Pass, Fault::Pass, Fault::Silence { done: false }]);
        let options = ImportOptions::default();
        let (mut file, mut quietly) = (Cursor::new(&file), quietly());
        tokio::select! {
            _ = import(&store, &id, &mut file, &options, &mut quietly) => panic!("it ended"),
            () = async {
                while store.log().len() < 3 {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            } => {}
        }
    }
    let store = FaultStore::new(site.store().await);
    let report = import(&store, &id, &mut Cursor::new(&file), &ImportOptions::default(), &mut quietly())
        .await
        .unwrap();
    assert_eq!(report.added, 2_519);
    let rows: usize = store
        .log()
        .iter()
        .flat_map(|noted| noted.commit.ops.clone())
        .map(|op| if let turnkeep_core::commit::Op::Restore { rows, .. } = op { rows.len() } else { 0 })
        .sum();
    assert!(rows > 0 && rows < 2_521, "what was written before is not written again: {rows}");
    let session = site.workspace().await.sessions().open(&report.session.id).await.unwrap();
    assert_eq!(session.info().await.unwrap().path.leaf, Some(no(2_520)));
    assert_eq!(session.replay().await.unwrap().to_messages().last().unwrap().text(), "n2499");
}
