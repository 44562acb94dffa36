//! Repairs and backups that are killed leave nothing for ever.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::kit::{Home, PATIENCE};

/// Kills at different points of the work.
const KILLS: u64 = 8;

fn names(folder: &Path) -> BTreeSet<OsString> {
    fs::read_dir(folder).unwrap().map(|found| found.unwrap().file_name()).collect()
}

fn is_unfinished(name: &OsStr) -> bool {
    name.to_string_lossy().contains(".unfinished")
}

/// A home whose store takes a while to read.
fn long_talk() -> Home {
    let home = Home::new();
    let mut talk = vec!["chat"];
    for _ in 0..60 {
        talk.extend(["--say", "one two three four five six seven eight nine ten"]);
    }
    home.ok(&talk);
    home
}

/// Waits until the program made something, and a bit longer; then kills it. Answers whether it left anything unfinished.
fn killed_at_work(home: &Home, what: &str, folder: &Path, longer: Duration) -> bool {
    let before = names(folder);
    let of_this = |name: &OsString| !before.contains(name) && name.to_string_lossy().contains(what);
    let running = home.start(&["store", what]);
    let begun = Instant::now();
    while !names(folder).iter().any(of_this) {
        assert!(begun.elapsed() < PATIENCE, "no {what} began");
        std::thread::sleep(Duration::from_micros(200));
    }
    std::thread::sleep(longer);
    running.kill();
    names(folder).iter().any(|name| is_unfinished(name))
}

#[test]
fn what_a_killed_repair_or_backup_left_goes_with_the_next_one() {
    let home = long_talk();
    let database = home.database();
    let folder = database.parent().unwrap();
    for what in ["repair", "backup"] {
        let mut left = false;
        // The last one as soon as it began, so that it leaves something.
        for kill in (0..KILLS).rev() {
            left = killed_at_work(&home, what, folder, Duration::from_millis(kill * kill));
        }
        assert!(left, "the last {what} was killed at work");
        let whole = |names: BTreeSet<OsString>| -> BTreeSet<OsString> {
            names.into_iter().filter(|name| !is_unfinished(name)).collect()
        };
        let before = whole(names(folder));
        // The next one has another name: it says the second.
        std::thread::sleep(Duration::from_millis(1_100));
        let ran = home.run(&["store", what]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let after = names(folder);
        let new: Vec<_> = after.difference(&before).collect();
        let [result] = new[..] else { panic!("{what}: {new:?}") };
        assert!(!is_unfinished(result), "{result:?}");
        let result = format!("sqlite:{}", folder.join(result).display());
        home.ok(&["--store", &result, "store", "verify"]);
    }
}
