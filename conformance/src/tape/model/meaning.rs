//! What of a commit is its meaning: everything but what a retry makes anew.

use crate::tape::ops::{Do, Expected, Hold, Life, Taking};

/// Resolved operations with everything blanked that may differ between tries. What they make is named by its place.
pub(super) fn of(ops: &[Do]) -> Vec<Do> {
    let mut names = Names { sessions: Vec::new(), runs: Vec::new() };
    ops.iter().map(|op| names.blank(op)).collect()
}

struct Names {
    sessions: Vec<Life>,
    runs: Vec<(Life, String)>,
}

impl Names {
    /// A session by its id, whichever life; one that is made here by its place.
    fn session(&self, life: &mut Life) {
        *life = match self.sessions.iter().position(|made| made == life) {
            Some(place) => Life(format!("made {place}")),
            None => Life(life.id().to_owned()),
        };
    }

    fn run(&self, life: &Life, run: &mut String) {
        if let Some(place) = self.runs.iter().position(|made| made.0 == *life && made.1 == *run) {
            *run = format!("made {place}");
        }
    }

    fn hold(&self, lease: &mut Hold) {
        if let Hold::Session(life) = lease {
            self.session(life);
        }
    }

    fn blank(&mut self, op: &Do) -> Do {
        let mut op = op.clone();
        match &mut op {
            Do::WhenKey { session, then, .. } => {
                self.session(session);
                **then = self.blank(then);
            }
            Do::Create { session, .. } => {
                self.sessions.push(session.clone());
                *session = Life("made".to_owned());
            }
            Do::Start { session, run, intent, after, .. } => {
                self.runs.push((session.clone(), run.clone()));
                "made".clone_into(run);
                (*intent, *after) = (None, None);
                self.session(session);
            }
            Do::Append { session, lines } => {
                for line in lines {
                    (line.label, line.run) = (None, None);
                }
                self.session(session);
            }
            Do::Restore { session, lines, .. } => {
                lines.iter_mut().for_each(|line| line.label = None);
                self.session(session);
            }
            Do::Move { session, run, from, .. } => {
                from.sort_by_key(|state| state.as_str());
                from.dedup();
                self.run(session, run);
                self.session(session);
            }
            Do::TakeUp { session, run } | Do::PatchRun { session, run, .. } => {
                self.run(session, run);
                self.session(session);
            }
            Do::Usage { session, run, .. } => {
                if let Some(run) = run {
                    self.run(session, run);
                }
                self.session(session);
            }
            Do::Put { owner, expect, .. } => {
                owner.iter_mut().for_each(|owner| self.session(owner));
                version(expect);
            }
            Do::Remove { owner, expect, .. } => {
                *owner = None;
                version(expect);
            }
            Do::Acquire { lease, token, ttl_ms, takeover } => {
                self.hold(lease);
                (*token, *ttl_ms, *takeover) = (0, 0, Taking::Expired);
            }
            Do::Renew { lease, ttl_ms } => {
                self.hold(lease);
                *ttl_ms = 0;
            }
            Do::Release { lease } => self.hold(lease),
            Do::Copy { from, to, .. } => {
                self.session(from);
                self.session(to);
            }
            Do::Patch { session, .. }
            | Do::Delete { session, .. }
            | Do::MoveLeaf { session, .. }
            | Do::Events { session, .. }
            | Do::DropEvents { session, .. }
            | Do::Seal { session, .. } => self.session(session),
        }
        op
    }
}

fn version(expect: &mut Expected) {
    if *expect == Expected::Former {
        *expect = Expected::Seen;
    }
}
