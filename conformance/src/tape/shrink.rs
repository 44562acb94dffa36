//! Making a failing tape short: delta debugging over its steps, then its clients, then the parts of single steps.
//!
//! Property-testing crates shrink what a value was drawn from. Here the steps themselves are taken out, so what is left
//! is a tape that anybody can read and play. A shorter tape counts only if it fails in the same way.

use std::pin::Pin;
use std::time::{Duration, Instant};

use super::judge::Divergence;
use super::ops::Do;
use super::script::{Act, Change, Tape};

/// How much work shrinking may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) tries: usize,
    pub(crate) time: Duration,
}

/// Plays a tape and says how it failed, if it did.
pub(crate) type Player<'p> =
    dyn Fn(Tape) -> Pin<Box<dyn Future<Output = Option<Divergence>> + Send + 'p>> + Send + Sync + 'p;

/// A tape that fails, and how.
#[derive(Clone, Debug)]
pub(crate) struct Failing {
    pub(crate) tape: Tape,
    pub(crate) divergence: Divergence,
    /// How many tapes were played to find it.
    pub(crate) tries: usize,
}

/// Makes a failing tape as short as the bounds allow.
pub(crate) async fn shrink<'p>(
    tape: Tape,
    divergence: Divergence,
    bounds: Bounds,
    play: &'p Player<'p>,
) -> Failing {
    let ends = Instant::now() + bounds.time;
    let mut search = Search { best: Failing { tape, divergence, tries: 0 }, left: bounds.tries, ends, play };
    search.cut_the_end().await;
    // What one pass takes out may let the next one take out more.
    for _ in 0..4 {
        let before = search.best.tape.clone();
        search.steps().await;
        search.clients().await;
        search.parts().await;
        if search.best.tape == before || search.is_over() {
            break;
        }
    }
    search.best
}

struct Search<'p> {
    best: Failing,
    left: usize,
    ends: Instant,
    play: &'p Player<'p>,
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        self.left == 0 || Instant::now() >= self.ends
    }

    /// Plays a candidate; `true` if it fails in the same way, and so is the best one from now on.
    async fn fails(&mut self, candidate: Tape) -> bool {
        if self.is_over() || candidate == self.best.tape {
            return false;
        }
        self.left -= 1;
        self.best.tries += 1;
        match (self.play)(candidate.clone()).await {
            Some(divergence) if divergence.aspect == self.best.divergence.aspect => {
                self.best.tape = candidate;
                self.best.divergence = divergence;
                true
            }
            _ => false,
        }
    }

    /// Nothing after the divergence matters.
    async fn cut_the_end(&mut self) {
        let mut shorter = self.best.tape.clone();
        shorter.steps.truncate(self.best.divergence.step + 1);
        self.fails(shorter).await;
    }

    /// Takes out ever smaller pieces of the steps.
    async fn steps(&mut self) {
        let mut size = self.best.tape.steps.len().div_ceil(2);
        while size > 0 && !self.is_over() {
            // From the end, so that what a piece was built on is still there when the piece goes.
            let mut end = self.best.tape.steps.len();
            let mut any = false;
            while end > 0 {
                let start = end.saturating_sub(size);
                let mut shorter = self.best.tape.clone();
                shorter.steps.drain(start..end);
                if self.fails(shorter).await {
                    any = true;
                    end = start.min(self.best.tape.steps.len());
                } else {
                    end = start;
                }
            }
            if size == 1 && !any {
                break;
            }
            size = if size == 1 { 1 } else { size.div_ceil(2) };
        }
    }

    /// Lets the first client do the work of each other one.
    async fn clients(&mut self) {
        for client in (1..self.best.tape.clients).rev() {
            let mut fewer = self.best.tape.clone();
            for step in &mut fewer.steps {
                if step.client == client {
                    step.client = 0;
                }
            }
            self.fails(fewer).await;
        }
        let used = self.best.tape.steps.iter().map(|step| step.client + 1).max().unwrap_or(1);
        let mut fewer = self.best.tape.clone();
        fewer.clients = used;
        self.fails(fewer).await;
    }

    /// Takes parts out of single steps.
    async fn parts(&mut self) {
        for at in 0..self.best.tape.steps.len() {
            let mut part = 0;
            while let Some(simpler) = self.simpler(at, part) {
                if self.is_over() {
                    return;
                }
                // A part that went leaves its place to the next one.
                if !self.fails(simpler).await {
                    part += 1;
                }
            }
        }
    }

    /// The tape with one part of a step left out; `None` when the step has no such part.
    fn simpler(&self, at: usize, part: usize) -> Option<Tape> {
        let mut tape = self.best.tape.clone();
        match &mut tape.steps.get_mut(at)?.act {
            Act::Commit(change) => without(change, part)?,
            _ => return None,
        }
        Some(tape)
    }
}

/// Leaves a part out of a commit: an op, the request, a fence, a guard, the drop, a line, or what decorates a line.
fn without(change: &mut Change, part: usize) -> Option<()> {
    let mut part = part;
    let mut is_at = |count: usize| {
        if part < count {
            return Some(part);
        }
        part -= count;
        None
    };
    let ops = if change.ops.len() > 1 { change.ops.len() } else { 0 };
    if let Some(op) = is_at(ops) {
        change.ops.remove(op);
        return Some(());
    }
    if is_at(usize::from(change.request.is_some())).is_some() {
        change.request = None;
        return Some(());
    }
    if let Some(fence) = is_at(change.fences.len()) {
        change.fences.remove(fence);
        return Some(());
    }
    if let Some(guard) = is_at(change.guards.len()) {
        change.guards.remove(guard);
        return Some(());
    }
    if is_at(usize::from(change.dropped.is_some())).is_some() {
        change.dropped = None;
        return Some(());
    }
    for op in &mut change.ops {
        match op {
            Do::WhenKey { then, .. } if is_at(1).is_some() => {
                let then = (**then).clone();
                *op = then;
                return Some(());
            }
            Do::Append { lines, .. } | Do::Restore { lines, .. } => {
                let removable = if lines.len() > 1 { lines.len() } else { 0 };
                if let Some(line) = is_at(removable) {
                    lines.remove(line);
                    return Some(());
                }
                for line in lines {
                    if let Some(part) = is_at(decorations(line)) {
                        plainer(line, part);
                        return Some(());
                    }
                }
            }
            Do::Events { values, .. } if values.len() > 1 => {
                if let Some(value) = is_at(values.len()) {
                    values.remove(value);
                    return Some(());
                }
            }
            _ => {}
        }
    }
    None
}

/// What of a line can be left out.
fn decorations(line: &super::ops::Line) -> usize {
    let some = [
        line.key.is_some(),
        line.run.is_some(),
        line.skip,
        line.follows != super::ops::Follows::Leaf,
        line.sort != super::ops::Sort::User,
    ];
    line.refs.len() + some.into_iter().filter(|some| *some).count()
}

fn plainer(line: &mut super::ops::Line, part: usize) {
    if part < line.refs.len() {
        line.refs.remove(part);
        return;
    }
    let mut left = part - line.refs.len();
    let mut here = |there: bool| {
        if !there {
            return false;
        }
        left = left.wrapping_sub(1);
        left == usize::MAX
    };
    if here(line.key.is_some()) {
        line.key = None;
    } else if here(line.run.is_some()) {
        line.run = None;
    } else if here(line.skip) {
        line.skip = false;
    } else if here(line.follows != super::ops::Follows::Leaf) {
        line.follows = super::ops::Follows::default();
    } else if here(line.sort != super::ops::Sort::User) {
        line.sort = super::ops::Sort::default();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::tape::generate::{self, Plan};
    use crate::tape::ops::Line;
    use crate::tape::script;

    fn long() -> Tape {
        let player = script::Player::Sequential;
        generate::tape(Plan { clause: "MOD-001", seed: 5, player, clients: 3, steps: 120, drops: false })
    }

    fn ops(tape: &Tape) -> impl Iterator<Item = (usize, &Do)> {
        tape.steps.iter().enumerate().flat_map(|(at, step)| match &step.act {
            Act::Commit(change) => change.ops.iter().map(|op| (at, op)).collect::<Vec<_>>(),
            _ => Vec::new(),
        })
    }

    fn keyed(lines: &[Line]) -> bool {
        lines.iter().any(|line| line.key.is_some())
    }

    /// A store that breaks at the first event after the first entry with a key, or else at that entry.
    fn broken(tape: &Tape) -> Option<Divergence> {
        let first = ops(tape).find_map(|(at, op)| match op {
            Do::Append { lines, .. } if keyed(lines) => Some(at),
            _ => None,
        })?;
        let event = ops(tape).find(|(at, op)| *at > first && matches!(op, Do::Events { .. }));
        let aspect = if event.is_some() { "an event" } else { "an entry" };
        let step = event.map_or(first, |(at, _)| at);
        Some(Divergence { step, aspect: aspect.to_owned(), text: String::new() })
    }

    fn run(tape: Tape, bounds: Bounds) -> (Failing, usize) {
        let played = AtomicUsize::new(0);
        let play = |tape: Tape| -> Pin<Box<dyn Future<Output = Option<Divergence>> + Send + '_>> {
            played.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move { broken(&tape) })
        };
        let found = broken(&tape).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let failing = runtime.block_on(shrink(tape, found, bounds, &play));
        (failing, played.load(Ordering::Relaxed))
    }

    #[test]
    fn what_is_left_is_what_it_takes_and_fails_in_the_same_way() {
        let bounds = Bounds { tries: 1_000, time: Duration::from_secs(60) };
        let (failing, _) = run(long(), bounds);
        assert_eq!(failing.divergence.aspect, "an event");
        assert_eq!(failing.tape.steps.len(), 2, "{}", failing.tape.to_json());
        assert_eq!(failing.tape.clients, 1);
        for step in &failing.tape.steps {
            let Act::Commit(change) = &step.act else { panic!("{}", script::line(step)) };
            assert_eq!((change.ops.len(), change.fences.len(), change.guards.len()), (1, 0, 0));
            assert!(change.request.is_none());
            match &change.ops[0] {
                Do::Append { lines, .. } => {
                    assert_eq!(lines.len(), 1);
                    let plain = Line {
                        label: lines[0].label.clone(),
                        text: lines[0].text.clone(),
                        ..Line::default()
                    };
                    assert_eq!(lines[0], Line { key: lines[0].key.clone(), ..plain }, "only the key is left");
                }
                Do::Events { values, .. } => assert_eq!(values.len(), 1),
                other => panic!("{other:?}"),
            }
        }
        let (again, _) = run(long(), bounds);
        assert_eq!(again.tape, failing.tape, "the same every time");
    }

    #[test]
    fn no_more_tapes_are_played_than_allowed() {
        for tries in [0, 1, 7] {
            let (failing, played) = run(long(), Bounds { tries, time: Duration::from_secs(60) });
            assert!(played <= tries && failing.tries == played);
            assert!(broken(&failing.tape).is_some());
        }
        let (failing, played) = run(long(), Bounds { tries: 1_000, time: Duration::ZERO });
        assert_eq!((played, &failing.tape), (0, &long()));
    }
}
