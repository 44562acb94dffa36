//! What an image may hold, and what not.

use super::super::{Call, Disk, Failure, Fault, Flush, Kind, MAIN};
use super::*;

fn create(disk: &Disk, name: &str) -> FileId {
    disk.enter(Call::Create(name)).unwrap().done().unwrap()
}

fn act(disk: &Disk, call: Call<'_>) {
    disk.act(call, || Ok(())).unwrap();
}

fn end(log: &Log) -> Replay<'_> {
    let mut replay = Replay::new(log);
    while replay.advance() {}
    replay
}

/// Every image of the last moment that a few thousand seeds give.
fn ends(log: &Log) -> Vec<BTreeMap<String, Vec<u8>>> {
    let replay = end(log);
    let mut all: Vec<_> = (0..3_000).map(|seed| replay.image(Loss::Any(seed)).files).collect();
    all.push(replay.image(Loss::None).files);
    all.push(replay.image(Loss::All).files);
    all.sort();
    all.dedup();
    all
}

#[test]
fn a_sync_makes_a_file_durable_and_a_folder_sync_its_name() {
    let disk = Disk::new();
    let main = create(&disk, MAIN);
    act(&disk, Call::Write(main, 0, b"abc"));
    act(&disk, Call::Sync(main, Flush::Data));
    let log = disk.log();
    assert!(end(&log).image(Loss::All).files.is_empty(), "the name is not durable");
    assert!(ends(&log).contains(&BTreeMap::from([(MAIN.to_owned(), b"abc".to_vec())])));
    act(&disk, Call::SyncFolder(""));
    assert_eq!(ends(&disk.log()), [BTreeMap::from([(MAIN.to_owned(), b"abc".to_vec())])]);
}

#[test]
fn each_sector_is_as_it_was_after_one_of_the_writes_to_it() {
    let disk = Disk::new();
    let main = create(&disk, MAIN);
    act(&disk, Call::SyncFolder(""));
    act(&disk, Call::Write(main, 0, &[1; 1024]));
    act(&disk, Call::Sync(main, Flush::Full));
    act(&disk, Call::Write(main, 0, &[2; 1024]));
    act(&disk, Call::Write(main, 256, &[3; 512]));
    let mut seen = HashSet::new();
    for files in ends(&disk.log()) {
        let bytes = &files[MAIN];
        assert_eq!(bytes.len(), 1024);
        let sectors = [&bytes[..512], &bytes[512..]];
        let whole = |value: u8| [[value; 512]; 2];
        let mut mixed = [[2; 512]; 2];
        mixed[0][256..].fill(3);
        mixed[1][..256].fill(3);
        for (at, sector) in sectors.iter().enumerate() {
            let is = |of: [[u8; 512]; 2]| **sector == of[at];
            assert!(is(whole(1)) || is(whole(2)) || is(mixed), "sector {at} is torn within");
        }
        seen.insert((sectors[0][0], sectors[0][511], sectors[1][0], sectors[1][511]));
    }
    assert_eq!(seen.len(), 9, "every pair of versions comes up: {seen:?}");
}

#[test]
fn a_length_and_the_bytes_below_it_are_lost_each_by_itself() {
    let disk = Disk::new();
    let main = create(&disk, MAIN);
    act(&disk, Call::SyncFolder(""));
    act(&disk, Call::Write(main, 0, &[1; 600]));
    act(&disk, Call::Sync(main, Flush::Data));
    act(&disk, Call::SetLen(main, 100));
    act(&disk, Call::Write(main, 100, &[2; 400]));
    let all = ends(&disk.log());
    let lengths: HashSet<usize> = all.iter().map(|files| files[MAIN].len()).collect();
    assert_eq!(lengths, HashSet::from([600, 100, 500]));
    let kept = |files: &&BTreeMap<String, Vec<u8>>| files[MAIN].len() == 500;
    assert!(all.iter().filter(kept).any(|files| files[MAIN][100..] == [0; 400]), "grown, but not written");
    assert!(all.iter().filter(kept).any(|files| files[MAIN][100..] == [2; 400]));
    assert!(all.iter().filter(kept).all(|files| files[MAIN][..100] == [1; 100]));
}

#[test]
fn a_removal_may_be_undone_and_a_new_file_of_that_name_comes_after_it() {
    let disk = Disk::new();
    let old = disk.file(MAIN, || Ok(b"old".to_vec())).unwrap();
    act(&disk, Call::Remove(MAIN));
    let new = create(&disk, MAIN);
    assert_ne!(old, new);
    act(&disk, Call::Write(new, 0, b"new"));
    act(&disk, Call::Sync(new, Flush::Full));
    let file = |bytes: &[u8]| BTreeMap::from([(MAIN.to_owned(), bytes.to_vec())]);
    assert_eq!(ends(&disk.log()), [BTreeMap::new(), file(b"new"), file(b"old")]);
}

#[test]
fn a_file_is_published_whole_or_not_at_all() {
    let disk = Disk::new();
    let file = create(&disk, "unfinished");
    act(&disk, Call::Write(file, 0, b"all of it"));
    act(&disk, Call::Sync(file, Flush::Full));
    act(&disk, Call::Link("unfinished", MAIN));
    act(&disk, Call::Remove("unfinished"));
    for files in ends(&disk.log()) {
        assert!(files.get(MAIN).is_none_or(|bytes| bytes == b"all of it"), "{files:?}");
    }
    act(&disk, Call::SyncFolder(""));
    assert_eq!(ends(&disk.log()), [BTreeMap::from([(MAIN.to_owned(), b"all of it".to_vec())])]);
    act(&disk, Call::Rename(MAIN, "moved"));
    let names: Vec<Vec<String>> =
        ends(&disk.log()).into_iter().map(|files| files.into_keys().collect()).collect();
    assert_eq!(names, [[MAIN], ["moved"]]);
}

#[test]
fn the_images_of_a_log_are_bounded_repeatable_and_know_what_was_said() {
    let disk = Disk::new();
    let main = create(&disk, MAIN);
    act(&disk, Call::SyncFolder(""));
    for commit in 1..=20 {
        disk.mark(Mark::Begun(commit));
        act(&disk, Call::Write(main, commit * 700, &[1; 1500]));
        act(&disk, Call::Sync(main, Flush::Data));
        disk.mark(Mark::Acked(commit));
    }
    let log = disk.log();
    for most in [10, 60, 100] {
        let images: Vec<Image> = log.images(7, most).collect();
        assert!(images.len() as u64 <= most && images.len() as u64 * 2 >= most, "{}", images.len());
        assert_eq!(images, log.images(7, most).collect::<Vec<_>>());
        assert!(images.is_sorted_by_key(|image| image.acked));
        assert_eq!(images.last().map(|image| (image.begun, image.acked)), Some((20, 20)));
    }
    assert_ne!(log.images(7, 60).collect::<Vec<_>>(), log.images(8, 60).collect::<Vec<_>>());
}

#[test]
fn faults_fail_the_calls_they_name_and_nothing_is_noted() {
    let disk = Disk::new();
    let (main, log) = (create(&disk, MAIN), create(&disk, "main-wal"));
    let write = |file| disk.act(Call::Write(file, 0, b"x"), || Ok(()));
    disk.arm(Fault::once(Kind::Write, 1, Failure::Full).on("-wal"));
    let before = disk.log().steps().len();
    assert!(write(main).is_ok() && write(log).is_ok());
    assert_eq!(write(log).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert!(write(log).is_ok());
    assert_eq!(disk.log().steps().len(), before + 3);
    disk.arm(Fault::always(Kind::Change, Failure::Io));
    assert!(write(main).is_err() && disk.act(Call::Sync(main, Flush::Full), || Ok(())).is_err());
    assert!(disk.act(Call::Read(main), || Ok(())).is_ok(), "a read changes nothing");
    disk.disarm();
    assert!(write(main).is_ok());
    assert_eq!((disk.failed(), disk.calls(Kind::Write), disk.calls(Kind::Sync)), (3, 6, 1));
}

#[test]
fn a_full_disk_refuses_growth_and_takes_what_lies_within() {
    let disk = Disk::new();
    let main = create(&disk, MAIN);
    act(&disk, Call::Write(main, 0, &[1; 100]));
    disk.set_capacity(Some(150));
    act(&disk, Call::Write(main, 100, &[1; 50]));
    assert!(disk.act(Call::Write(main, 149, &[1; 2]), || Ok(())).is_err());
    act(&disk, Call::Write(main, 0, &[2; 150]));
    act(&disk, Call::SetLen(main, 10));
    act(&disk, Call::Write(main, 10, &[1; 100]));
    assert_eq!(disk.used(), 110);
}
