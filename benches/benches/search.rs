//! What search costs and how long it takes: `docs/benchmarks.md`, section "Search".
//!
//! `cargo bench -p turnkeep-benches --bench search -- 1000000`; the number is that of the entries.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot go on stops")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use turnkeep_benches::data::{self, session};
use turnkeep_benches::rounds::{Target, median, paired, print_table, time};
use turnkeep_core::Store;
use turnkeep_core::commit::NewEntry;
use turnkeep_core::dice::Dice;
use turnkeep_core::query::{SearchQuery, words_of};
use turnkeep_sqlite::{SqliteOptions, SqliteStore};

const SESSIONS: usize = 1_000;
const BATCH: usize = 500;
/// Different words of the texts; how often each comes follows Zipf's law, as in real ones.
const VOCABULARY: u64 = 50_000;
const WORDS: u64 = 80;

fn main() {
    let entries = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(100_000);
    let folder = tempfile::tempdir().expect("a folder");
    tokenizers(&folder.path().join("tokenizers.sqlite3"));
    let path = folder.path().join("search.sqlite3");
    fill(&path, entries);
    sizes(&path, entries);
    queries(&path);
    let lines = [1, 64].map(|producers| commits(folder.path(), producers));
    print_table(&lines);
}

/// The rank of a word: the n-th comes about as often as the first divided by n.
fn rank(dice: &mut Dice) -> u64 {
    let uniform = (dice.next() >> 11) as f64 / (1_u64 << 53) as f64;
    ((VOCABULARY as f64).powf(uniform) - 1.0) as u64
}

/// A word of two to four syllables, another one for each rank.
fn word(rank: u64) -> String {
    const SYLLABLES: [&str; 16] =
        ["ba", "co", "di", "fu", "ge", "ha", "jo", "ki", "lu", "me", "na", "po", "ri", "su", "te", "vo"];
    let mut left = rank + 16;
    let mut word = String::new();
    while left > 0 {
        word.push_str(SYLLABLES[(left % 16) as usize]);
        left /= 16;
    }
    word
}

fn text(number: usize) -> String {
    let mut dice = Dice::new(number as u64);
    let mut text = String::with_capacity(640);
    for place in 0..WORDS {
        text.push_str(&word(rank(&mut dice)));
        text.push_str(if place % 9 == 8 { ". " } else { " " });
    }
    if number.is_multiple_of(1_000) {
        text.push_str("written in C++ here");
    }
    text
}

fn message(number: usize) -> NewEntry {
    NewEntry { text: Some(text(number)), ..data::message(number) }
}

/// Size and speed of ways to index, on the same texts.
fn tokenizers(path: &Path) {
    const TEXTS: usize = 20_000;
    let texts: Vec<String> = (0..TEXTS).map(text).collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    println!(
        "| index of {TEXTS} texts of {} bytes | bytes a text | us a text |\n|---|---|---|",
        bytes / TEXTS
    );
    for (name, options, ours) in [
        ("words, with places (ours)", "tokenize='ascii'", true),
        ("words, without places", "tokenize='ascii', detail=none", true),
        ("the engine's words (unicode61)", "tokenize='unicode61'", false),
        ("trigrams, with places", "tokenize='trigram'", false),
        ("trigrams, without places", "tokenize='trigram', detail=none", false),
    ] {
        let conn = Connection::open(path).expect("a database");
        conn.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA page_size = 8192; DROP TABLE IF EXISTS f;
             CREATE VIRTUAL TABLE f USING fts5(words, content='', contentless_delete=1, {options})"
        ))
        .expect("a table");
        let took = time(|| {
            for (chunk, texts) in texts.chunks(1_000).enumerate() {
                conn.execute_batch("BEGIN").expect("a beginning");
                let mut insert =
                    conn.prepare_cached("INSERT INTO f (rowid, words) VALUES (?1, ?2)").expect("SQL");
                for (at, text) in texts.iter().enumerate() {
                    let words = if ours { words_of(text) } else { text.clone() };
                    insert.execute(((chunk * 1_000 + at + 1) as i64, words)).expect("a row");
                }
                drop(insert);
                conn.execute_batch("COMMIT").expect("a commit");
            }
        });
        let size: i64 =
            conn.query_row("SELECT sum(length(block)) FROM f_data", [], |row| row.get(0)).expect("the size");
        println!("| {name} | {} | {:.1} |", size as usize / TEXTS, took.as_secs_f64() * 1e6 / TEXTS as f64);
    }
}

fn fill(path: &Path, entries: usize) {
    let runtime = data::runtime();
    let store = runtime.block_on(data::open(path));
    let took = time(|| {
        runtime.block_on(async {
            for number in 0..SESSIONS {
                data::create(store.as_ref(), number).await;
            }
            for (batch, first) in (0..entries).step_by(BATCH).enumerate() {
                let texts = (first..entries.min(first + BATCH)).map(message).collect();
                store.commit(data::append(&session(batch % SESSIONS), texts)).await.expect("an append");
            }
        });
    });
    println!(
        "\nfilled with {entries} entries in {:.1} s; nothing is indexed while somebody commits",
        took.as_secs_f64()
    );
    let query = SearchQuery { limit: 20, ..SearchQuery::new(data::workspace(), "zzzz") };
    let took = time(|| drop(runtime.block_on(store.search(&query)).expect("hits")));
    println!("a search before anything is indexed reads every text: {:.2} s", took.as_secs_f64());
    let began = Instant::now();
    let look = Connection::open(path).expect("a look");
    loop {
        let indexed: i64 =
            look.query_row("SELECT count(*) FROM search_docsize", [], |row| row.get(0)).expect("a count");
        if indexed as usize == entries {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(1_800), "indexing does not end");
        std::thread::sleep(Duration::from_millis(200));
    }
    let took = began.elapsed().as_secs_f64();
    println!("indexed at rest in {took:.1} s, {:.1} us an entry", took * 1e6 / entries as f64);
    runtime.block_on(store.close()).expect("a close");
}

fn sizes(path: &Path, entries: usize) {
    let conn = Connection::open(path).expect("a look");
    let bytes = |like: &str| -> i64 {
        conn.query_row("SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name LIKE ?1", [like], |row| {
            row.get(0)
        })
        .expect("a size")
    };
    let (all, index) = (bytes("%"), bytes("search%"));
    println!(
        "the database has {} MiB, {} of them the index: {} bytes an entry of {}",
        all >> 20,
        index >> 20,
        index / entries as i64,
        (all - index) / entries as i64,
    );
}

fn queries(path: &Path) {
    let runtime = data::runtime();
    let store = runtime.block_on(data::open(path));
    println!("\n| search | hits | first 20, median | slowest |\n|---|---|---|---|");
    let looks = [
        ("a rare word", word(40_000)),
        ("a word of middle frequency", word(3_000)),
        ("a frequent word", word(100)),
        ("a word of nearly every text", word(0)),
        ("two words", format!("{} {}", word(700), word(900))),
        ("two frequent words", format!("{} {}", word(5), word(9))),
        ("the beginning of a word", word(3_000).chars().take(5).collect()),
        ("C++", "C++".to_owned()),
        ("a word that is not there", "zzzz".to_owned()),
    ];
    for (what, text) in looks {
        let query = SearchQuery { limit: 20, ..SearchQuery::new(data::workspace(), text.clone()) };
        let mut times = Vec::new();
        for _ in 0..11 {
            let took = time(|| drop(runtime.block_on(store.search(&query)).expect("hits")));
            times.push(took.as_secs_f64() * 1e3);
        }
        let slowest = times.iter().copied().fold(0.0, f64::max);
        println!("| {what} | {} | {:.2} ms | {slowest:.2} ms |", hits(path, &text), median(times));
    }
    runtime.block_on(store.close()).expect("a close");
}

/// How many entries have the words, by the index.
fn hits(path: &Path, text: &str) -> i64 {
    let conn = Connection::open(path).expect("a look");
    let all: Vec<String> = words_of(text).split(' ').map(|word| format!("\"{word}\" *")).collect();
    conn.query_row("SELECT count(*) FROM search WHERE search MATCH ?1", [all.join(" AND ")], |row| row.get(0))
        .expect("a count")
}

/// Commits with the index on beside commits without.
fn commits(folder: &Path, producers: usize) -> turnkeep_benches::rounds::Line {
    let runtime = data::runtime();
    let open = |name: &str, index: bool| -> Arc<SqliteStore> {
        let path = folder.join(format!("{name}-{producers}.sqlite3"));
        runtime.block_on(async {
            let store = SqliteOptions::new(path).search_index(index).open().await.expect("a store");
            for number in 0..producers {
                data::create(&store, number).await;
            }
            Arc::new(store)
        })
    };
    let (with, without) = (open("with", true), open("without", false));
    let each = 4_096 / producers;
    // Between the rounds the index catches up, as it does between the turns of a conversation.
    let produce = |store: &Arc<SqliteStore>| {
        let rate = data::produce(&runtime, store, producers, each);
        std::thread::sleep(Duration::from_millis(600));
        1e6 / rate
    };
    let what = format!("commit, {producers} producers, search on, beside search off");
    paired(what, "us", Target::AtMost(1.1), 21, || produce(&with), || produce(&without))
}
