//! Trouble that users of other stores reported, as far as the rules alone decide it.

use turnkeep_core::commit::NewEntry;
use turnkeep_core::limits::{Limits, PAYLOAD_BYTES};
use turnkeep_core::model::SessionState;
use turnkeep_core::rules::validate;
use turnkeep_core::{ErrorKind, Payload};

use crate::kit::{append, commit, create, json, message, session, stamp};
use crate::naive::Naive;

#[test]
fn case_24_an_escaped_nul_is_kept_and_a_raw_one_refused_alike_everywhere() {
    let mut store = Naive::default();
    let s = session("s", 1);
    let escaped = json(r#"{"text":"a\u0000b"}"#);
    let entry = NewEntry { payload: escaped.clone(), ..message("a b") };
    let ops = commit().op(create(&s, SessionState::Active)).op(append(&s, vec![entry]));
    assert!(validate(&ops, &Limits::default()).is_ok());
    store.commit(&ops, &stamp(1)).unwrap();
    assert_eq!(store.life(&s).entries[0].payload.as_str(), escaped.as_str());
    assert_eq!(Payload::new("\"a\0b\"").unwrap_err().kind(), ErrorKind::Invalid);
    let raw = commit().op(append(&s, vec![message("a\0b")]));
    assert_eq!(validate(&raw, &Limits::default()).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn case_25_what_is_too_large_is_refused_before_it_is_saved() {
    let large = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES));
    assert_eq!(Payload::new(large).unwrap_err().kind(), ErrorKind::TooLarge);
    // A store that takes less says so before it looks anything up.
    let limits = Limits::default().with_payload_bytes(8);
    let entry = NewEntry { payload: json("\"123456789\""), ..message("x") };
    let ops = commit().op(append(&session("s", 1), vec![message("fine"), entry]));
    assert_eq!(validate(&ops, &limits).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn case_27_payloads_keep_the_order_of_their_keys() {
    let mut store = Naive::default();
    let s = session("s", 1);
    let text = r#"{"zebra":1,"alpha":{"z":1,"a":2}}"#;
    let entry = NewEntry { payload: json(text), ..message("x") };
    let ops = commit().op(create(&s, SessionState::Active)).op(append(&s, vec![entry]));
    store.commit(&ops, &stamp(1)).unwrap();
    assert_eq!(store.life(&s).entries[0].payload.as_str(), text);
}

#[test]
fn case_63_creating_under_a_used_id_replaces_nothing() {
    let mut store = Naive::default();
    let s = session("s", 1);
    let ops = commit().op(create(&s, SessionState::Active)).op(append(&s, vec![message("kept")]));
    store.commit(&ops, &stamp(1)).unwrap();
    let before = store.clone();
    for state in [SessionState::Active, SessionState::Restoring] {
        let again = commit().op(create(&session("s", 2), state));
        assert_eq!(store.commit(&again, &stamp(2)).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let twice = commit().op(create(&session("t", 3), state)).op(create(&session("t", 4), state));
        assert_eq!(store.commit(&twice, &stamp(2)).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    assert_eq!(store, before);
}
