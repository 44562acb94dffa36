//! Turns: what a person asked and what came of it, as boundaries in the order of entries.

use std::collections::HashMap;

use turnkeep_core::commit::{Guard, OnKey, Op};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryKind, EntryNo, RunId, TurnId};
use turnkeep_core::model::{Entry, entry_kind};
use turnkeep_core::{Cursor, Page, Timestamp, mutant};

use super::{Plan, Session};
use crate::draft::{Draft, TurnEnd, TurnStart, TurnStatus};
use crate::run::close::{begun_before, end_key, start_key};

/// A turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// The run that executed it.
    pub run: Option<RunId>,
    /// The entry that begins it.
    pub start: EntryNo,
    /// When it began.
    pub started_at: Timestamp,
    /// How it ended; `None` while it is open.
    pub end: Option<EndOfTurn>,
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndOfTurn {
    /// The entry that ends it.
    pub entry: EntryNo,
    /// When.
    pub at: Timestamp,
    /// How.
    pub status: TurnStatus,
    /// Why, as the provider or the host says.
    pub stop_reason: Option<String>,
}

impl Session {
    /// Its turns in the order of the transcript, on all branches, at most `limit` in one page.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted; `Invalid` for a limit of 0 or a foreign cursor.
    pub async fn turns(&self, limit: u32, cursor: Option<Cursor>) -> Result<Page<Turn>> {
        let kind = EntryKind::new(entry_kind::TURN_START)?;
        let starts = self
            .entries(move |query| {
                query.kinds = vec![kind];
                query.limit = limit;
                query.cursor = cursor;
            })
            .await?;
        let mut items: Vec<Turn> = starts.items.iter().filter_map(begun).collect();
        self.find_ends(&mut items).await?;
        Ok(Page { items, next: starts.next, total: starts.total })
    }

    /// Begins a turn outside of a run. Runs begin and end their turns themselves.
    ///
    /// # Errors
    /// `AlreadyExists` when a turn with this id was begun before; `StaleLeaf` and `LeaseHeld` as an append.
    pub async fn start_turn(&self, turn: &TurnId) -> Result<EntryNo> {
        let start = TurnStart { run: None, intent: None };
        let begun = self.boundary(turn, Draft::from(start), start_key(turn)?.as_str(), None).await;
        begun.map_err(|refused| begun_before(refused, self.session_ref(), turn))
    }

    /// Ends a turn that was begun outside of a run.
    ///
    /// # Errors
    /// `TurnNotOpen` when it was never begun or ended before; `StaleLeaf` and `LeaseHeld` as an append.
    pub async fn end_turn(&self, turn: &TurnId, end: TurnEnd) -> Result<EntryNo> {
        let open = Guard::KeyPresent { session: self.session_ref().clone(), key: start_key(turn)? };
        let ended = self.boundary(turn, Draft::from(end), end_key(turn)?.as_str(), Some(open)).await;
        match ended {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(self.not_open(turn)),
            Err(error)
                if error.kind() == ErrorKind::NotFound
                    && (!self.is_stored() || self.info().await.is_ok()) =>
            {
                Err(self.not_open(turn))
            }
            ended => ended,
        }
    }

    async fn boundary(
        &self,
        turn: &TurnId,
        draft: Draft,
        key: &str,
        guard: Option<Guard>,
    ) -> Result<EntryNo> {
        let (session, draft, id) = (self.session_ref().clone(), draft.key(key), turn.clone());
        let mut plan = Plan::new(move |now| {
            let mut entry = draft.clone().into_entry(now, None, Some(&id))?;
            entry.on_key = mutant::either("turns/ended-twice", OnKey::Skip, OnKey::Refuse);
            Ok(vec![Op::Append { session: session.clone(), entries: vec![entry] }])
        });
        if let Some(guard) = guard {
            plan = plan.guard(guard);
        }
        let written = self.write(plan).await?;
        let number = written.receipt.entries(written.first).next();
        number.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the receipt of the append names no entry"))
    }

    fn not_open(&self, turn: &TurnId) -> Error {
        Error::new(ErrorKind::TurnNotOpen, "the turn is not open: it was never begun, or ended before")
            .with("session", self.id())
            .with("turn", turn)
    }

    /// Finds the ends of turns that are listed ascending. They come after the first of them.
    async fn find_ends(&self, turns: &mut [Turn]) -> Result<()> {
        let Some(first) = turns.first().map(|turn| turn.start) else { return Ok(()) };
        let mut open: HashMap<TurnId, usize> =
            turns.iter().enumerate().map(|(at, turn)| (turn.id.clone(), at)).collect();
        let mut query = self.entry_query();
        query.kinds = vec![EntryKind::new(entry_kind::TURN_END)?];
        query.after = Some(first);
        loop {
            let page = self.workspace().base().store().entries(&query).await?;
            for entry in page.items {
                let known = entry.turn.as_ref().and_then(|turn| open.remove(turn));
                if let Some(turn) = known.and_then(|at| turns.get_mut(at))
                    && let Ok(end) = TurnEnd::from_entry(&entry)
                {
                    let TurnEnd { status, stop_reason } = end;
                    turn.end = Some(EndOfTurn { entry: entry.number, at: entry.at, status, stop_reason });
                }
            }
            match page.next {
                Some(next) if !open.is_empty() => query.cursor = Some(next),
                _ => return Ok(()),
            }
        }
    }
}

/// A turn that an entry begins.
fn begun(entry: &Entry) -> Option<Turn> {
    let id = entry.turn.clone()?;
    Some(Turn { id, run: entry.run.clone(), start: entry.number, started_at: entry.at, end: None })
}
