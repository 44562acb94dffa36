//! What a commit writes, or why not: request, fences, guards, ops, in this order.

mod entries;
mod events;
mod guards;
mod leases;
mod records;
mod restore;
mod runs;
mod sessions;
mod state;

use crate::commit::{Commit, Op, Outcome, Receipt, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{RECEIPT_BYTES, REQUEST_MS};
use crate::mutant;
use crate::rules::{Facts, RequestRow, Stamp, Write, WriteSet, fingerprint};

pub use entries::counts_as_message;
use state::State;

/// Evaluates request, fences, guards and ops over the facts.
///
/// # Errors
/// The refusal: its context names the fence, guard or op, and what was observed. Nothing is to be written then.
pub fn decide(commit: &Commit, facts: Facts, stamp: &Stamp) -> Result<WriteSet> {
    if let Some(request) = &commit.request
        && let Some(receipt) = known(commit, request, &facts, stamp)?
    {
        return Ok(WriteSet { workspace: commit.workspace.clone(), writes: Vec::new(), receipt });
    }
    let mut state = State::new(&commit.workspace, facts, *stamp);
    for (at, fence) in
        commit.fences.iter().enumerate().skip(usize::from(mutant::is("fences/first-not-checked")))
    {
        state.check_fence(fence).map_err(|error| error.with("fence", at))?;
    }
    for (at, guard) in
        commit.guards.iter().enumerate().skip(usize::from(mutant::is("guards/first-not-checked")))
    {
        state.check_guard(guard).map_err(|error| error.with("guard", at))?;
    }
    let mut outcomes = Vec::with_capacity(commit.ops.len());
    for (at, op) in commit.ops.iter().enumerate() {
        state.place = at;
        match apply(&mut state, op).map_err(|error| error.with("op", at)) {
            // What stands before the refused op is written all the same.
            Err(_) if at > 0 && mutant::is("ops/refused-one-is-left-out") => break,
            outcome => outcomes.push(outcome?),
        }
    }
    // A receipt lives with its session, so it cannot outlive it from the start.
    if let Some(owner) = commit.request.as_ref().and_then(Request::owning_session) {
        state.any(owner)?;
    }
    let (mut writes, sessions) = state.finish();
    let receipt = Receipt { outcomes, sessions, replayed: false };
    if let Some(request) = &commit.request {
        writes.push(Write::Request(Box::new(ledger_row(commit, request, &receipt, stamp)?)));
    }
    Ok(WriteSet { workspace: commit.workspace.clone(), writes, receipt })
}

/// The stored receipt of a repeated request.
fn known(commit: &Commit, request: &Request, facts: &Facts, stamp: &Stamp) -> Result<Option<Receipt>> {
    if request.id.drawn_at().is_some_and(|drawn| {
        stamp.now.since_ms(drawn) > mutant::either("requests/never-expire", i64::MAX, REQUEST_MS)
    }) {
        return Err(Error::new(
            ErrorKind::RequestExpired,
            "the request id is older than seven days; see what is stored, then use a new id",
        )
        .with("request", &request.id));
    }
    let Some(row) = facts.request.as_ref().filter(|_| !mutant::is("requests/forgotten")) else {
        return Ok(None);
    };
    if row.fingerprint != fingerprint(commit) && !mutant::is("requests/other-content-repeats") {
        return Err(Error::new(
            ErrorKind::RequestConflict,
            "the request id was used for something else; use a new one",
        )
        .with("request", &request.id));
    }
    let mut receipt = row.receipt.clone();
    receipt.replayed = !mutant::is("requests/repeat-looks-new");
    Ok(Some(receipt))
}

fn ledger_row(commit: &Commit, request: &Request, receipt: &Receipt, stamp: &Stamp) -> Result<RequestRow> {
    let size = serde_json::to_vec(receipt).map_or(usize::MAX, |bytes| bytes.len());
    if size > RECEIPT_BYTES && !mutant::is("requests/receipt-of-any-size") {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the receipt would have {size} bytes; at most {RECEIPT_BYTES} are kept: split the commit"
            ),
        ));
    }
    Ok(RequestRow {
        scope: request.scope.clone(),
        id: request.id.clone(),
        owner: request.owning_session().cloned(),
        fingerprint: fingerprint(commit),
        receipt: receipt.clone(),
        created_at: stamp.now,
        expires_at: request.id.drawn_at().map(|drawn| drawn.plus_ms(REQUEST_MS)),
    })
}

fn apply(state: &mut State<'_>, op: &Op) -> Result<Outcome> {
    match op {
        Op::WhenKey { session, key, then } => {
            state.active(session)?;
            state.settled(session)?;
            if state.entry_with_key(session, key).is_some() || mutant::is("ops/condition-ignored") {
                apply(state, then)
            } else {
                Ok(Outcome::Skipped)
            }
        }
        Op::CreateSession(new) => sessions::create(state, new),
        Op::PatchSession { session, patch } => sessions::patch(state, session, patch),
        Op::DeleteSession { session, force } => sessions::delete(state, session, *force),
        Op::Append { session, entries } => entries::append(state, session, entries),
        Op::MoveLeaf { session, to } => entries::move_leaf(state, session, *to),
        Op::CopyEntries { from, to, after, through } => restore::copy(state, from, to, *after, *through),
        Op::SealSession { session, leaf, rows, digest } => {
            restore::seal(state, session, *leaf, *rows, digest)
        }
        Op::Restore { session, rows } => restore::rows(state, session, rows),
        Op::RestoreRecord { record } => restore::unowned_record(state, record),
        Op::StartRun { session, run } => runs::start(state, session, run),
        Op::TransitionRun { session, run, from, to, error } => {
            runs::transition(state, session, run, *from, *to, error.as_ref())
        }
        Op::ReopenRun { session, run } => runs::reopen(state, session, run),
        Op::PatchRun { session, run, patch } => runs::patch(state, session, run, patch),
        Op::AddUsage { session, run, usage } => runs::add_usage(state, session, run.as_ref(), usage),
        Op::AppendEvents { session, stream, expect_next, events } => {
            events::append(state, session, stream, *expect_next, events)
        }
        Op::DropEvents { session, stream, through, close } => {
            events::drop(state, session, stream, *through, *close)
        }
        Op::PutRecord(put) => records::put(state, put),
        Op::DeleteRecord { collection, key, owner, expect } => {
            records::delete(state, collection, key, owner.as_ref(), *expect)
        }
        Op::AcquireLease(grant) => leases::acquire(state, grant),
        Op::RenewLease { fence, ttl_ms } => leases::renew(state, fence, *ttl_ms),
        Op::ReleaseLease { fence } => leases::release(state, fence),
    }
}
