//! Killed and opened again, cycle after cycle, with exact books.

use std::collections::BTreeMap;

use turnkeep_core::commit::{Commit, Op, Put};
use turnkeep_core::{Expect, SessionRef};

use crate::clause::Running;
use crate::context::Context;
use crate::crash::{self, Moment, number_in};
use crate::kit::{Kit, event, keyed, name, put, user};
use crate::verdict::{Outcome, Stop};

const SESSIONS: u64 = 3;
/// Steps of a process that nobody kills.
const MOST: u64 = 500;

/// What a step changes, by its number alone.
fn step(kit: &Kit, number: u64, sessions: &[SessionRef]) -> Commit {
    let session = &sessions[(number % SESSIONS) as usize];
    let text = |part: u64| user(&format!("step {number}, part {part}"));
    let commit = kit.commit().request(kit.request(&format!("step {number}"), session));
    let append = |entries| Op::Append { session: session.clone(), entries };
    let key = format!("key-{}", number % 5);
    match number % 4 {
        0 => commit.op(append(vec![text(0)])),
        1 => commit
            .op(append(vec![text(0), keyed(&format!("step-{number}"), &format!("step {number}, part 1"))])),
        2 => {
            let owned =
                Put { owner: Some(session.clone()), ..put("of", session.id.as_str(), &number.to_string()) };
            commit.op(Op::PutRecord(put("c", &key, &number.to_string()))).op(Op::PutRecord(owned))
        }
        _ => {
            let unput =
                Op::DeleteRecord { collection: name("c"), key: name(&key), owner: None, expect: Expect::Any };
            let events = vec![event("step", number), event("step", number)];
            commit.op(unput).op(Op::AppendEvents {
                session: session.clone(),
                stream: name("steps"),
                expect_next: None,
                events,
            })
        }
    }
}

/// Everything that the steps changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    texts: [Vec<String>; SESSIONS as usize],
    events: [Vec<String>; SESSIONS as usize],
    records: BTreeMap<String, String>,
}

impl Content {
    /// What it is after the steps `1..=last`, as the words of the steps say it.
    fn after(last: u64) -> Self {
        let mut content = Self::default();
        for number in 1..=last {
            let at = (number % SESSIONS) as usize;
            let key = format!("c/key-{}", number % 5);
            let text = |part: u64| format!("step {number}, part {part}");
            match number % 4 {
                0 => content.texts[at].push(text(0)),
                1 => content.texts[at].extend([text(0), text(1)]),
                2 => {
                    content.records.insert(key, number.to_string());
                    content.records.insert(format!("of/session-{at}"), number.to_string());
                }
                _ => {
                    content.records.remove(&key);
                    content.events[at].extend([format!("{{\"n\":{number}}}"), format!("{{\"n\":{number}}}")]);
                }
            }
        }
        content
    }

    /// What the store has.
    async fn of(kit: &Kit, sessions: &[SessionRef]) -> Outcome<Self> {
        let mut content = Self::default();
        for (at, session) in sessions.iter().enumerate() {
            for (number, entry) in (1..).zip(kit.entries(session).await?) {
                ensure_eq!(entry.number, crate::kit::no(number), "the next number in {session}");
                content.texts[at].push(entry.text.unwrap_or_default());
            }
            let events = kit.events(kit.stream(session, "steps")).await?;
            content.events[at] = events.iter().map(|event| event.payload.as_str().to_owned()).collect();
        }
        for collection in ["c", "of"] {
            for record in kit.records(kit.collection(collection)).await? {
                let key = format!("{collection}/{}", record.key);
                content.records.insert(key, record.payload.as_str().to_owned());
            }
        }
        Ok(content)
    }
}

fn id(at: u64) -> String {
    format!("session-{at}")
}

async fn sessions(kit: &Kit) -> Outcome<Vec<SessionRef>> {
    let mut sessions = Vec::new();
    for at in 0..SESSIONS {
        sessions.push(kit.there(&id(at)).await?);
    }
    Ok(sessions)
}

/// Goes on from the step that the role names, which may be there already.
pub(super) fn go_on<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let first = number_in(role)?;
        let kit = cx.kit().await?;
        let sessions = sessions(&kit).await?;
        for number in first..first + MOST {
            crash::begin(&number.to_string())?;
            let receipt = kit.apply(step(&kit, number, &sessions)).await?;
            ensure!(!receipt.replayed || number == first, "step {number} is known before it was made");
            crash::done(&number.to_string())?;
        }
        Ok(())
    })
}

/// Smoke: 8 cycles, full: 20, soak: 500; every third kill comes while the store opens, and after every other one the
/// next process opens it without anybody having closed it in between.
pub(super) async fn rec_004_contents_are_exact_after_many_kills(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    for at in 0..SESSIONS {
        kit.create(&id(at)).await?;
    }
    let of = sessions(&kit).await?;
    cx.leave(kit).await?;
    let mut done = 0;
    for cycle in 0..cx.scaled(8, 20, 500) {
        let moment = match cycle % 3 {
            2 => Moment::line(0).later(cx.pick("REC-004", cycle, 30_000)),
            _ => cx.moment("REC-004", cycle, 24),
        };
        let books = cx.killed(&format!("go on from {}", done + 1), moment).await?;
        for step in &books.done {
            done += 1;
            ensure_eq!(*step, done.to_string(), "the step that was acknowledged next");
        }
        if cycle % 2 == 0 {
            let kit = cx.kit().await?;
            exact(&kit, &of, done).await?;
            cx.leave(kit).await?;
        }
    }
    let kit = cx.kit().await?;
    let landed = exact(&kit, &of, done).await?;
    // The step in flight is known by its request, or it is not there: a repeat makes it exact.
    let receipt = kit.apply(step(&kit, done + 1, &of)).await?;
    ensure_eq!(receipt.replayed, landed, "whether the step in flight was known by its request");
    exact(&kit, &of, done + 1).await?;
    cx.count("steps", done);
    Ok(())
}

/// The store has the steps `1..=done` exactly, or those and the one in flight. Answers whether it has that.
async fn exact(kit: &Kit, of: &[SessionRef], done: u64) -> Outcome<bool> {
    let seen = Content::of(kit, of).await?;
    for landed in [false, true] {
        if seen == Content::after(done + u64::from(landed)) {
            return Ok(landed);
        }
    }
    let expected = Content::after(done);
    Err(Stop::fail(format!(
        "after {done} acknowledged steps the store has neither these nor one more: {} and {} of {} and {} entries and \
         events, records {:?} instead of {:?}",
        seen.texts.iter().map(Vec::len).sum::<usize>(),
        seen.events.iter().map(Vec::len).sum::<usize>(),
        expected.texts.iter().map(Vec::len).sum::<usize>(),
        expected.events.iter().map(Vec::len).sum::<usize>(),
        seen.records,
        expected.records,
    )))
}
