//! What is written today reads as the golden store does. `TURNKEEP_GOLDEN=<folder>` writes new ones there instead: for a
//! new format, never to replace one.

use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

use turnkeep_conformance::{Harness, OpenWith, golden};
use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::{Clock, ManualClock};

use crate::harness::ToyHarness;

/// A log of format 2 as format 1 had it, which no program writes any more.
fn as_format_1(log: &str) -> String {
    let lines = log.lines().skip(3).filter_map(|line| line.split_once(' '));
    let line = |(_, content): (&str, &str)| {
        format!("{} {content}\n", to_hex(&FieldDigest::new("toy-line/1").text(content).finish()))
    };
    let first = "turnkeep-toy log, format 1\n".to_owned();
    lines.map(line).fold(first, |log, line| log + &line)
}

#[tokio::test]
async fn what_is_written_today_reads_as_the_golden_store() {
    let site = ToyHarness.provision().await.unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(golden::TIME));
    let store = ToyHarness.open(&site, OpenWith { clock: Some(clock) }).await.unwrap();
    golden::write(&*store).await.unwrap();
    let lines = golden::read(&*store).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    if let Some(folder) = env::var_os("TURNKEEP_GOLDEN") {
        let to = |name: &str| Path::new(&folder).join(name);
        let log = fs::read_to_string(site.as_str()).unwrap();
        fs::write(to("format-1.log"), as_format_1(&log)).unwrap();
        fs::write(to("format-2.log"), log).unwrap();
        fs::write(to("rows.jsonl"), lines.join("\n") + "\n").unwrap();
    } else {
        for fixture in ToyHarness.fixtures().await.unwrap().unwrap() {
            assert_eq!(golden::without_births(&lines), golden::without_births(&fixture.lines));
            ToyHarness.destroy(&fixture.site).await.unwrap();
        }
    }
    ToyHarness.destroy(&site).await.unwrap();
}
