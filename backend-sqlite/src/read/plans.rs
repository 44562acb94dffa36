//! Tests that every query finds its rows by an index, in the order it is asked for.

use rusqlite::{Connection, params_from_iter};
use turnkeep_core::Result;

use crate::read::sql::Sql;
use crate::schema;

/// The steps of the engine's plan for a query on empty tables.
pub(super) fn plan(query: Result<Sql>) -> String {
    let query = query.unwrap();
    let conn = Connection::open_in_memory().unwrap();
    schema::create(&conn).unwrap();
    // As our connections are set: a plan must not depend on a value.
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {}", query.text)).unwrap();
    let steps = explain.query_map(params_from_iter(&query.values), |row| row.get::<_, String>(3)).unwrap();
    steps.map(|step| step.unwrap()).collect::<Vec<_>>().join("; ")
}

/// Checks that a plan scans no table, sorts nothing, and has these steps.
pub(super) fn check(query: Result<Sql>, steps: &[&str]) {
    let plan = plan(query);
    assert!(!plan.contains("SCAN") || plan.contains("SCAN json_each"), "{plan}");
    assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    for step in steps {
        assert!(plan.contains(step), "{step:?} is not in: {plan}");
    }
}
