//! Projects: a person's folders for sessions.
//!
//! The project of a session is an id in its profile. A deleted project is resolved when sessions are read, so that it
//! reads as none from that commit on, however many sessions belonged to it, and their order in lists stays. Ids are drawn
//! here and never used again.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use turnkeep_core::commit::{Commit, Expect, Op, Outcome};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{ProjectId, RecordKey};
use turnkeep_core::model::{Record, SessionRow, Version, collection};
use turnkeep_core::{Cursor, Page, Timestamp, mutant};

use super::records;
use crate::base::{Base, Repeat};
use crate::workspace::Workspace;

/// Projects of one page of a walk.
const PAGE: u32 = 1_000;

/// The projects of a workspace.
#[derive(Clone, Debug)]
pub struct Projects {
    workspace: Workspace,
}

/// A project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Its id, for [`CreateSession::project`](crate::CreateSession::project) and `SessionPatch::project`.
    pub id: ProjectId,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was renamed last.
    pub updated_at: Timestamp,
    /// Which state of it this is.
    pub version: Version,
}

#[derive(Serialize, Deserialize)]
struct Named {
    name: String,
}

impl Projects {
    pub(crate) fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }

    /// Makes a project.
    ///
    /// # Errors
    /// `Invalid` for a name of blanks only.
    pub async fn create(&self, name: impl Into<String> + Send) -> Result<Project> {
        let id = ProjectId::new(self.base().fresh_id()?)?;
        self.put(&id, name.into(), Expect::Absent).await
    }

    /// A project; `None` if there is none with this id (any more).
    ///
    /// # Errors
    /// Whatever the store answers.
    pub async fn get(&self, id: &ProjectId) -> Result<Option<Project>> {
        let found = records::by_key(self.base(), collection::PROJECTS, key(id)?).await?;
        found.as_ref().map(Project::from_record).transpose()
    }

    /// All projects in the order in which they were made, at most `limit` in one page.
    ///
    /// # Errors
    /// `Invalid` for a limit of 0 or a foreign cursor.
    pub async fn list(&self, limit: u32, cursor: Option<Cursor>) -> Result<Page<Project>> {
        let mut query = records::query(self.base(), collection::PROJECTS)?;
        query.limit = limit;
        query.cursor = cursor;
        let page = self.base().store().records(&query).await?;
        let items = page.items.iter().map(Project::from_record).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next, total: page.total })
    }

    /// Gives a project another name.
    ///
    /// # Errors
    /// `VersionConflict` when somebody else renamed or deleted it since `project` was read; `Invalid` for a name of
    /// blanks only.
    pub async fn rename(&self, project: &Project, name: impl Into<String> + Send) -> Result<Project> {
        let expect = mutant::either("projects/last-name-wins", Expect::Any, Expect::Version(project.version));
        self.put(&project.id, name.into(), expect).await
    }

    /// Deletes a project. Its sessions keep their history, and their project reads as none from now on.
    ///
    /// # Errors
    /// `VersionConflict` when somebody else renamed or deleted it since `project` was read.
    pub async fn delete(&self, project: &Project) -> Result<()> {
        let expect = Expect::Version(project.version);
        let op = records::delete(collection::PROJECTS, key(&project.id)?, None, expect)?;
        self.commit(op).await.map(drop)
    }

    async fn put(&self, id: &ProjectId, name: String, expect: Expect) -> Result<Project> {
        if name.trim().is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "the name of the project is empty; give some text"));
        }
        let op = records::put(collection::PROJECTS, key(id)?, None, None, expect, &Named { name })?;
        let Outcome::Record { version, .. } = self.commit(op).await? else {
            return Err(Error::new(ErrorKind::Corrupt, "the receipt of the commit names no record"));
        };
        match self.get(id).await? {
            Some(project) if project.version == version => Ok(project),
            _ => {
                Err(Error::new(ErrorKind::VersionConflict, "the project was changed again at once; read it")
                    .with("project", id))
            }
        }
    }

    async fn commit(&self, op: Op) -> Result<Outcome> {
        let base = self.base();
        let commit = Commit::new(base.workspace().clone())
            .request(base.request_in_workspace(Repeat::default(), None)?)
            .op(op);
        let receipt = base.commit(commit).await?.receipt;
        Ok(receipt.outcomes.into_iter().next().unwrap_or(Outcome::Done))
    }

    fn base(&self) -> &Base {
        self.workspace.base()
    }
}

impl Project {
    fn from_record(record: &Record) -> Result<Self> {
        let Named { name } = record.payload.parse()?;
        Ok(Self {
            id: ProjectId::new(record.key.as_str())?,
            name,
            created_at: record.created_at,
            updated_at: record.updated_at,
            version: record.version,
        })
    }
}

fn key(id: &ProjectId) -> Result<RecordKey> {
    RecordKey::new(id.as_str())
}

/// Whether a session's project is there.
pub(crate) async fn is_there(base: &Base, project: &str) -> Result<bool> {
    match RecordKey::new(project) {
        Ok(key) => Ok(records::by_key(base, collection::PROJECTS, key).await?.is_some()),
        // No project can have such an id.
        Err(_) => Ok(false),
    }
}

/// Refuses a project that is not there. Nothing depends on it, because one that is deleted a moment later reads as none,
/// but a person who mistypes an id should be told.
pub(crate) async fn refuse_unknown(base: &Base, project: &str) -> Result<()> {
    if is_there(base, project).await? {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotFound, "there is no project with this id; make it first")
        .with("project", project))
}

/// Lets the project of sessions read as none where it was deleted.
pub(crate) async fn forget_deleted(base: &Base, rows: &mut [SessionRow]) -> Result<()> {
    let named: HashSet<String> = rows.iter().filter_map(|row| row.profile.project.clone()).collect();
    let there = those_there(base, named).await?;
    for row in rows {
        row.profile.project.take_if(|project| !there.contains(project));
    }
    Ok(())
}

/// Those of the projects that are there. Few are asked for one by one, many in one walk.
async fn those_there(base: &Base, mut wanted: HashSet<String>) -> Result<HashSet<String>> {
    const FEW: usize = 2;
    let mut there = HashSet::with_capacity(wanted.len());
    if mutant::is("projects/deleted-one-still-shows") {
        return Ok(wanted);
    }
    if wanted.len() <= FEW {
        for project in wanted {
            if is_there(base, &project).await? {
                there.insert(project);
            }
        }
        return Ok(there);
    }
    let mut query = records::query(base, collection::PROJECTS)?;
    query.limit = PAGE;
    while !wanted.is_empty() {
        let page = base.store().records(&query).await?;
        there.extend(page.items.iter().filter_map(|record| wanted.take(record.key.as_str())));
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    Ok(there)
}
