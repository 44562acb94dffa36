//! The group committer in the line for the lock between processes.

use std::time::{Duration, Instant};

use turnkeep_core::ErrorKind;
use turnkeep_core::local::WriteLock;

use crate::committer::{answers, as_one_group};
use crate::fake_engine::{Call, Control, End, nth, poll_once, queue, say, wait};

#[test]
fn a_panic_of_the_engine_answers_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("write.lock");
    let other = WriteLock::open(&path).unwrap();
    let control = Control::new();
    control.script().panic_at = Some("bad");
    let committer = control.committer_with_lock(WriteLock::open(&path).unwrap());
    let flights = as_one_group(&control, &committer, vec![say(0, "a"), say(1, "bad"), say(2, "b")]);
    assert_eq!(answers(flights), vec![Err(ErrorKind::CommitUnknown); 3]);
    assert_eq!(wait(committer.commit(say(0, "later"))).unwrap_err().kind(), ErrorKind::Poisoned);
    assert!(control.texts(&nth(0)).is_empty());
    assert_eq!(control.count(&Call::Rollback), 2, "no transaction is left open");
    assert!(other.try_lock().unwrap(), "others may write");
    wait(committer.close()).unwrap();
}

#[test]
fn a_poisoned_store_does_not_keep_the_lock_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("write.lock");
    let other = WriteLock::open(&path).unwrap();
    let control = Control::new();
    control.script().ends = [End::UnknownAndLost].into();
    let committer = control.committer_with_lock(WriteLock::open(&path).unwrap());
    assert_eq!(wait(committer.commit(say(0, "x"))).unwrap_err().kind(), ErrorKind::CommitUnknown);
    // The answer may come before the lock is given back, but the writer does nothing in between.
    assert!(other.lock_until(Instant::now() + Duration::from_secs(60)).unwrap());
    assert_eq!(wait(committer.commit(say(0, "y"))).unwrap_err().kind(), ErrorKind::Poisoned);
}

#[test]
fn in_one_group_the_hasty_are_withdrawn_and_the_patient_land_when_the_lock_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("write.lock");
    let other = WriteLock::open(&path).unwrap();
    let control = Control::new();
    let committer = control.committer_with_lock(WriteLock::open(&path).unwrap());
    // A chore holds the writer until all are queued and the lock is stuck.
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let mut chore = Box::pin(committer.run(move |_| gate.recv().is_ok()));
    assert!(poll_once(&mut chore).is_pending());
    let patient = queue(&committer, say(0, "patient").wait(Duration::from_secs(3600)));
    let hasty = queue(&committer, say(1, "hasty").wait(Duration::ZERO));
    let patient_too = queue(&committer, say(0, "second").wait(Duration::from_secs(3600)));
    let hasty_too = queue(&committer, say(2, "hasty").wait(Duration::from_millis(1)));
    assert!(other.try_lock().unwrap());
    go.send(()).unwrap();
    assert_eq!(answers(vec![hasty, hasty_too]), vec![Err(ErrorKind::Busy); 2]);
    assert_eq!(control.count(&Call::Begin), 0, "nobody writes without the lock");
    other.unlock();
    assert!(wait(patient).is_ok() && wait(patient_too).is_ok());
    assert_eq!(control.texts(&nth(0)), ["patient", "second"]);
    assert!(control.texts(&nth(1)).is_empty() && control.texts(&nth(2)).is_empty());
    wait(committer.commit(say(1, "later"))).unwrap();
    wait(committer.close()).unwrap();
    assert!(other.try_lock().unwrap(), "the lock is usable afterwards");
}

#[test]
fn somebody_patient_behind_a_stuck_lock_does_not_make_others_wait_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("write.lock");
    let other = WriteLock::open(&path).unwrap();
    let control = Control::new();
    let committer = control.committer_with_lock(WriteLock::open(&path).unwrap());
    assert!(other.try_lock().unwrap());
    let patient = queue(&committer, say(0, "patient").wait(Duration::from_secs(3600)));
    // Behind a chore, which waits its turn, and still answered in time.
    let mut chore = Box::pin(committer.run(|_| ()));
    assert!(poll_once(&mut chore).is_pending());
    for _ in 0..3 {
        let error = wait(committer.commit(say(1, "hasty").wait(Duration::ZERO))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
    }
    let dropped = queue(&committer, say(2, "dropped").wait(Duration::from_secs(3600)));
    drop(dropped);
    other.unlock();
    wait(patient).unwrap();
    wait(chore).unwrap();
    wait(committer.close()).unwrap();
    assert_eq!(control.texts(&nth(0)), ["patient"]);
    assert!(control.texts(&nth(1)).is_empty() && control.texts(&nth(2)).is_empty());
    assert!(other.try_lock().unwrap());
}

#[test]
fn a_lock_that_nobody_waits_for_any_more_is_not_kept_when_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("write.lock");
    let other = WriteLock::open(&path).unwrap();
    assert!(other.try_lock().unwrap());
    let control = Control::new();
    let committer = control.committer_with_lock(WriteLock::open(&path).unwrap());
    let error = wait(committer.commit(say(0, "x").wait(Duration::ZERO))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    other.unlock();
    // The place in the line comes up now or a little later; a third one gets the lock before and after.
    let third = WriteLock::open(&path).unwrap();
    for _ in 0..50 {
        assert!(third.lock_until(Instant::now() + Duration::from_secs(60)).unwrap());
        third.unlock();
        std::thread::sleep(Duration::from_millis(1));
    }
    wait(committer.commit(say(0, "y"))).unwrap();
    assert_eq!(control.texts(&nth(0)), ["y"]);
}

#[test]
fn chores_between_commits_happen_only_with_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("write.lock");
    let other = WriteLock::open(&path).unwrap();
    assert!(other.try_lock().unwrap());
    let control = Control::new();
    control.script().chores = Some(5);
    let committer = control.committer_with_lock(WriteLock::open(&path).unwrap());
    wait(committer.commit(say(0, "x").wait(Duration::ZERO))).unwrap_err();
    wait(committer.run(|_| ())).unwrap();
    assert_eq!(control.script().chores, Some(5));
    other.unlock();
    wait(committer.commit(say(0, "y"))).unwrap();
    control.wait_for(|script| script.chores == Some(0));
}
