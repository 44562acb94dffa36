//! SQL for auditors: where the store is an SQL database, and a typed refusal elsewhere.

use turnkeep_core::ErrorKind;
use turnkeep_core::sql::{self, SqlValue};
use turnkeep_sessions::Message;

use crate::site::{Site, on_each};

on_each!(auditors_have_sql_where_the_store_has_it_and_are_refused_elsewhere);

async fn auditors_have_sql_where_the_store_has_it_and_are_refused_elsewhere(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    session.append([Message::user("hello"), Message::user("again")]).await.unwrap();
    let id = session.id().to_string();
    let store = ws.store().as_ref();
    let read = sql::read(store, move |sql| {
        sql.query("SELECT messages FROM sessions WHERE id = ?", &[id.into()], 10)
    })
    .await;
    let written = sql::write(store, |sql| {
        sql.execute("CREATE TABLE audit_seen (id TEXT)", &[])?;
        sql.execute("INSERT INTO audit_seen SELECT id FROM sessions", &[])
    })
    .await;
    if store.info().name == "sqlite" {
        assert_eq!(read.unwrap().rows, [[SqlValue::Integer(2)]]);
        assert_eq!(written.unwrap(), 1);
        let broken = sql::write(store, |sql| sql.execute("UPDATE sessions SET messages = 0", &[])).await;
        assert_eq!(broken.unwrap_err().kind(), ErrorKind::ReadOnly);
    } else {
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert_eq!(session.info().await.unwrap().messages, 2);
    session.append([Message::user("the store goes on")]).await.unwrap();
}
