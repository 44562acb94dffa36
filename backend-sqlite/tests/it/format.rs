//! A format stays what it is: the tables of the newest golden store are today's, and its page describes them. That the store
//! itself opens and reads as it was written is a clause, MIG-001.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::support::{close, fresh, open};

/// A copy, so that the golden store itself is never opened.
fn copy_of_golden() -> (tempfile::TempDir, PathBuf) {
    let (folder, path) = fresh();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harnesses/golden/sqlite-2.bytes");
    fs::copy(golden, &path).unwrap();
    (folder, path)
}

fn schema(path: &Path) -> Vec<String> {
    let conn = Connection::open(path).unwrap();
    let mut read = conn.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").unwrap();
    let rows = read.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

#[test]
fn todays_tables_are_those_of_the_golden_file() {
    let (_folder, golden) = copy_of_golden();
    let (_other, path) = fresh();
    close(&open(&path));
    assert_eq!(schema(&path), schema(&golden));
    let marks = |path: &Path| {
        let conn = Connection::open(path).unwrap();
        ["application_id", "user_version", "page_size"]
            .map(|name| conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).unwrap())
    };
    assert_eq!(marks(&path), marks(&golden));
    assert_eq!(marks(&path), [0x5475_4B65, 2, 8192]);
}

#[test]
fn the_queries_of_the_format_page_run_and_find_something() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/format.md")).unwrap();
    let queries: Vec<&str> =
        page.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(queries.len(), 5, "the page promises five queries");
    let (_folder, path) = copy_of_golden();
    let conn = Connection::open(&path).unwrap();
    for query in queries {
        let mut statement = conn.prepare(query).unwrap();
        assert!(statement.readonly(), "{query}");
        let rows = statement.query_map([], |_| Ok(())).unwrap().count();
        assert!(rows > 0, "nothing is found by: {query}");
    }
}

#[test]
fn the_format_page_names_every_table_and_column() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/format.md")).unwrap();
    let (_folder, path) = copy_of_golden();
    let conn = Connection::open(&path).unwrap();
    let mut read = conn
        .prepare(
            "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%'
             AND m.name NOT LIKE 'search\\_%' ESCAPE '\\'",
        )
        .unwrap();
    let columns = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    for column in columns {
        let (table, column): (String, String) = column.unwrap();
        assert!(page.contains(&format!("### `{table}`")), "table {table}");
        let section = page.split(&format!("### `{table}`")).nth(1).unwrap().split("\n#").next().unwrap();
        assert!(section.contains(&format!("`{column}`")), "column {table}.{column}");
    }
}
