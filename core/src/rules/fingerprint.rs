//! What a caller meant by a commit, as a digest: kinds, keys, payloads and parameters of its ops.
//!
//! Left out is what a retry makes anew: times, incarnations, nonces, tokens, ids of what is made here, guards, fences
//! and leases. A caller that means such an id gives its own fingerprint with the request.

use crate::commit::{Commit, Expect, Fingerprint, NewEntry, NewEvent, Op, RequestScope};
use crate::digest::FieldDigest;
use crate::id::EntryNo;
use crate::model::Row;
use crate::payload::Payload;

/// The fingerprint of a commit: the one its request carries, else the digest of version 1 of the canonical form.
#[must_use]
pub fn fingerprint(commit: &Commit) -> Fingerprint {
    let request = commit.request.as_ref();
    if let Some(given) = request.and_then(|request| request.fingerprint) {
        return given;
    }
    let mut digest = FieldDigest::new("commit/1").text(commit.workspace.as_str());
    if let Some(RequestScope::Session(session)) = request.map(|request| &request.scope) {
        digest = digest.text(session.id.as_str());
    }
    for op in &commit.ops {
        digest = fold_op(digest, op);
    }
    Fingerprint::from_bytes(digest.finish())
}

fn fold_op(digest: FieldDigest, op: &Op) -> FieldDigest {
    match op {
        Op::WhenKey { session, key, then } => {
            fold_op(digest.text("when_key").text(session.id.as_str()).text(key.as_str()), then)
        }
        Op::CreateSession(new) => debug(digest.text("create_session"), &(new.state as u8, &new.profile)),
        Op::PatchSession { session, patch } => {
            let digest = digest.text("patch_session").text(session.id.as_str());
            let digest = debug(digest, &(&patch.title, &patch.cwd, &patch.channel, &patch.project));
            let digest = debug(digest, &(patch.pinned, patch.archived, patch.meta.is_some()));
            payload(digest, patch.meta.as_ref().and_then(Option::as_ref))
        }
        Op::DeleteSession { session, force } => {
            digest.text("delete_session").text(session.id.as_str()).number(u64::from(*force))
        }
        Op::Append { session, entries } => {
            let digest = digest.text("append").text(session.id.as_str()).number(entries.len() as u64);
            entries.iter().fold(digest, fold_entry)
        }
        Op::MoveLeaf { session, to } => number(digest.text("move_leaf").text(session.id.as_str()), *to),
        Op::CopyEntries { from, to, after, through } => {
            let digest = digest.text("copy_entries").text(from.id.as_str()).text(to.id.as_str());
            number(digest, *after).number(u64::from(through.get()))
        }
        Op::SealSession { session, leaf, rows, digest: sealed } => {
            number(digest.text("seal_session").text(session.id.as_str()), *leaf).number(*rows).bytes(sealed)
        }
        Op::Restore { session, rows } => {
            let digest = digest.text("restore").text(session.id.as_str()).number(rows.len() as u64);
            rows.iter().fold(digest, fold_restored)
        }
        Op::RestoreRecord { record } => {
            let digest =
                digest.text("restore_record").text(record.collection.as_str()).text(record.key.as_str());
            digest.text(record.payload.as_str())
        }
        Op::StartRun { session, run } => {
            let digest = digest.text("start_run").text(session.id.as_str()).text(run.state.as_str());
            let digest = digest.maybe(run.source.as_deref()).maybe(run.model.as_deref());
            digest.maybe(run.mode.as_deref()).maybe(run.work_dir.as_deref())
        }
        Op::TransitionRun { session, run, from, to, error } => {
            let digest = digest.text("transition_run").text(session.id.as_str()).text(run.as_str());
            payload(debug(digest, from).text(to.as_str()), error.as_ref())
        }
        Op::ReopenRun { session, run } => {
            digest.text("reopen_run").text(session.id.as_str()).text(run.as_str())
        }
        Op::PatchRun { session, run, patch } => {
            let digest = digest.text("patch_run").text(session.id.as_str()).text(run.as_str());
            let digest = debug(digest, &patch.model);
            [&patch.error, &patch.progress, &patch.context_usage].into_iter().fold(digest, |digest, field| {
                payload(digest.number(u64::from(field.is_some())), field.as_ref().and_then(Option::as_ref))
            })
        }
        Op::AddUsage { session, run, usage } => {
            let digest = digest.text("add_usage").text(session.id.as_str());
            debug(digest.maybe(run.as_ref().map(|run| run.as_str())), usage)
        }
        Op::AppendEvents { session, stream, expect_next, events } => {
            let digest = digest.text("append_events").text(session.id.as_str()).text(stream.as_str());
            let digest = debug(digest, expect_next).number(events.len() as u64);
            events.iter().fold(digest, fold_event)
        }
        Op::DropEvents { session, stream, through, close } => {
            let digest = digest.text("drop_events").text(session.id.as_str()).text(stream.as_str());
            debug(digest, &(through, close))
        }
        Op::PutRecord(put) => {
            let digest = digest.text("put_record").text(put.collection.as_str()).text(put.key.as_str());
            let digest = digest.maybe(put.owner.as_ref().map(|owner| owner.id.as_str()));
            let digest = digest.maybe(put.status.as_ref().map(|status| status.as_str()));
            digest.text(expectation(put.expect)).text(put.payload.as_str())
        }
        Op::DeleteRecord { collection, key, expect, .. } => {
            let digest = digest.text("delete_record").text(collection.as_str()).text(key.as_str());
            digest.text(expectation(*expect))
        }
        Op::AcquireLease(grant) => digest.text("acquire_lease").text(grant.purpose.as_str()),
        Op::RenewLease { .. } => digest.text("renew_lease"),
        Op::ReleaseLease { .. } => digest.text("release_lease"),
    }
}

/// Without run and turn, which may have been drawn for this very commit.
fn fold_entry(digest: FieldDigest, entry: &NewEntry) -> FieldDigest {
    let digest = debug(digest, &(entry.parent, entry.advance_leaf, entry.on_key as u8, entry.visibility));
    let digest = digest.text(entry.kind.as_str()).maybe(entry.role.as_ref().map(|role| role.as_str()));
    let digest = debug(digest.maybe(entry.key.as_ref().map(|key| key.as_str())), &entry.refs);
    digest.maybe(entry.text.as_deref()).text(entry.payload.as_str())
}

fn fold_event(digest: FieldDigest, event: &NewEvent) -> FieldDigest {
    digest.text(event.kind.as_str()).text(event.payload.as_str())
}

fn fold_restored(digest: FieldDigest, row: &Row) -> FieldDigest {
    digest.bytes(&serde_json::to_vec(row).unwrap_or_default())
}

/// The version of an expectation is something that a retry reads anew.
fn expectation(expect: Expect) -> &'static str {
    match expect {
        Expect::Any => "any",
        Expect::Absent => "absent",
        Expect::Version(_) => "version",
    }
}

fn payload(digest: FieldDigest, payload: Option<&Payload>) -> FieldDigest {
    digest.maybe(payload.map(Payload::as_str))
}

fn number(digest: FieldDigest, number: Option<EntryNo>) -> FieldDigest {
    digest.number(u64::from(number.map_or(0, EntryNo::get)))
}

fn debug(digest: FieldDigest, value: &impl std::fmt::Debug) -> FieldDigest {
    digest.text(&format!("{value:?}"))
}
