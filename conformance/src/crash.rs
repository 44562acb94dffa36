//! Processes that are killed at work, and the books on what they had done by then.
//!
//! A process at work says what it begins and what it was told is done. What it was told is done must be there when it
//! is dead; what it had begun may be there or not, but never by half.
//!
//! A kill comes from outside after a line or a moment later; or, where the harness opens stores on a disk, from within at
//! an enumerated call of the engine to its files.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use turnkeep_core::digest::FieldDigest;

use crate::context::Context;
use crate::disk::{Disk, Failure, Fault, Kind};
use crate::harness::{OpenWith, Site};
use crate::peer::{self, Killed, Peer};
use crate::verdict::{Outcome, Stop};

const BEGUN: char = '?';
const DONE: char = '+';
const CHANGES: &str = "changes ";

/// Says, in a peer, that something is about to be done.
pub(crate) fn begin(what: &str) -> Outcome {
    peer::tell(&format!("{BEGUN}{what}"))
}

/// Says, in a peer, that the store called something done.
pub(crate) fn done(what: &str) -> Outcome {
    peer::tell(&format!("{DONE}{what}"))
}

/// When to kill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Once it has said so many lines,
    lines: usize,
    /// and so long afterwards;
    after: Duration,
    /// or, where there is a disk, at this call to it.
    call: Option<u64>,
}

impl Moment {
    /// Right after a line.
    pub(crate) const fn line(lines: usize) -> Self {
        Self { lines, after: Duration::ZERO, call: None }
    }

    /// Where there is a disk, at a call to it instead.
    pub(crate) const fn or_call(self, call: u64) -> Self {
        Self { call: Some(call), ..self }
    }

    /// A moment later.
    pub(crate) const fn later(self, micros: u64) -> Self {
        Self { after: Duration::from_micros(micros), ..self }
    }
}

/// What a process left: what it had been told is done, and what it had begun.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    /// In the order in which they were done.
    pub(crate) done: Vec<String>,
    /// Begun and not known to be done.
    pub(crate) open: Vec<String>,
}

impl Books {
    /// Reads what a peer said. Lines of another kind are left out.
    pub(crate) fn read(said: &[String]) -> Self {
        let mut books = Self::default();
        for line in said {
            if let Some(what) = line.strip_prefix(BEGUN) {
                books.open.push(what.to_owned());
            } else if let Some(what) = line.strip_prefix(DONE) {
                books.open.retain(|open| open != what);
                books.done.push(what.to_owned());
            }
        }
        books
    }

    /// Takes over what another process left.
    pub(crate) fn add(&mut self, other: Self) {
        self.done.extend(other.done);
        self.open.extend(other.open);
    }

    /// Compares with what is there: everything that is done, nothing that was never begun, nothing twice.
    pub(crate) fn compare(&self, of: &str, seen: &[String]) -> Outcome {
        let mut once = BTreeSet::new();
        for seen in seen {
            ensure!(self.is_begun(seen), "{of}: {seen} is there, which nobody had begun");
            ensure!(once.insert(seen), "{of}: {seen} is there twice");
        }
        for done in &self.done {
            ensure!(once.contains(done), "{of}: {done} was acknowledged and is not there after the kill");
        }
        Ok(())
    }

    pub(crate) fn is_done(&self, what: &str) -> bool {
        self.done.iter().any(|done| done == what)
    }

    pub(crate) fn is_begun(&self, what: &str) -> bool {
        self.is_done(what) || self.open.iter().any(|open| open == what)
    }
}

/// What a process knows of the disk that may end it.
#[derive(Debug, Default)]
pub(crate) struct Deadly {
    disk: OnceLock<Disk>,
    offered: OnceLock<bool>,
}

impl Context {
    /// A number below `end` that follows from the seed, from what it is for and from how often that was asked.
    pub(crate) fn pick(&self, what: &str, at: u64, end: u64) -> u64 {
        let digest = FieldDigest::new("conformance/pick").number(self.seed()).text(what).number(at).finish();
        digest.iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte)) % end.max(1)
    }

    /// A moment among the first lines, or up to some milliseconds after one.
    pub(crate) fn moment(&self, what: &str, at: u64, lines: u64) -> Moment {
        const WITHIN_MICROS: u64 = 4_000;
        let line = 1 + usize::try_from(self.pick(what, at, lines)).unwrap_or(0);
        // Half of them right after the line: what was acknowledged is then as young as it can be.
        let micros = self.pick(what, at ^ (1 << 40), 2 * WITHIN_MICROS).saturating_sub(WITHIN_MICROS);
        let moment = Moment::line(line).later(micros);
        // Each third one within what the engine does for so many lines.
        if at % 3 == 2 { moment.or_call(self.pick(what, at ^ (1 << 41), 8 * lines)) } else { moment }
    }

    /// Lets this process end at a call to its disk.
    pub(crate) fn dies_at(&self, call: u64) {
        let disk = Disk::new();
        disk.arm(Fault::once(Kind::Change, call, Failure::Abort));
        let _ = self.deadly.disk.set(disk);
    }

    /// The disk on which this process ends.
    pub(crate) fn doomed(&self) -> Option<&Disk> {
        self.deadly.disk.get()
    }

    /// Says how many calls to its disk a process outlived.
    pub(crate) fn tell_changes(&self) -> Outcome {
        match self.doomed() {
            Some(disk) => peer::tell(&format!("{CHANGES}{}", disk.calls(Kind::Change))),
            None => Ok(()),
        }
    }

    /// Whether the harness opens stores on a disk.
    pub(crate) async fn has_disk(&self) -> Outcome<bool> {
        if let Some(known) = self.deadly.offered.get() {
            return Ok(*known);
        }
        let site =
            self.harness.provision().await.map_err(|error| Stop::error(format!("no site: {error}")))?;
        let with = OpenWith { clock: self.shared_clock() };
        let opened = self.harness.open_on(&site, &Disk::new(), with).await;
        let offered = match opened.map_err(|error| Stop::error(format!("no store on a disk: {error}")))? {
            Some(store) => store.close().await.map(|()| true)?,
            None => false,
        };
        let removed = self.harness.destroy(&site).await;
        removed.map_err(|error| Stop::error(format!("the site could not be removed: {error}")))?;
        Ok(*self.deadly.offered.get_or_init(|| offered))
    }

    /// How many calls to the disk a role makes that change something, on a site of its own.
    pub(crate) async fn changes_of(&self, role: &str, site: &Site) -> Outcome<u64> {
        let said = self.start_doomed(role, site, u64::MAX)?.ended().await?;
        let count = said.iter().find_map(|line| line.strip_prefix(CHANGES)?.parse().ok());
        count.ok_or_else(|| Stop::error("a peer did not say how many calls it made"))
    }

    /// Lets a peer play a role on a site until it ends at a call to its disk, and reads its books.
    pub(crate) async fn killed_at_call(&self, role: &str, site: &Site, call: u64) -> Outcome<Books> {
        self.books_of(self.start_doomed(role, site, call)?.died().await?, "kills at calls of the engine")
    }

    /// Starts a peer in a role, kills it at a moment, and reads its books. It may have ended by itself before: then
    /// everything it began is done.
    pub(crate) async fn killed(&self, role: &str, moment: Moment) -> Outcome<Books> {
        match moment.call {
            Some(call) if self.has_disk().await? => self.killed_at_call(role, &self.site, call).await,
            _ => self.kill_at(self.start_peer(role)?, moment).await,
        }
    }

    /// Kills a peer at a moment, and reads its books.
    pub(crate) async fn kill_at(&self, mut peer: Peer, moment: Moment) -> Outcome<Books> {
        for _ in 0..moment.lines {
            if peer.hear().await?.is_none() {
                break;
            }
        }
        if !moment.after.is_zero() {
            tokio::time::sleep(moment.after).await;
        }
        self.books_of(peer.kill().await?, "kills")
    }

    fn books_of(&self, killed: Killed, counted: &str) -> Outcome<Books> {
        self.count(counted, u64::from(!killed.too_late));
        let books = Books::read(&killed.said);
        ensure!(
            !killed.too_late || books.open.is_empty(),
            "a process ended as if all was well, but was not told that {:?} is done",
            books.open
        );
        Ok(books)
    }
}

/// The number that a role ends with, such as 7 in `write 7`.
pub(crate) fn number_in(role: &str) -> Outcome<u64> {
    let number = role.rsplit(' ').next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| Stop::error(format!("the role {role} names no number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_and_not_called_done_is_open() {
        let said = ["?a", "+a", "?b", "chatter", "?c", "+c"].map(str::to_owned);
        let books = Books::read(&said);
        assert_eq!(books.done, ["a", "c"]);
        assert_eq!(books.open, ["b"]);
        assert!(books.is_done("a") && !books.is_done("b"));
        assert!(books.is_begun("a") && books.is_begun("b") && !books.is_begun("d"));
    }
}
