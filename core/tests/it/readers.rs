//! Reads on threads of their own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use turnkeep_core::ErrorKind;
use turnkeep_core::error::Error;
use turnkeep_core::local::Readers;

use crate::fake_engine::{poll_once, wait};

/// Readers whose connections are numbers.
fn readers(count: usize) -> Readers<usize> {
    Readers::start((0..count).collect()).unwrap()
}

#[test]
fn every_connection_reads_at_once() {
    let readers = readers(4);
    let meet = Arc::new(Barrier::new(4));
    let mut reads: Vec<_> = (0..4)
        .map(|_| {
            let meet = Arc::clone(&meet);
            // Nobody passes before all four stand here.
            Box::pin(readers.read("read", move |conn| {
                meet.wait();
                Ok(*conn)
            }))
        })
        .collect();
    assert!(reads.iter_mut().all(|read| poll_once(read).is_pending()));
    let mut seen: Vec<usize> = reads.into_iter().map(|read| wait(read).unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3]);
}

#[test]
fn many_more_callers_than_threads_are_all_served() {
    let readers = readers(2);
    let served = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let (readers, served) = (&readers, &served);
            scope.spawn(move || {
                for round in 0..200 {
                    let answer = wait(readers.read("read", move |_| Ok(caller * 1000 + round)));
                    assert_eq!(answer.unwrap(), caller * 1000 + round);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(served.into_inner(), 1600);
}

#[test]
fn a_refusal_names_the_operation_and_a_panic_takes_no_thread_away() {
    let readers = readers(1);
    let refused = wait(readers.read("entries", |_| Err::<(), _>(Error::new(ErrorKind::Corrupt, "damaged"))));
    let error = refused.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Corrupt, Some("entries")));
    for _ in 0..3 {
        let answer =
            wait(readers.read("entries", |_| -> turnkeep_core::Result<()> { panic!("ordered by the test") }));
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Io);
    }
    assert_eq!(wait(readers.read("entries", |conn| Ok(*conn))).unwrap(), 0);
}

/// Readers whose only thread is held up until the sender speaks or goes.
fn held_up(readers: &Readers<usize>) -> mpsc::Sender<()> {
    let (go, gate) = mpsc::channel::<()>();
    let mut holding = Box::pin(readers.read("hold", move |_| {
        let _ = gate.recv();
        Ok(())
    }));
    assert!(poll_once(&mut holding).is_pending());
    // Dropped before it began, it would not be done.
    std::mem::forget(holding);
    go
}

#[test]
fn a_read_that_nobody_waits_for_any_more_is_not_done() {
    let readers = readers(1);
    let go = held_up(&readers);
    let (did, done) = mpsc::channel::<&str>();
    let (unwanted, wanted) = (did.clone(), did);
    let mut dropped = Box::pin(readers.read("read", move |_| {
        unwanted.send("unwanted").unwrap();
        Ok(())
    }));
    assert!(poll_once(&mut dropped).is_pending());
    drop(dropped);
    let mut kept = Box::pin(readers.read("read", move |_| {
        wanted.send("wanted").unwrap();
        Ok(())
    }));
    assert!(poll_once(&mut kept).is_pending());
    drop(go);
    wait(kept).unwrap();
    assert_eq!(done.iter().collect::<Vec<_>>(), ["wanted"]);
}

#[test]
fn a_close_serves_what_came_before_and_refuses_what_comes_after() {
    struct Connection(mpsc::Sender<&'static str>);
    impl Drop for Connection {
        fn drop(&mut self) {
            let _ = self.0.send("closed");
        }
    }
    let (tell, told) = mpsc::channel();
    let readers = Readers::start(vec![Connection(tell.clone()), Connection(tell)]).unwrap();
    let mut before = Box::pin(readers.read("read", |conn: &Connection| {
        conn.0.send("read").unwrap();
        Ok(())
    }));
    assert!(poll_once(&mut before).is_pending());
    assert!(!readers.is_closed());
    wait(readers.close());
    assert!(readers.is_closed());
    wait(before).unwrap();
    let late = wait(readers.read("sessions", |_| Ok(()))).unwrap_err();
    assert_eq!((late.kind(), late.operation()), (ErrorKind::Closed, Some("sessions")));
    wait(readers.close());
    let mut told: Vec<_> = told.iter().collect();
    told.sort_unstable();
    assert_eq!(told, ["closed", "closed", "read"], "both connections are closed when the close answers");
}

#[test]
fn readers_dropped_in_mid_read_neither_hang_nor_panic() {
    let readers = readers(1);
    let go = held_up(&readers);
    let mut waiting = Box::pin(readers.read("read", |_| Ok(())));
    assert!(poll_once(&mut waiting).is_pending());
    drop(waiting);
    drop(readers);
    drop(go);
}
