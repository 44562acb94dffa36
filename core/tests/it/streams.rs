//! Event streams: numbers, floors, repeats and the end.

use turnkeep_core::commit::{NewEvent, Op, Outcome};
use turnkeep_core::model::SessionState;
use turnkeep_core::{ErrorKind, Result, SessionRef};

use crate::kit::{at, commit, create, json, name, run_id, session, stamp};
use crate::naive::Naive;

struct Bench {
    store: Naive,
    session: SessionRef,
}

impl Bench {
    fn new() -> Self {
        let (mut store, session) = (Naive::default(), session("s", 1));
        store.commit(&commit().op(create(&session, SessionState::Active)), &stamp(1)).unwrap();
        Self { store, session }
    }

    fn append(&mut self, expect_next: Option<u64>, payloads: &[&str]) -> Result<(u64, u64), ErrorKind> {
        let event = |payload: &&str| NewEvent {
            kind: name("delta"),
            run: Some(run_id("r")),
            at: at(self.store.moves as i64),
            payload: json(payload),
        };
        let events = payloads.iter().map(event).collect();
        let op = Op::AppendEvents {
            session: self.session.clone(),
            stream: name("partial/t"),
            expect_next,
            events,
        };
        let before = self.store.clone();
        match self.store.commit(&commit().op(op), &stamp(2)) {
            Ok(receipt) => match receipt.outcomes[0] {
                Outcome::Events { first, last } => Ok((first, last)),
                ref other => panic!("{other:?}"),
            },
            Err(error) => {
                assert_eq!(self.store, before);
                Err(error.kind())
            }
        }
    }

    fn drop_through(&mut self, through: Option<u64>, close: bool) {
        let session = self.session.clone();
        let op = Op::DropEvents { session, stream: name("partial/t"), through, close };
        self.store.commit(&commit().op(op), &stamp(3)).unwrap();
    }

    /// Head, floor, closed, and the numbers that are left.
    fn state(&self) -> (u64, u64, bool, Vec<u64>) {
        let (row, events) = &self.store.life(&self.session).streams[&name("partial/t")];
        (row.head, row.floor, row.closed, events.iter().map(|event| event.number).collect())
    }

    fn revision(&self) -> u64 {
        self.store.row(&self.session).unwrap().revision
    }
}

#[test]
fn numbers_go_on_after_everything_was_dropped() {
    let mut bench = Bench::new();
    assert_eq!(bench.append(None, &["1", "2", "3"]), Ok((1, 3)));
    bench.drop_through(Some(2), false);
    assert_eq!(bench.state(), (3, 2, false, vec![3]));
    bench.drop_through(None, false);
    assert_eq!(bench.state(), (3, 3, false, vec![]));
    assert_eq!(bench.append(None, &["4"]), Ok((4, 4)));
    assert_eq!(bench.state(), (4, 3, false, vec![4]));
}

#[test]
fn a_floor_never_sinks_and_never_passes_the_head() {
    let mut bench = Bench::new();
    bench.append(None, &["1", "2", "3"]).unwrap();
    bench.drop_through(Some(2), false);
    let revision = bench.revision();
    bench.drop_through(Some(1), false);
    assert_eq!(bench.revision(), revision, "there is nothing to do");
    bench.drop_through(Some(1), true);
    assert_eq!(bench.state(), (3, 2, true, vec![3]), "closing does not bring back what was dropped");
    bench.drop_through(Some(99), false);
    assert_eq!(bench.state(), (3, 3, true, vec![]));
}

#[test]
fn a_closed_stream_takes_nothing_more_also_when_nobody_ever_wrote_to_it() {
    let mut bench = Bench::new();
    bench.drop_through(None, true);
    assert_eq!(bench.append(None, &["1"]), Err(ErrorKind::TurnNotOpen));
    assert_eq!(bench.append(Some(1), &["1"]), Err(ErrorKind::TurnNotOpen));
    assert_eq!(bench.state(), (0, 0, true, vec![]));
}

#[test]
fn the_newest_batch_may_be_repeated_and_a_gap_or_another_batch_is_refused() {
    let mut bench = Bench::new();
    assert_eq!(bench.append(Some(2), &["1"]), Err(ErrorKind::VersionConflict), "a gap");
    assert_eq!(bench.append(Some(0), &["1"]), Err(ErrorKind::VersionConflict));
    assert_eq!(bench.append(Some(1), &["1", "2"]), Ok((1, 2)));
    let revision = bench.revision();
    assert_eq!(bench.append(Some(1), &["1", "2"]), Ok((1, 2)), "a repeat, though it is stamped anew");
    assert_eq!(bench.revision(), revision);
    assert_eq!(bench.append(Some(1), &["1"]), Err(ErrorKind::VersionConflict), "a part of it");
    assert_eq!(bench.append(Some(2), &["2"]), Err(ErrorKind::VersionConflict), "its end");
    assert_eq!(bench.append(Some(1), &["1", "3"]), Err(ErrorKind::VersionConflict), "other words");
    assert_eq!(bench.append(Some(3), &["1", "2"]), Ok((3, 4)));
    assert_eq!(bench.append(Some(1), &["1", "2"]), Err(ErrorKind::VersionConflict), "no longer the newest");
    assert_eq!(bench.state().0, 4);
    // A repeat is known also when the stream was closed or cut meanwhile.
    bench.drop_through(None, true);
    assert_eq!(bench.append(Some(3), &["1", "2"]), Ok((3, 4)));
    assert_eq!(bench.append(Some(5), &["1"]), Err(ErrorKind::TurnNotOpen));
    assert_eq!(bench.state(), (4, 4, true, vec![]));
}

#[test]
fn a_batch_that_did_not_say_where_it_goes_cannot_be_repeated() {
    let mut bench = Bench::new();
    assert_eq!(bench.append(None, &["1"]), Ok((1, 1)));
    assert_eq!(bench.append(Some(1), &["1"]), Err(ErrorKind::VersionConflict));
    assert_eq!(bench.append(Some(2), &["1"]), Ok((2, 2)));
    assert_eq!(bench.append(None, &["1"]), Ok((3, 3)));
    assert_eq!(bench.append(Some(2), &["1"]), Err(ErrorKind::VersionConflict));
}
