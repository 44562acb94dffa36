//! What is written today reads as the golden stores do. `TURNKEEP_GOLDEN=<folder>` writes new ones there instead: for a
//! new format, never to replace one.

use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

use turnkeep_conformance::{Harness, OpenWith, golden};
use turnkeep_core::{Clock, ManualClock};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Parts of a file that are not zeros, as the harness reads them.
#[cfg(feature = "redb")]
fn fold(bytes: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64;
    let mut folded = Vec::new();
    let mut add = |from: usize, part: &[u8]| {
        folded.extend((from as u64).to_be_bytes());
        folded.extend((part.len() as u64).to_be_bytes());
        folded.extend(part);
    };
    for (at, block) in bytes.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            add(at * BLOCK, block);
        }
    }
    add(bytes.len(), &[]);
    folded
}

fn check(harness: &dyn Harness, name: &str, pack: impl Fn(&[u8]) -> Vec<u8>) {
    block_on(async {
        let site = harness.provision().await.unwrap();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(golden::TIME));
        let store = harness.open(&site, OpenWith { clock: Some(clock) }).await.unwrap();
        golden::write(&*store).await.unwrap();
        let lines = golden::read(&*store).await.unwrap();
        if env::var_os("TURNKEEP_GOLDEN").is_some() {
            // What a store writes by itself when nobody comes belongs to its format.
            std::thread::sleep(std::time::Duration::from_secs(2));
        }
        let format = store.info().format;
        store.close().await.unwrap();
        drop(store);
        if let Some(folder) = env::var_os("TURNKEEP_GOLDEN") {
            let to = |ending: &str| Path::new(&folder).join(format!("{name}-{format}.{ending}"));
            fs::write(to("bytes"), pack(&fs::read(site.as_str()).unwrap())).unwrap();
            fs::write(to("jsonl"), lines.join("\n") + "\n").unwrap();
        } else {
            let stores = harness.fixtures().await.unwrap().unwrap();
            let today = stores.iter().find(|fixture| fixture.format == format).unwrap();
            assert_eq!(golden::without_births(&lines), golden::without_births(&today.lines));
            for fixture in &stores {
                harness.destroy(&fixture.site).await.unwrap();
            }
        }
        harness.destroy(&site).await.unwrap();
    });
}

#[cfg(feature = "sqlite")]
#[test]
fn what_sqlite_writes_today_reads_as_its_golden_store() {
    check(&turnkeep_harnesses::SqliteHarness, "sqlite", <[u8]>::to_vec);
}

#[cfg(feature = "redb")]
#[test]
fn what_redb_writes_today_reads_as_its_golden_store() {
    check(&turnkeep_harnesses::RedbHarness, "redb", fold);
}
