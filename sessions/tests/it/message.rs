//! Messages: bytes kept, unknown parts kept, entries and back.

use proptest::prelude::*;
use turnkeep_core::id::{EntryKind, EntryNo, Role};
use turnkeep_core::limits::PAYLOAD_BYTES;
use turnkeep_core::model::{Entry, Visibility, entry_kind, role};
use turnkeep_core::{ErrorKind, Payload, Timestamp};
use turnkeep_sessions::message::{Block, Content, Media, Message, ToolCall, ToolResult};

const AT: Timestamp = Timestamp::from_millis(1_764_000_000_000);

fn payload(json: &str) -> Payload {
    Payload::new(json).unwrap()
}

fn entry(kind: &str, role: Option<&str>, payload: Payload) -> Entry {
    Entry {
        number: EntryNo::FIRST,
        parent: None,
        on_path: true,
        kind: EntryKind::new(kind).unwrap(),
        role: role.map(|role| Role::new(role).unwrap()),
        run: None,
        turn: None,
        key: None,
        visibility: Visibility::Conversation,
        at: AT,
        refs: Vec::new(),
        text: None,
        payload,
    }
}

#[test]
fn a_message_read_and_written_unchanged_has_the_same_bytes() {
    let json = r#" { "content" : [ {"type":"text","text":"a","cache":{"z":1.0,"a":1e400}} , {"type":"hologram","x":[]}, 7 ],
        "role":"narrator", "mood" : "\u0000", "mood":2 } "#;
    let message = Message::parse(payload(json)).unwrap();
    assert_eq!(message.payload().as_str(), json);
    assert_eq!(message.to_new_entry(AT).unwrap().payload.as_str(), json);
    assert_eq!(message.role().as_str(), "narrator");
    assert_eq!(message.blocks().len(), 3);
    assert_eq!(message.blocks()[0].json(), r#"{"type":"text","text":"a","cache":{"z":1.0,"a":1e400}}"#);
    assert_eq!(message.blocks()[1].content(), &Content::Other(Some("hologram".into())));
    assert_eq!(message.blocks()[2].content(), &Content::Other(None));
    assert_eq!(message.field("mood"), Some("2"), "of a repeated field the last one counts");
}

#[test]
fn case_27_arguments_and_unknown_fields_keep_key_order_and_number_spelling() {
    let arguments = r#"{"zebra":1,"alpha":{"z":1,"a":2},"n":1.50}"#;
    let message = Message::assistant_with_calls("", [ToolCall::new("c1", "sort", payload(arguments))])
        .with_field("usage", &payload(r#"{"zebra":1,"alpha":{"z":1,"a":2}}"#))
        .unwrap();
    let stored = message.to_new_entry(AT).unwrap().payload;
    let read = Message::parse(stored.clone()).unwrap();
    assert_eq!(read.payload(), &stored);
    assert_eq!(read.tool_calls().next().unwrap().arguments.as_str(), arguments);
    assert_eq!(read.field("usage"), Some(r#"{"zebra":1,"alpha":{"z":1,"a":2}}"#));
}

#[test]
fn case_24_a_nul_character_stays_in_the_payload_and_is_replaced_in_the_text() {
    let message = Message::user("before\0after");
    let entry = message.to_new_entry(AT).unwrap();
    assert_eq!(entry.text.as_deref(), Some("before\u{fffd}after"));
    assert!(entry.payload.as_str().contains("\\u0000"));
    let read = Message::parse(entry.payload).unwrap();
    assert_eq!(read.blocks()[0].as_text(), Some("before\0after"));
}

#[test]
fn case_25_a_message_over_the_limit_is_refused_before_it_becomes_an_entry() {
    let error = Message::user("x".repeat(PAYLOAD_BYTES)).to_new_entry(AT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let deep = payload(&format!("{}{}", "[".repeat(127), "]".repeat(127)));
    let error =
        Message::assistant_with_calls("", [ToolCall::new("c", "t", deep)]).to_new_entry(AT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[test]
fn every_kind_of_block_is_read_as_it_was_written() {
    let blocks = vec![
        Block::text("words"),
        Block::thinking("hm", Some("sig==".into())),
        Block::media(Media { uri: "blob:7".into(), media_type: Some("image/png".into()), name: None }),
        Block::tool_call(ToolCall::new("c1", "read", payload(r#"{"path":"a"}"#))),
        Block::tool_result(ToolResult::new("c1", "line", true)),
        Block::raw(payload(r#"{"type":"audio","n":1}"#)),
    ];
    let message = Message::new(Role::new(role::ASSISTANT).unwrap(), blocks.clone());
    let read = Message::parse(message.payload().clone()).unwrap();
    assert_eq!(read, message);
    assert_eq!(read.blocks(), blocks);
    for (read, written) in read.blocks().iter().zip(&blocks) {
        assert_eq!(read.content(), written.content());
    }
    assert_eq!(read.text(), "words\nline");
}

#[test]
fn changing_the_blocks_keeps_every_other_field() {
    let json = r#"{"id":9,"role":"assistant","content":[{"type":"text","text":"a","x":1},{"type":"y"}],"later":[ ]}"#;
    let message = Message::parse(payload(json)).unwrap();
    let fewer = message.with_blocks(message.blocks()[..1].to_vec());
    assert_eq!(
        fewer.payload().as_str(),
        r#"{"id":9,"role":"assistant","content":[{"type":"text","text":"a","x":1}],"later":[ ]}"#
    );
}

#[test]
fn content_may_be_a_plain_string_and_a_missing_role_comes_from_the_entry() {
    let message =
        Message::from_entry(&entry(entry_kind::MESSAGE, Some(role::USER), payload(r#"{"content":"hi"}"#)))
            .unwrap();
    assert!(message.is_from(role::USER));
    assert_eq!(message.text(), "hi");
    assert_eq!(message.payload().as_str(), r#"{"content":"hi"}"#);
}

#[test]
fn custom_messages_and_summaries_become_user_messages() {
    for (kind, json) in [
        (entry_kind::CUSTOM_MESSAGE, r#""note""#),
        (entry_kind::CUSTOM_MESSAGE, r#"{"content":"note"}"#),
        (entry_kind::COMPACTION, r#"{"summary":"note","version":1}"#),
        (entry_kind::BRANCH_SUMMARY, r#"{"summary":"note"}"#),
    ] {
        let message = Message::from_entry(&entry(kind, None, payload(json))).unwrap();
        assert!(message.is_from(role::USER), "{kind}");
        assert_eq!(message.text(), "note", "{kind}");
    }
}

#[test]
fn what_is_no_message_is_refused_with_the_number_of_the_entry() {
    for (kind, json) in [
        (entry_kind::MESSAGE, "[]"),
        (entry_kind::MESSAGE, "{}"),
        (entry_kind::COMPACTION, "{}"),
        (entry_kind::LABEL, r#"{"role":"user"}"#),
    ] {
        let error = Message::from_entry(&entry(kind, None, payload(json))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.context().any(|(name, value)| (name, value) == ("entry", "1")), "{kind}");
    }
}

#[test]
fn debug_output_holds_nobodys_words() {
    let call = ToolCall::new("c1", "read", payload(r#"{"path":"secret"}"#));
    let blocks = vec![
        Block::text("secret"),
        Block::thinking("secret", Some("secret".into())),
        Block::media(Media { uri: "secret".into(), media_type: None, name: Some("secret".into()) }),
        Block::tool_call(call),
        Block::tool_result(ToolResult::new("c1", "secret", false)),
    ];
    let message = Message::new(Role::new(role::USER).unwrap(), blocks);
    assert!(!format!("{message:?}").contains("secret"));
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), 0..40).prop_map(|chars| chars.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_words_come_back_as_they_went_in(words in text(), signature in text(), id in text()) {
        let message = Message::new(
            Role::new(role::ASSISTANT).unwrap(),
            vec![
                Block::text(&*words),
                Block::thinking(&*words, Some(signature.clone())),
                Block::tool_result(ToolResult::new(&*id, &*words, false)),
            ],
        );
        let read = Message::parse(Payload::new(message.payload().as_str()).unwrap()).unwrap();
        prop_assert_eq!(read.blocks()[0].as_text(), Some(&*words));
        prop_assert_eq!(read.blocks()[1].content(), message.blocks()[1].content());
        prop_assert_eq!(read.results().next().unwrap().call_id.as_str(), &*id);
        prop_assert!(!read.text().contains('\0'));
    }
}
