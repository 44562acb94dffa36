//! Drawing operations on sessions that are in use.

use turnkeep_core::model::RunState;

use super::Writer;
use crate::tape::names;
use crate::tape::ops::{Do, Follows, Hold, Life, Line, Sort, Spot, Taking};
use crate::tape::script::Player;

impl Writer {
    pub(super) fn any_op(&mut self, session: &Life) -> Do {
        let session = session.clone();
        let has_runs = self.model.in_use(&session).is_some_and(|row| !row.runs.is_empty());
        let at_work = self.model.in_use(&session).is_some_and(|row| row.active_run().is_some());
        let run_work = if has_runs { 9 } else { 0 };
        let weights = [
            30, // append
            4,  // move leaf
            if at_work { 2 } else { 14 },
            run_work * if at_work { 2 } else { 1 },
            run_work / if at_work { 4 } else { 1 },
            run_work / 2,
            3,  // usage
            12, // events
            5,  // drop events
            15, // put
            4,  // remove
            8,  // acquire
            3,  // renew
            3,  // release
            4,  // patch
            2,  // delete
            3,  // when key
            2,  // create
        ];
        match self.draws.weighted(&weights) {
            0 => self.append(&session),
            1 => Do::MoveLeaf { to: self.draws.chance(85).then(|| self.spot(&session)), session },
            2 => self.start(&session),
            3 => self.transition(&session),
            4 => Do::TakeUp { run: self.some_run(&session), session },
            5 => Do::PatchRun {
                run: self.some_run(&session),
                progress: self.draws.of(&[None, Some(1), Some(2)]),
                session,
            },
            6 => Do::Usage {
                run: (has_runs && self.draws.chance(60)).then(|| self.some_run(&session)),
                tokens: self.draws.of(&[1, 1_000, u64::MAX]),
                session,
            },
            7 => self.events(&session),
            8 => Do::DropEvents {
                stream: self.draws.of(names::STREAMS).to_owned(),
                through: self.draws.of(&[None, Some(1), Some(2), Some(9)]),
                close: self.draws.chance(45),
                session,
            },
            9 => self.put(&session),
            10 => {
                let (collection, key) = self.record_key();
                let owner = self.model.doc(&collection, &key).and_then(|doc| doc.owner.clone());
                let expect = self.expected(&collection, &key);
                Do::Remove { collection, key, owner: owner.filter(|_| self.draws.chance(90)), expect }
            }
            11 => self.acquire(&session),
            12 => Do::Renew { lease: self.lease(&session), ttl_ms: self.ttl() },
            13 => Do::Release { lease: self.lease(&session) },
            14 => Do::Patch {
                session,
                title: self.draws.of(&[None, Some("one".to_owned()), Some("two".to_owned())]),
                pinned: self.draws.of(&[None, Some(true), Some(false)]),
                archived: self.draws.of(&[None, None, Some(true), Some(false)]),
            },
            15 => Do::Delete { session, force: self.draws.chance(40) },
            16 => {
                let then = match self.draws.below(3) {
                    0 => self.append(&session),
                    1 => self.put(&session),
                    _ => self.events(&session),
                };
                Do::WhenKey { key: self.entry_key(&session), session, then: Box::new(then) }
            }
            _ => {
                // The id is taken most of the time.
                let session = if self.draws.chance(60) { self.next_life(session.id()) } else { session };
                Do::Create { session, restoring: false, title: None }
            }
        }
    }

    fn append(&mut self, session: &Life) -> Do {
        let count = self.draws.weighted(&[1, 60, 25, 14]);
        // An append of nothing is refused for its form.
        let count = if count == 0 && self.draws.chance(60) { 1 } else { count };
        let lines = (0..count).map(|place| self.line(session, place)).collect();
        Do::Append { session: session.clone(), lines }
    }

    /// An entry at a place of an append.
    pub(super) fn line(&mut self, session: &Life, place: usize) -> Line {
        self.texts += 1;
        let label = format!("e{}", self.texts);
        self.labels.push((session.clone(), label.clone(), self.client));
        let text = match self.draws.below(60) {
            0 => format!("nul \0 {}", self.texts),
            1..6 => format!("two  words {}", self.texts),
            _ => format!("t{}", self.texts),
        };
        let sorts = [
            Sort::User,
            Sort::User,
            Sort::Assistant,
            Sort::Assistant,
            Sort::Note,
            Sort::Partial,
            Sort::Summary,
            Sort::Internal,
        ];
        let follows = match self.draws.below(20) {
            0 => Follows::Root,
            1 if place > 0 => Follows::Place(self.draws.below(place)),
            2 => Follows::Place(place),
            3..8 => Follows::Entry(self.spot(session)),
            _ => Follows::Leaf,
        };
        Line {
            label: Some(label),
            text,
            sort: self.draws.of(&sorts),
            follows,
            key: self.draws.chance(20).then(|| self.entry_key(session)),
            skip: self.draws.chance(50),
            run: self.draws.chance(25).then(|| self.some_run(session)),
            refs: if self.draws.chance(10) { vec![self.spot(session)] } else { Vec::new() },
        }
    }

    fn start(&mut self, session: &Life) -> Do {
        let intent = self.draws.chance(50).then(|| self.draws.of(&["i0", "i1"]).to_owned());
        let newest = self.model.in_use(session).and_then(|row| {
            let tries = row.runs.iter().filter(|run| intent.is_some() && run.intent == intent);
            tries.max_by_key(|run| run.attempt).map(|run| run.id.clone())
        });
        let after = if self.draws.chance(90) { newest } else { Some("r0".to_owned()) };
        Do::Start {
            session: session.clone(),
            run: format!("r{}", self.draws.below(7)),
            pending: self.draws.chance(30),
            after: after.filter(|_| intent.is_some() || self.draws.chance(5)),
            intent,
        }
    }

    fn transition(&mut self, session: &Life) -> Do {
        let active = self.model.in_use(session).and_then(|row| row.active_run());
        let known = active.map(|run| (run.id.clone(), run.state));
        let (run, from) = match known {
            Some((run, state)) if self.draws.chance(85) => {
                let wide = self.draws.chance(40);
                (run, if wide { RunState::ALL.to_vec() } else { vec![state] })
            }
            _ => (self.some_run(session), RunState::ALL.to_vec()),
        };
        let ends = [RunState::Completed, RunState::Failed, RunState::Interrupted, RunState::Cancelled];
        let to = if self.draws.chance(50) { self.draws.of(&ends) } else { self.draws.of(&RunState::ALL) };
        Do::Move { session: session.clone(), run, from, to, error: self.draws.chance(30) }
    }

    fn events(&mut self, session: &Life) -> Do {
        let stream = self.draws.of(names::STREAMS).to_owned();
        let known = self.model.in_use(session).and_then(|row| row.streams.get(&stream));
        let first = known.map_or(0, |stream| stream.values.len() as u64) + 1;
        let tail = known.map(|stream| stream.values.clone()).unwrap_or_default();
        let count = 1 + self.draws.below(2);
        let mut values: Vec<u32> =
            (0..count).map(|_| u32::try_from(self.draws.below(3)).unwrap_or(0)).collect();
        let next = match self.draws.below(10) {
            0..4 => None,
            4..7 => Some(first),
            7..9 if tail.len() >= count => {
                // What may be the newest batch once more.
                values = tail[tail.len() - count..].to_vec();
                Some(first - count as u64)
            }
            _ => Some(first + 1),
        };
        Do::Events { session: session.clone(), stream, next, values }
    }

    fn put(&mut self, session: &Life) -> Do {
        let (collection, key) = self.record_key();
        let owner = match self.draws.below(10) {
            0..4 => Some(session.clone()),
            4..8 => self.model.doc(&collection, &key).and_then(|doc| doc.owner.clone()),
            8 => None,
            _ => Some(self.some_life()),
        };
        let expect = self.expected(&collection, &key);
        self.texts += 1;
        let status = self.draws.of(&[None, Some("open".to_owned()), Some("done".to_owned())]);
        Do::Put { collection, key, owner, status, expect, value: self.texts }
    }

    fn acquire(&mut self, session: &Life) -> Do {
        self.tokens += 1;
        let token = if self.draws.chance(15) { self.tokens.saturating_sub(2) } else { self.tokens };
        let takeover = match self.draws.below(10) {
            0..5 => Taking::Expired,
            5..9 => Taking::Dead,
            _ => Taking::Force,
        };
        Do::Acquire { lease: self.lease(session), token, ttl_ms: self.ttl(), takeover }
    }

    fn ttl(&mut self) -> u64 {
        self.draws.of(&[100, 1_000, 5_000, 20_000, 60_000, 60_000, 0])
    }

    fn lease(&mut self, session: &Life) -> Hold {
        if self.draws.chance(80) { Hold::Session(session.clone()) } else { Hold::Named("line".to_owned()) }
    }

    /// An entry of the session that this client knows by its label, seldom one of another session or none.
    pub(super) fn spot(&mut self, session: &Life) -> Spot {
        if self.draws.chance(4) {
            return Spot::No(u32::try_from(self.draws.below(40)).unwrap_or(0) + 1);
        }
        let alone = self.plan.player == Player::Concurrent;
        let stray = self.draws.chance(4);
        let known =
            |(of, _, by): &&(Life, String, u32)| (stray || of == session) && (!alone || *by == self.client);
        let known: Vec<&String> = self.labels.iter().filter(known).map(|(_, label, _)| label).collect();
        match known.len() {
            0 => Spot::No(1),
            count => {
                // Newer ones more often: of two draws the later.
                let at = self.draws.below(count).max(self.draws.below(count));
                Spot::Of(known[at].clone())
            }
        }
    }

    pub(super) fn some_run(&mut self, session: &Life) -> String {
        let runs = self.model.session(session).map(|row| &row.runs).filter(|runs| !runs.is_empty());
        match runs {
            Some(runs) if self.draws.chance(90) => {
                let at = self.draws.below(runs.len()).max(self.draws.below(runs.len()));
                runs[at].id.clone()
            }
            _ => "r0".to_owned(),
        }
    }

    pub(super) fn entry_key(&mut self, session: &Life) -> String {
        let row = self.model.session(session);
        let known: Vec<String> =
            row.into_iter().flat_map(|row| &row.entries).filter_map(|entry| entry.line.key.clone()).collect();
        if !known.is_empty() && self.draws.chance(40) {
            return self.draws.of(&known);
        }
        self.texts += 1;
        format!("k{}", if self.draws.chance(70) { self.texts } else { 0 })
    }

    pub(super) fn record_key(&mut self) -> (String, String) {
        let collection = self.draws.of(names::COLLECTIONS).to_owned();
        (collection, self.draws.of(&["x", "x", "y"]).to_owned())
    }
}
