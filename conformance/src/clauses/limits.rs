//! Limits and values: what goes in comes out byte for byte, and what is too much is said.

mod exact;

use turnkeep_core::commit::{NewEntry, NewRun, Op, RunPatch, SessionPatch};
use turnkeep_core::model::{Channel, Profile, Title, TitleSource, Usage};
use turnkeep_core::query::EntryQuery;
use turnkeep_core::{ErrorKind, Payload, Timestamp};

use crate::context::Context;
use crate::kit::{event, keyed, name, no, payload, put, run, user};
use crate::verdict::Outcome;
use exact::lim_008_one_more_than_a_limit_is_refused;

clauses! { ($) limits_tests;
    "LIM-001" lim_001_odd_characters_come_back_byte_for_byte_case_24 {
        title: "JSON escapes, NUL escapes among them, and emoji come back byte for byte; raw NUL and lone surrogates are refused, alike everywhere.",
        why: "A NUL that one engine takes and another refuses ends a session after a move.",
        links: &["langchain-ai/langgraph#1878", "getsentry/junior#897", "THU-MAIC/OpenMAIC#1493"],
        catches: "a backend that stores parsed JSON, or cuts text at a NUL",
        cases: &["case-24"],
    }
    "LIM-002" lim_002_empty_differs_from_absent {
        title: "An empty text, an empty object and null differ from an absent value, in every optional field.",
        why: "Oracle-like columns and careless mappings merge the two.",
        catches: "a backend that stores an empty text as NULL",
    }
    "LIM-003" lim_003_the_limit_fits_and_one_more_is_refused_case_25 {
        title: "A payload, text, column or id of exactly the limit is kept; one byte more answers TooLarge, leaves nothing, and the session stays usable.",
        why: "An oversized attachment that is stored poisons every later turn.",
        links: &["earendil-works/pi#224", "github/copilot-cli#3767"],
        catches: "a backend that truncates, or refuses what it declared to take",
        cases: &["case-25"],
    }
    "LIM-004" lim_004_extreme_numbers_survive {
        title: "Numbers in payloads keep their spelling whatever their size; counters saturate at the largest i64; times may be any i64.",
        why: "Parsed and printed again, 1.0 becomes 1 and large integers lose digits.",
        catches: "a backend that parses numbers into f64",
    }
    "LIM-005" lim_005_deep_json_is_kept_to_the_limit {
        title: "JSON nested to the limit is kept exactly; one level more is refused with TooLarge.",
        why: "Recursive parsers overflow their stack on what another writer could store.",
        catches: "a backend that parses payloads recursively",
    }
    "LIM-006" lim_006_a_commit_may_exceed_engine_parameters {
        title: "A commit of tens of thousands of entries, and one of as many operations as declared, work: engine parameter limits never show.",
        why: "SQLite takes 32,766 bound parameters and PostgreSQL 65,535.",
        catches: "a backend that builds one statement for a whole batch",
    }
    "LIM-007" lim_007_unknown_kinds_roles_and_fields_are_kept_case_27 {
        title: "Unknown kinds, roles, relations and fields are kept and given back, and payload keys keep their order.",
        why: "Reordered keys miss the prompt cache and make equal items look different.",
        links: &["mastra-ai/mastra#17439"],
        catches: "a backend that stores jsonb, or an enum of the kinds it knows",
        cases: &["case-27"],
    }
    "LIM-008" lim_008_one_more_than_a_limit_is_refused {
        title: "Exactly as much as a limit says is taken, and one more is refused with nothing changed: bytes of a commit wherever they are, rows of a slice, references of an entry, time of a lease, size of a receipt, age of a request id, and the numbers that a copy brings along.",
        why: "A limit that is off by one, or that one way in forgets, is found by the largest conversation.",
        catches: "a backend that counts the bytes of entries only, or lets a copy bring numbers that it cannot count on from",
    }
}

/// JSON texts that must come back as they are.
const EXACT: &[&str] = &[
    r#""\u0000""#,
    r#"{"a\u0000b":"\u0000\u0001\u001f"}"#,
    r#"{"zebra":1,"alpha":{"z":1,"a":2}}"#,
    r#"{"a":1,"a":2,"":3}"#,
    r#""😀 \ud83d\ude00 \\u0000 \\ \/ \" \b\f\n\r\t""#,
    "\"e\u{301} \u{e9} \u{202e} \u{feff} \u{fffd} \u{10ffff} \u{7f}\"",
    " { \"a\" :\n\t[ 1 ,2 ] } ",
    "[]",
    "{}",
    "null",
    "true",
    "\"\"",
    "0",
];

async fn lim_001_odd_characters_come_back_byte_for_byte_case_24(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    for (at, json) in EXACT.iter().enumerate() {
        let entry = NewEntry { payload: payload(json), ..user("x") };
        let mut event = event("e", 0);
        event.payload = payload(json);
        let mut started = kit.appending(&session, vec![entry]);
        let id = format!("r{at}");
        started = started
            .op(Op::AppendEvents {
                session: session.clone(),
                stream: name("notes"),
                expect_next: None,
                events: vec![event],
            })
            .op(Op::PutRecord(put("c", &format!("k{at:02}"), json)))
            .op(Op::StartRun { session: session.clone(), run: run(&id) })
            .op(Op::PatchRun {
                session: session.clone(),
                run: name(&id),
                patch: RunPatch { progress: Some(Some(payload(json))), ..RunPatch::default() },
            })
            .op(kit.moving(&session, &name(&id), turnkeep_core::model::RunState::Completed))
            .op(Op::PatchSession {
                session: session.clone(),
                patch: SessionPatch { meta: Some(Some(payload(json))), ..SessionPatch::default() },
            });
        kit.apply(started).await?;
        let meta = kit.row(&session).await?.profile.meta;
        ensure_eq!(meta.as_ref().map(Payload::as_str), Some(*json), "host data of the session");
    }
    let reader = cx.kit().await?;
    let entries = reader.entries(&session).await?;
    let events = reader.events(reader.stream(&session, "notes")).await?;
    let records = reader.records(reader.collection("c")).await?;
    let runs = reader.runs(reader.runs_of(&session)).await?;
    let seen = |payloads: Vec<&Payload>| payloads.iter().map(|p| p.as_str().to_owned()).collect::<Vec<_>>();
    ensure_eq!(seen(entries.iter().map(|e| &e.payload).collect()), EXACT, "payloads of entries");
    ensure_eq!(seen(events.iter().map(|e| &e.payload).collect()), EXACT, "payloads of events");
    ensure_eq!(seen(records.iter().map(|r| &r.payload).collect()), EXACT, "payloads of records");
    ensure_eq!(seen(runs.iter().filter_map(|r| r.progress.as_ref()).collect()), EXACT, "progress of runs");

    let texts = ["😀", "\u{feff}mark", "line\nbreak\ttab\r\n", "\u{10ffff}", "'\"\\%_", "e\u{301}"];
    kit.append(&session, texts.iter().map(|text| user(text)).collect()).await?;
    ensure_eq!(reader.texts(&session).await?[EXACT.len()..], texts, "texts");
    let before = kit.snapshot().await?;
    for json in ["\"\u{0}\"", "\"\\ud800\"", "\"\\udc00 x\"", "{\"\\ud800\":1}", "nul", "", "{\"a\":}"] {
        ensure_refused!(Payload::new(json), ErrorKind::Invalid, "the payload {json:?}");
    }
    let nul = NewEntry { text: Some("a\0b".to_owned()), ..user("x") };
    kit.refused(kit.appending(&session, vec![nul]), ErrorKind::Invalid).await?;
    let patch = SessionPatch { cwd: Some(Some("a\0b".to_owned())), ..SessionPatch::default() };
    kit.refused(kit.commit().op(Op::PatchSession { session: session.clone(), patch }), ErrorKind::Invalid)
        .await?;
    kit.unchanged(&before, "refused characters").await?;
    Ok(())
}

async fn lim_002_empty_differs_from_absent(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let text = |present: bool| present.then(String::new);
    for present in [false, true] {
        let session = kit.life(if present { "empty" } else { "absent" });
        let mut new = kit.new_session(&session);
        new.profile = Profile {
            title: present.then(|| Title { text: String::new(), source: TitleSource::Manual }),
            cwd: text(present),
            project: text(present),
            channel: present.then(|| Channel { kind: String::new(), id: String::new() }),
            meta: present.then(|| payload("null")),
            ..Profile::default()
        };
        let profile = new.profile.clone();
        // The model is set when it is known, which is later than the rest.
        let fields = NewRun {
            source: text(present),
            model: (!present).then(|| "another".to_owned()),
            mode: text(present),
            work_dir: text(present),
            ..run("r")
        };
        let patch = RunPatch {
            error: Some(present.then(|| payload("null"))),
            progress: Some(present.then(|| payload("{}"))),
            context_usage: Some(present.then(|| payload("\"\""))),
            model: Some(text(present)),
        };
        let entry = NewEntry { text: text(present), role: None, ..user("x") };
        let commit = kit
            .commit()
            .op(Op::CreateSession(new))
            .op(Op::Append { session: session.clone(), entries: vec![entry] })
            .op(Op::StartRun { session: session.clone(), run: fields });
        kit.apply(commit).await?;
        let patch = Op::PatchRun { session: session.clone(), run: name("r"), patch };
        kit.apply(kit.commit().op(patch)).await?;
        let reader = cx.kit().await?;
        ensure_eq!(reader.row(&session).await?.profile, profile, "the profile, fields present: {present}");
        let entries = reader.entries(&session).await?;
        let seen: Vec<_> =
            entries.iter().map(|entry| (entry.text.clone(), entry.role.clone(), entry.key.clone())).collect();
        ensure_eq!(seen, [(text(present), None, None)], "the entry, fields present: {present}");
        let run = reader.find_run(&session, "r").await?;
        let seen = run.map(|run| {
            (run.source, run.model, run.mode, run.work_dir, [run.error, run.progress, run.context_usage])
        });
        let json = [
            present.then(|| payload("null")),
            present.then(|| payload("{}")),
            present.then(|| payload("\"\"")),
        ];
        let expected = (text(present), text(present), text(present), text(present), json);
        ensure_eq!(seen, Some(expected), "the run, fields present: {present}");
    }
    let session = kit.life("third");
    kit.apply(kit.commit().op(Op::CreateSession(kit.new_session(&session)))).await?;
    for value in [Some(String::new()), Some("x".to_owned()), None, Some(String::new())] {
        let patch = SessionPatch { cwd: Some(value.clone()), ..SessionPatch::default() };
        kit.apply(kit.commit().op(Op::PatchSession { session: session.clone(), patch })).await?;
        ensure_eq!(kit.row(&session).await?.profile.cwd, value, "a directory that was set");
    }
    // Set by somebody who has not read the session yet, to what another session has.
    let patch = SessionPatch { meta: Some(Some(payload("null"))), ..SessionPatch::default() };
    let stranger = cx.kit().await?;
    stranger.apply(stranger.commit().op(Op::PatchSession { session: session.clone(), patch })).await?;
    ensure_eq!(kit.row(&session).await?.profile.meta, Some(payload("null")), "the host's data that was set");
    Ok(())
}

async fn lim_003_the_limit_fits_and_one_more_is_refused_case_25(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let most = kit.store.info().limits.payload_bytes;
    let sized = |bytes: usize| Payload::new(format!("\"{}\"", "x".repeat(bytes - 2)));
    let entry = |payload: Payload| NewEntry { payload, text: None, ..user("") };
    let number = kit.append(&session, vec![entry(sized(most)?)]).await?;
    let stored = kit.entries(&session).await?;
    let bytes: Vec<_> = stored.iter().map(|entry| entry.payload.as_str().len()).collect();
    ensure_eq!(bytes, [most], "bytes of a payload of exactly the limit");
    let before = kit.row(&session).await?;
    match sized(most + 1) {
        Ok(over) => {
            kit.refused(kit.appending(&session, vec![user("x"), entry(over)]), ErrorKind::TooLarge).await?;
        }
        Err(error) => {
            ensure_refused!(Err::<(), _>(error), ErrorKind::TooLarge, "a payload over the limit");
        }
    }
    let long = "y".repeat(most);
    kit.append(&session, vec![NewEntry { text: Some(long.clone()), ..user("") }]).await?;
    let over = NewEntry { text: Some(format!("{long}y")), ..user("") };
    kit.refused(kit.appending(&session, vec![over]), ErrorKind::TooLarge).await?;
    let column = |bytes: usize| {
        let patch = SessionPatch { cwd: Some(Some("z".repeat(bytes))), ..SessionPatch::default() };
        kit.commit().op(Op::PatchSession { session: session.clone(), patch })
    };
    kit.apply(column(turnkeep_core::limits::COLUMN_BYTES)).await?;
    kit.refused(column(turnkeep_core::limits::COLUMN_BYTES + 1), ErrorKind::TooLarge).await?;
    let cwd = kit.row(&session).await?.profile.cwd;
    ensure_eq!(cwd.map(|cwd| cwd.len()), Some(turnkeep_core::limits::COLUMN_BYTES), "bytes of the directory");
    let id = "i".repeat(turnkeep_core::limits::ID_BYTES);
    kit.create(&id).await?;
    kit.append(&session, vec![keyed(&id, "long key")]).await?;
    ensure!(kit.find(&id).await?.is_some(), "a session id of exactly the limit is not found");
    let longer = format!("{id}i").parse::<turnkeep_core::SessionId>();
    ensure_refused!(longer, ErrorKind::TooLarge, "a session id over the limit");

    let row = kit.row(&session).await?;
    ensure_eq!(
        row.head.map(|head| head.get()),
        before.head.map(|head| head.get() + 2),
        "entries after refusals"
    );
    ensure_eq!(number, [no(1)], "the number of the largest entry");
    kit.say(&session, "still usable").await?;
    let last = EntryQuery { after: Some(no(3)), ..kit.committed(&session) };
    ensure_eq!(kit.walk(last).await?.len(), 1, "entries after the large ones");
    Ok(())
}

async fn lim_004_extreme_numbers_survive(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let numbers = "[9223372036854775807,-9223372036854775808,18446744073709551615,18446744073709551616,\
                   9007199254740993,1.0,1.10,-0,-0.0,1e400,1E-400,0.1e1,5e-324,1.7976931348623157e308,\
                   123456789012345678901234567890.123456789012345678901234567890]";
    kit.append(&session, vec![NewEntry { payload: payload(numbers), ..user("x") }]).await?;
    let reader = cx.kit().await?;
    let seen = reader.entries(&session).await?.first().map(|entry| entry.payload.as_str().to_owned());
    ensure_eq!(seen.as_deref(), Some(numbers), "numbers in a payload");

    let times = [i64::MIN, i64::MIN + 1, -1, 0, 1, 1 << 53, i64::MAX];
    let entries = times.iter().map(|time| NewEntry { at: Timestamp::from_millis(*time), ..user("t") });
    kit.append(&session, entries.collect()).await?;
    let seen: Vec<_> =
        reader.entries(&session).await?.iter().skip(1).map(|entry| entry.at.as_millis()).collect();
    ensure_eq!(seen, times, "times of entries");

    const MOST: u64 = i64::MAX as u64;
    kit.start(&session, run("r")).await?;
    let add = |usage| kit.commit().op(Op::AddUsage { session: session.clone(), run: Some(name("r")), usage });
    let small = Usage {
        input_tokens: 5,
        output_tokens: 1,
        requests: 2,
        total_tokens: 3,
        cache_read_tokens: 4,
        cache_write_tokens: 6,
        duration_ms: 7,
    };
    kit.apply(add(Usage { input_tokens: MOST - 1, output_tokens: u64::MAX, ..small })).await?;
    kit.apply(add(small)).await?;
    let expected = Usage {
        input_tokens: MOST,
        output_tokens: MOST,
        requests: 4,
        total_tokens: 6,
        cache_read_tokens: 8,
        cache_write_tokens: 12,
        duration_ms: 14,
    };
    ensure_eq!(reader.row(&session).await?.usage, expected, "saturated counters of the session");
    let run = reader.find_run(&session, "r").await?;
    ensure_eq!(run.map(|run| run.usage), Some(expected), "saturated counters of the run");
    Ok(())
}

async fn lim_005_deep_json_is_kept_to_the_limit(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let most = kit.store.info().limits.payload_depth;
    let arrays = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", "{\"k\":".repeat(depth), "}".repeat(depth));
    let deep = [arrays(most), objects(most), format!("\"{}\"", "[".repeat(most * 4))];
    let entries = deep.iter().map(|json| NewEntry { payload: payload(json), ..user("x") });
    kit.append(&session, entries.collect()).await?;
    let seen: Vec<_> = kit.entries(&session).await?.iter().map(|e| e.payload.as_str().to_owned()).collect();
    ensure_eq!(seen, deep, "payloads at the depth limit");
    let before = kit.snapshot().await?;
    for json in [arrays(most + 1), objects(most + 1), arrays(100_000)] {
        match Payload::new(json) {
            Err(error) => {
                ensure_refused!(Err::<(), _>(error), ErrorKind::TooLarge, "a payload over the depth limit");
            }
            Ok(payload) => {
                let entry = NewEntry { payload, ..user("x") };
                kit.refused(kit.appending(&session, vec![entry]), ErrorKind::TooLarge).await?;
            }
        }
    }
    kit.unchanged(&before, "payloads over the depth limit").await?;
    Ok(())
}

async fn lim_006_a_commit_may_exceed_engine_parameters(cx: &Context) -> Outcome {
    const ENTRIES: usize = 33_000;
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let entry = |at: usize| {
        let mut entry = NewEntry { payload: payload("{}"), text: None, ..user("") };
        entry.key = at.is_multiple_of(1_000).then(|| name(&format!("key {at}")));
        entry
    };
    let receipt = kit.apply(kit.appending(&session, (0..ENTRIES).map(entry).collect())).await?;
    ensure_eq!(receipt.entries(0).count(), ENTRIES, "numbers in the receipt");
    let last = EntryQuery { after: Some(no(ENTRIES as u32 - 1)), ..kit.committed(&session) };
    ensure_eq!(kit.walk(last).await?.len(), 1, "the last entry of a large batch");

    let ops = kit.store.info().limits.commit_ops;
    let mut many = kit.commit();
    for at in 0..ops {
        many = many.op(Op::PutRecord(put("c", &format!("k{at}"), "1")));
    }
    kit.apply(many).await?;
    let records =
        kit.records(turnkeep_core::query::RecordQuery { limit: 10_000, ..kit.collection("c") }).await?;
    ensure_eq!(records.len(), ops, "records of a commit with as many operations as declared");

    let kinds = (0..3_000).map(|at| name(&format!("kind {at}"))).chain([name("message")]).collect();
    let roles = (0..3_000).map(|at| name(&format!("role {at}"))).chain([name("user")]).collect();
    let wide = EntryQuery { kinds, roles, before: Some(no(11)), ..kit.committed(&session) };
    ensure_eq!(kit.walk(wide).await?.len(), 10, "entries under thousands of kinds and roles");
    Ok(())
}

async fn lim_007_unknown_kinds_roles_and_fields_are_kept_case_27(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let json = r#"{"zebra":1,"alpha":{"z":1,"a":2},"x-future":[{"type":"hologram","b":null,"a":1}]}"#;
    let mut odd = NewEntry { payload: payload(json), ..user("words") };
    odd.kind = name("x-hologram/9");
    odd.role = Some(name("narrator 🎭"));
    odd.turn = Some(name("turn zero"));
    odd.run = Some(name("a run that is not there"));
    odd.refs = vec![(name("x-inspired-by"), turnkeep_core::commit::RefTarget::Number(no(1)))];
    kit.append(&session, vec![user("first"), odd.clone()]).await?;
    let mut event = event("x-flash", 1);
    event.payload = payload(json);
    let events = Op::AppendEvents {
        session: session.clone(),
        stream: name("x-host/stream"),
        expect_next: None,
        events: vec![event],
    };
    let mut record = put("x-host-things", "k", json);
    record.status = Some(name("half-baked"));
    kit.apply(kit.commit().op(events).op(Op::PutRecord(record))).await?;

    let reader = cx.kit().await?;
    let query = EntryQuery { kinds: vec![odd.kind.clone()], ..reader.committed(&session) };
    let seen = reader.walk(query).await?;
    ensure_eq!(seen.len(), 1, "entries of an unknown kind");
    let seen = &seen[0];
    ensure_eq!(seen.payload.as_str(), json, "the payload of an unknown kind");
    let fields = (&seen.kind, &seen.role, &seen.turn, &seen.run, &seen.text);
    ensure_eq!(fields, (&odd.kind, &odd.role, &odd.turn, &odd.run, &odd.text), "fields of an unknown kind");
    ensure_eq!(
        seen.refs.iter().map(|r| (r.relation.as_str(), r.entry)).collect::<Vec<_>>(),
        [("x-inspired-by", no(1))],
        "references"
    );
    let events = reader.events(reader.stream(&session, "x-host/stream")).await?;
    ensure_eq!(
        events.iter().map(|e| (e.kind.as_str(), e.payload.as_str())).collect::<Vec<_>>(),
        [("x-flash", json)],
        "events"
    );
    let record = reader.record("x-host-things", "k").await?;
    let seen = record.as_ref().map(|r| (r.payload.as_str(), r.status.as_ref().map(|s| s.as_str())));
    ensure_eq!(seen, Some((json, Some("half-baked"))), "the record");
    ensure_eq!(reader.row(&session).await?.messages, 1, "messages, of which an unknown kind is none");
    Ok(())
}
