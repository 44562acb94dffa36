//! One session: passed over, gone on with, or built anew, until the target holds what the source held at one moment.

use turnkeep_core::commit::{Commit, Fingerprint, Op, RequestId};
use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{SessionId, SessionRef, WorkspaceId};
use turnkeep_core::model::Row;
use turnkeep_core::mutant;

use super::{CopyOutcome, Job, Listed, Seen};
use crate::transfer::builder::{Begun, Site, begin, discard};
use crate::transfer::filling::Filling;
use crate::transfer::moment::Moment;
use crate::transfer::sum::{Sum, sum_of};

/// How often a build is begun again after something else was found in its place.
const TRIES: u32 = 4;

/// Copies a session; `None` when it was deleted in the source.
pub(super) async fn copy(
    job: &mut Job<'_, '_, '_>,
    workspace: &WorkspaceId,
    listed: &Listed,
) -> Result<Option<Seen>> {
    let from = job.from;
    let moment = match Moment::of(from, workspace, &listed.session, "copy").await {
        Ok(moment) => moment,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.with("session", &listed.session.id)),
    };
    let source = sum_of(from, &moment, &mut |entries| job.advance(entries)).await?;
    job.advance(1)?;
    let mut seen = Seen {
        session: listed.session.clone(),
        revision: moment.row.revision,
        weight: listed.weight,
        outcome: CopyOutcome::Copied,
        source,
        target: None,
    };
    let build = Build { workspace, request: request(workspace, &listed.session)?, moment: &moment };
    for _ in 0..TRIES {
        let there = job.target(workspace, &moment.row.id).await?;
        if let Some((_, sum)) = &there
            && *sum == seen.source
        {
            if seen.outcome == CopyOutcome::Copied {
                seen.outcome = CopyOutcome::AlreadyThere;
            }
            seen.target = there.map(|(_, sum)| sum);
            job.advance(1)?;
            return Ok(Some(seen));
        }
        match build.begin(job, &seen.source).await {
            Ok(Begun::Building(builder, built)) => {
                if build.fill(job, Filling::new(*builder, built)).await? {
                    return Ok(Some(seen));
                }
            }
            // Somebody else copies the same, and was first; or it is another session.
            Ok(Begun::Complete(_) | Begun::Taken(_)) if there.is_none() => {}
            Ok(Begun::Complete(_) | Begun::Taken(_)) => return Err(build.taken()),
            // This session of the source was copied before, as it was at another moment.
            Err(error) if error.kind() == ErrorKind::RequestConflict => match there {
                Some((session, sum)) => {
                    build.remove_untouched(job, session, &sum).await?;
                    seen.outcome = CopyOutcome::Replaced;
                }
                None => discard(build.site(job), &moment.row.id).await?,
            },
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(ErrorKind::Busy, "others keep changing the session in the target while it is copied")
        .with("session", &moment.row.id)
        .with_operation("copy"))
}

/// Copies of one life of a session share a request; which moment is copied is its fingerprint.
fn request(workspace: &WorkspaceId, session: &SessionRef) -> Result<RequestId> {
    let meant = FieldDigest::new("copy/1").text(workspace.as_str()).text(session.id.as_str());
    RequestId::host(format!("copy/1/{}", to_hex(&meant.bytes(session.incarnation.as_bytes()).finish())))
}

struct Build<'a> {
    workspace: &'a WorkspaceId,
    request: RequestId,
    moment: &'a Moment,
}

impl Build<'_> {
    fn site<'s>(&'s self, job: &Job<'s, '_, '_>) -> Site<'s> {
        Site { store: job.to, workspace: self.workspace, entropy: job.entropy, operation: "copy" }
    }

    fn id(&self) -> &SessionId {
        &self.moment.row.id
    }

    async fn begin<'s>(&'s self, job: &Job<'s, '_, '_>, sum: &Sum) -> Result<Begun<'s>> {
        let meant = FieldDigest::new("copy-of/1").text(&sum.digest).finish();
        let meant = Fingerprint::from_bytes(meant);
        begin(self.site(job), self.id(), &self.moment.row.profile, &self.request, meant).await
    }

    /// Writes every row and puts the session into use; `false` if a former builder had written something else, which is
    /// removed.
    async fn fill(&self, job: &mut Job<'_, '_, '_>, mut filling: Filling<'_>) -> Result<bool> {
        match self.rows(job, &mut filling).await {
            Ok(true) => filling.seal(self.moment.row.path.leaf).await.map(|_| true),
            Ok(false) => filling.abandon().await.map(|()| false),
            Err(error) => {
                // Whatever it was, the next copy goes on from here.
                let _ = filling.leave().await;
                Err(error.with("session", self.id()))
            }
        }
    }

    async fn rows(&self, job: &mut Job<'_, '_, '_>, filling: &mut Filling<'_>) -> Result<bool> {
        let mut walk = self.moment.walk(job.from);
        while let Some(rows) = walk.next().await? {
            let mut entries = 0;
            for row in rows {
                entries += u64::from(matches!(row, Row::Entry(_)));
                if mutant::is("copy/events-left-out") && matches!(row, Row::Event { .. }) {
                    continue;
                }
                if !filling.add(row).await? {
                    return Ok(false);
                }
            }
            job.advance(entries)?;
        }
        job.advance(1)?;
        filling.end().await
    }

    /// Removes an earlier copy, if it still is what was copied: then the source has all of it.
    async fn remove_untouched(&self, job: &Job<'_, '_, '_>, there: SessionRef, sum: &Sum) -> Result<()> {
        // The receipt of that copy answers only to what it copied.
        let untouched = match self.begin(job, sum).await {
            Ok(Begun::Complete(session)) => session == there,
            Ok(Begun::Building(builder, _)) => return builder.abandon().await,
            Ok(Begun::Taken(_)) => false,
            Err(error) if error.kind() == ErrorKind::RequestConflict => false,
            Err(error) => return Err(error),
        };
        if !untouched && !mutant::is("copy/overwrites-what-went-on") {
            return Err(self.taken());
        }
        let commit =
            Commit::new(self.workspace.clone()).op(Op::DeleteSession { session: there, force: false });
        job.to.commit(commit).await.map(drop).map_err(|error| error.with_operation("copy"))
    }

    fn taken(&self) -> Error {
        Error::new(
            ErrorKind::AlreadyExists,
            "the target has other content under the id of a session, and it was not touched; delete that session there, \
             or copy into another store",
        )
        .with("workspace", self.workspace)
        .with("session", self.id())
        .with_operation("copy")
    }
}
