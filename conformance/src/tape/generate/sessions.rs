//! Drawing sessions: which one a step is about, and how new ones are made.

use super::Writer;
use crate::tape::ops::{Do, Follows, Hold, Life, Line, Taking};
use crate::tape::script::Player;

/// The ids of a tape.
const IDS: [&str; 4] = ["a", "b", "c", "d"];

impl Writer {
    /// The session that a step is about: most often one that is there.
    pub(super) fn focus(&mut self) -> Life {
        let there: Vec<Life> = self.model.sessions.values().map(|row| row.life.clone()).collect();
        if there.is_empty() || self.draws.chance(if there.len() < 3 { 12 } else { 4 }) {
            return self.some_life();
        }
        let open: Vec<Life> =
            self.model.sessions.values().filter(|row| row.restoring).map(|row| row.life.clone()).collect();
        if !open.is_empty() && self.draws.chance(25) {
            return self.draws.of(&open);
        }
        self.draws.of(&there)
    }

    /// Any life that was or will be.
    pub(super) fn some_life(&mut self) -> Life {
        let life = self.draws.below(self.lives as usize + 1);
        Life::new(self.draws.of(&IDS), u32::try_from(life).unwrap_or(0))
    }

    /// A life that nobody has used yet.
    pub(super) fn next_life(&mut self, id: &str) -> Life {
        self.lives += 1;
        Life::new(id, self.lives)
    }

    /// A new session: in use at once, perhaps with its first words and its lease, or one to be built.
    pub(super) fn creation(&mut self) -> Vec<Do> {
        let id = self.draws.of(&IDS);
        let session = self.next_life(id);
        // What is built has one builder, who alone knows what was sent: nothing for many clients at once.
        let alone = self.plan.player != Player::Concurrent;
        let restoring = alone && !self.model.sessions.is_empty() && self.draws.chance(45);
        let title = self.draws.of(&[None, Some("first".to_owned())]);
        let mut ops = vec![Do::Create { session: session.clone(), restoring, title }];
        if restoring || self.draws.chance(20) {
            self.tokens += 1;
            let lease = Hold::Session(session.clone());
            ops.push(Do::Acquire { lease, token: self.tokens, ttl_ms: 20_000, takeover: Taking::Expired });
        }
        if !restoring && self.draws.chance(60) {
            let lines = vec![self.line(&session, 0)];
            ops.push(Do::Append { session, lines });
        }
        ops
    }

    /// Work on a session in the making.
    pub(super) fn building_op(&mut self, session: &Life) -> Do {
        let session = session.clone();
        let head = self.model.session(&session).and_then(|row| row.head());
        match self.draws.weighted(&[36, 30, 28, 3, 3]) {
            0 => {
                let sources: Vec<(Life, u32)> = self
                    .model
                    .sessions
                    .values()
                    .filter(|row| !row.restoring)
                    .filter_map(|row| Some((row.life.clone(), row.head()?)))
                    .collect();
                let none = (self.some_life(), 1);
                let (from, most) = if sources.is_empty() { none } else { self.draws.of(&sources) };
                let done = head.unwrap_or(0);
                let more = self.draws.below(most.saturating_sub(done) as usize + 1);
                let through = (done + u32::try_from(more).unwrap_or(0)).max(1);
                Do::Copy { from, to: session, after: head, through }
            }
            1 => {
                let first = head.unwrap_or(0) + u32::from(!self.draws.chance(4));
                let count = 1 + self.draws.below(2);
                let mut lines: Vec<Line> = Vec::new();
                for place in 0..count {
                    let mut line = self.line(&session, place);
                    if !matches!(line.follows, Follows::Entry(_)) {
                        line.follows = Follows::Root;
                    }
                    line.skip = false;
                    lines.push(line);
                }
                Do::Restore { session, first, lines }
            }
            2 => {
                let row = self.model.session(&session);
                let on_path = row.into_iter().flat_map(|row| (1..).zip(&row.entries));
                let on_path: Vec<u32> = on_path
                    .filter(|(_, entry)| entry.line.sort.on_path())
                    .map(|(number, _)| number)
                    .collect();
                let leaf = if self.draws.chance(90) { on_path.last().copied() } else { head };
                Do::Seal { session, leaf, wrong: self.draws.chance(25) }
            }
            3 => Do::Delete { session, force: self.draws.chance(50) },
            _ => Do::Release { lease: Hold::Session(session) },
        }
    }
}
