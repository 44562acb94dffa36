//! What a query answers.

use turnkeep_core::{ErrorKind, Order};

use super::{Check, Model, Session};
use crate::tape::look::{End, Look, Owned, Pages, Target, paged};
use crate::tape::ops::{Life, Sort};

impl Model {
    pub(crate) fn look(&self, client: u32, look: &Look) -> Check<Pages> {
        if look.limit == 0 {
            return Err(ErrorKind::Invalid);
        }
        let items = match &look.at {
            Target::Entries { .. } => self.entries(client, &look.at)?,
            Target::Sessions { by_id, pinned, archived, with_messages } => {
                self.list(*by_id, *pinned, *archived, *with_messages)
            }
            Target::Runs { session, states, intent } => {
                let of = |row: &Session| session.as_ref().is_none_or(|life| row.life == *life);
                if let Some(life) = session {
                    self.in_use(life).ok_or(ErrorKind::NotFound)?;
                }
                let rows = self.sessions.values().filter(|row| !row.restoring && of(row));
                let runs = rows.flat_map(|row| row.runs.iter().map(move |run| (row, run)));
                let fit = runs.filter(|(_, run)| {
                    (states.is_empty() || states.contains(&run.state))
                        && (intent.is_none() || run.intent == *intent)
                });
                fit.map(|(row, run)| format!("{} {} {}", row.life.0, run.id, run.state.as_str())).collect()
            }
            Target::Events { session, stream, after, before } => {
                let row = self.in_use(session).ok_or(ErrorKind::NotFound)?;
                let stream = row.streams.get(stream).cloned().unwrap_or_default();
                let numbered = (1_u64..).zip(&stream.values);
                let fit = numbered.filter(|(number, _)| {
                    *number > stream.floor.max(after.unwrap_or(0)) && before.is_none_or(|end| *number < end)
                });
                fit.map(|(number, value)| format!("{number} {value}")).collect()
            }
            Target::Records { collection, owner, status } => {
                self.docs(collection, owner.as_ref(), status.as_ref())?
            }
        };
        let order = if matches!(look.at, Target::Sessions { .. }) { Order::Ascending } else { look.order };
        Ok(paged(items, order, look.limit))
    }

    fn entries(&self, client: u32, target: &Target) -> Check<Vec<String>> {
        let Target::Entries { session, path, after, before, partials, run, key, kind } = target else {
            return Ok(Vec::new());
        };
        let row = self.in_use(session).ok_or(ErrorKind::NotFound)?;
        let numbers = match path {
            None => (1..=row.head().unwrap_or(0)).collect(),
            Some(End::Leaf) => row.path(row.leaf),
            Some(End::At(spot)) => {
                let end = self.number(client, spot);
                row.followable(end)?;
                row.path(Some(end))
            }
        };
        let fits = |number: &u32| {
            let Some(entry) = row.entry(*number) else { return false };
            after.is_none_or(|after| *number > after)
                && before.is_none_or(|before| *number < before)
                && (*partials || entry.line.sort != Sort::Partial)
                && (run.is_none() || entry.line.run == *run)
                && (key.is_none() || entry.line.key == *key)
                && kind.as_ref().is_none_or(|kind| entry.line.sort.kind() == kind)
        };
        let text = |number: u32| row.entry(number).map_or("", |entry| entry.line.text.as_str());
        let fit = numbers.into_iter().filter(fits);
        Ok(fit.map(|number| format!("{number} {}", text(number))).collect())
    }

    fn list(
        &self,
        by_id: bool,
        pinned: Option<bool>,
        archived: Option<bool>,
        with_messages: bool,
    ) -> Vec<String> {
        let mut rows = self.recent(|row| {
            pinned.is_none_or(|pinned| row.pinned == pinned)
                && archived.is_none_or(|archived| row.archived == archived)
                && (!with_messages || row.messages() > 0)
        });
        if by_id {
            rows.sort_by(|a, b| a.life.id().cmp(b.life.id()));
        }
        rows.into_iter().map(|row| row.life.0.clone()).collect()
    }

    fn docs(&self, collection: &str, owner: Option<&Owned>, status: Option<&String>) -> Check<Vec<String>> {
        let by: Option<Option<&Life>> = match owner {
            None => None,
            Some(Owned::Nobody) => Some(None),
            Some(Owned::By(life)) => {
                self.in_use(life).ok_or(ErrorKind::NotFound)?;
                Some(Some(life))
            }
        };
        let of = self.records.iter().filter(|((of, _), _)| of == collection);
        let fit = of.filter(|(_, doc)| {
            by.is_none_or(|by| doc.owner.as_ref() == by)
                && (status.is_none() || doc.status.as_ref() == status)
        });
        let mut docs: Vec<_> = fit.map(|((_, key), doc)| (doc.ordinal, key.clone(), doc.value)).collect();
        docs.sort();
        Ok(docs.into_iter().map(|(_, key, value)| format!("{key} {value}")).collect())
    }
}
