//! Responses: what a provider runs for a session in the background, its turns, and the native items that came of them.
//!
//! Runs and turns are records that move by compare-and-swap. Items are events of one stream; so is the completion of a turn,
//! which gives the turns their order for a native replay.

mod archive;
mod run;
mod turn;

use turnkeep_core::commit::{Expect, Guard, Op};
use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{Collection, RecordKey};
use turnkeep_core::model::Record;
use turnkeep_core::query::{DEFAULT_LIMIT, Order, RecordQuery};
use turnkeep_core::{Cursor, Page};

pub use archive::{ReplayedTurn, ResponseItem};
pub use run::ResponseRun;
pub use turn::{ResponseStatus, ResponseTurn};

use super::records;
use crate::session::{Plan, Session};

/// The responses of a session. Only who may write to the session may write here: while a run executes, its handle.
#[derive(Clone, Debug)]
pub struct Responses {
    session: Session,
}

impl Responses {
    pub(crate) fn new(session: Session) -> Self {
        Self { session }
    }

    /// The key under which something with an id of its own in the session is made.
    fn key(&self, id: &str) -> Result<RecordKey> {
        let life = self.session.session_ref().incarnation.to_string();
        RecordKey::new(to_hex(&FieldDigest::new("response/1").text(&life).text(id).finish()))
    }

    /// A record by the id within the session. One that was imported under another session id has another key; such ones
    /// come before all that were made here.
    async fn find(
        &self,
        collection: &str,
        id: &str,
        id_of: fn(&Record) -> Result<String>,
    ) -> Result<Option<Record>> {
        if !self.session.is_stored() {
            return Ok(None);
        }
        let owner = self.session.session_ref();
        let found = records::by_key(self.session.workspace().base(), collection, self.key(id)?).await?;
        if let Some(record) = found.filter(|record| record.owner.as_ref() == Some(owner)) {
            return Ok(Some(record));
        }
        let (mut cursor, mut limit) = (None, 1);
        loop {
            let narrow = |query: &mut RecordQuery| (query.cursor, query.limit) = (cursor, limit);
            let page = records::owned(&self.session, collection, narrow).await?;
            for record in page.items {
                let found = id_of(&record)?;
                if found == id {
                    return Ok(Some(record));
                }
                if record.key == self.key(&found)? {
                    return Ok(None);
                }
            }
            limit = DEFAULT_LIMIT;
            cursor = page.next;
            if cursor.is_none() {
                return Ok(None);
            }
        }
    }

    /// The newest first, at most `limit` in one page.
    async fn newest(&self, collection: &str, limit: u32, cursor: Option<Cursor>) -> Result<Page<Record>> {
        records::owned(&self.session, collection, |query| {
            query.order = Order::Descending;
            query.limit = limit;
            query.cursor = cursor;
        })
        .await
    }

    async fn write(&self, ops: Vec<Op>, guards: Vec<Guard>) -> Result<()> {
        let plan = Plan::new(move |_| Ok(ops.clone())).at_any_leaf();
        self.session.write(guards.into_iter().fold(plan, Plan::guard)).await.map(drop)
    }
}

/// What a saved state follows: the version it was made from, or nothing.
fn follows(version: Option<turnkeep_core::model::Version>) -> Expect {
    version.map_or(Expect::Absent, Expect::Version)
}

fn same(collection: &str, record: &Record) -> Result<Guard> {
    let expect = records::expect(Some(record));
    Ok(Guard::Record { collection: Collection::new(collection)?, key: record.key.clone(), expect })
}

fn gone(what: &str) -> Error {
    Error::new(ErrorKind::VersionConflict, format!("the {what} was changed again at once; read it"))
}
