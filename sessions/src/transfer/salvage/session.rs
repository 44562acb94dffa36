//! One session: what can be read of it, with stand-ins where something is gone.

use std::collections::{BTreeSet, HashSet};

use turnkeep_core::commit::{Fingerprint, RequestId};
use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryNo, RunId, SessionRef, StreamName, WorkspaceId};
use turnkeep_core::model::{Entry, Event, Row, RowKind, SessionImage, SessionRow, StreamRow, VisibilitySet};
use turnkeep_core::query::{Cursor, EntryQuery, EventQuery, RowPlace};
use turnkeep_core::time::Timestamp;

use super::{ASTRAY, Job, Loss, MISSING, NO_JSON, is_damage, is_no_fit, source};
use crate::transfer::builder::{Begun, Builder, Site, begin};
use crate::transfer::content::unsound;
use crate::transfer::moment::rows_of;
use crate::transfer::stand_in;

/// The widest gap that is filled in because of a single number, be it that of a row or the head. A number that says more
/// is damaged itself, unless the gap is no wider than what was saved before it.
const WIDEST_GAP: u64 = 100_000;
/// The widest gap before a row that is filled in where the head bears its number out: both would have to be damaged.
const WIDEST_WITHIN: u64 = 10_000_000;

/// Whether a number stands so far beyond the `last` row, with so few `saved` before it, that it must be damaged.
fn is_astray(number: u64, last: u64, saved: u64) -> bool {
    number.saturating_sub(last) > WIDEST_GAP.max(saved)
}

/// The same of the number of a row, which may lie within what the `head` says there is.
fn is_row_astray(number: u64, last: u64, saved: u64, head: u64) -> bool {
    let within = number <= head && number.saturating_sub(last) <= WIDEST_WITHIN;
    !within && is_astray(number, last, saved)
}

/// Where to ask on after `read`, when nothing was found since `last`: at the next number, but in ever longer leaps once
/// the gap is wider than any that is filled in.
fn onward(read: u64, last: u64, head: u64) -> u64 {
    let missed = read.saturating_sub(last);
    let leap = if missed > WIDEST_GAP { missed } else { 0 };
    read.saturating_add(leap).min(head.saturating_sub(1))
}

fn no_such_head(what: &str, head: u64) -> String {
    format!("{what} {head} is said to be the last, and there is nothing near it")
}

/// What comes after a number.
enum Next {
    Nothing,
    At(EntryNo),
    /// It cannot be read.
    Unknown,
}

/// Saves a session. If the new store refuses it, that is noted, and the others are saved.
pub(super) async fn save(job: &mut Job<'_, '_, '_>, workspace: &WorkspaceId, row: &SessionRow) -> Result<()> {
    let session = row.session_ref();
    let meant = FieldDigest::new("salvage/1").text(workspace.as_str()).text(row.id.as_str());
    let meant = meant.bytes(row.incarnation.as_bytes()).finish();
    let request = RequestId::host(format!("salvage/1/{}", to_hex(&meant)))?;
    let site = Site { store: job.to, workspace, entropy: job.entropy, operation: "salvage" };
    let begun = begin(site, &row.id, &row.profile, &request, Fingerprint::from_bytes(meant)).await?;
    let Begun::Building(builder, _) = begun else {
        return Err(Error::new(ErrorKind::AlreadyExists, "the session is in the new store already")
            .with("session", &row.id)
            .with_operation("salvage"));
    };
    let before = job.report.clone();
    let saved = Saving::new(job, workspace, row, session, *builder).all().await;
    match saved {
        Ok(()) => {
            job.report.sessions += 1;
            job.advance(1)
        }
        Err(error) if is_no_fit(&error) => {
            job.report = before;
            let mut loss = Loss { workspace, session: Some(&row.id), left_out: &mut job.report.left_out };
            loss.note("the session", error.message());
            Ok(())
        }
        Err(error) => Err(error),
    }
}

struct Saving<'j, 'a, 'b, 'c> {
    job: &'j mut Job<'a, 'b, 'c>,
    workspace: &'j WorkspaceId,
    row: &'j SessionRow,
    session: SessionRef,
    builder: Builder<'j>,
    /// The last entry that was saved, and the newest on a path.
    head: u32,
    tip: Option<EntryNo>,
    beside: HashSet<EntryNo>,
    keys: HashSet<String>,
    runs: BTreeSet<RunId>,
    at: Timestamp,
}

impl<'j, 'a, 'b, 'c> Saving<'j, 'a, 'b, 'c>
where
    'a: 'j,
{
    fn new(
        job: &'j mut Job<'a, 'b, 'c>,
        workspace: &'j WorkspaceId,
        row: &'j SessionRow,
        session: SessionRef,
        builder: Builder<'j>,
    ) -> Self {
        Self {
            job,
            workspace,
            row,
            session,
            builder,
            head: 0,
            tip: None,
            beside: HashSet::new(),
            keys: HashSet::new(),
            runs: BTreeSet::new(),
            at: row.created_at,
        }
    }

    fn loss(&mut self) -> Loss<'_> {
        Loss {
            workspace: self.workspace,
            session: Some(&self.row.id),
            left_out: &mut self.job.report.left_out,
        }
    }

    async fn all(mut self) -> Result<()> {
        let written = self.rows().await;
        match written {
            Ok(leaf) => self.builder.seal(leaf, None).await.map(drop),
            Err(error) => {
                let _ = self.builder.abandon().await;
                Err(error)
            }
        }
    }

    async fn rows(&mut self) -> Result<Option<EntryNo>> {
        let mut image = SessionImage::from(self.row);
        if let Some(place) = unsound(&Row::Session(image.clone())) {
            image.profile.meta = None;
            self.loss().note(place, NO_JSON);
        }
        let leaf = image.leaf;
        self.builder.push(Row::Session(image)).await?;
        self.entries().await?;
        let holds = leaf.is_none_or(|leaf| leaf.get() <= self.head && !self.beside.contains(&leaf));
        if !holds {
            self.loss().note("the place where the session goes on", "it names no entry that is there");
        }
        let (from, workspace, session) = (self.job.from, self.workspace, self.session.clone());
        let named = std::mem::take(&mut self.runs);
        let runs = source::runs(from, workspace, &session, &named, &mut self.loss()).await?;
        for run in runs {
            self.push(Row::Run(run)).await?;
        }
        let streams = source::streams(from, workspace, &session, &mut self.loss()).await?;
        for (name, row) in streams {
            self.stream(name, row).await?;
        }
        let records = source::records(from, workspace, Some(&session), &mut self.loss()).await?;
        for record in records {
            self.push(Row::Record(record)).await?;
        }
        Ok(if holds { leaf } else { self.tip })
    }

    async fn push(&mut self, row: Row) -> Result<()> {
        self.job.report.other_rows += 1;
        self.builder.push(row).await
    }

    /// Every entry that can be read. Where a page cannot, each number of it is asked for alone.
    async fn entries(&mut self) -> Result<()> {
        let mut query = EntryQuery::new(self.workspace.clone(), self.session.clone());
        query.visibility = VisibilitySet::ALL;
        query.limit = source::PAGE;
        let head = self.row.head.map_or(0, EntryNo::get);
        let mut read = 0;
        // How many numbers are still asked for one by one.
        let mut alone: u32 = 0;
        loop {
            query.after = EntryNo::new(read);
            query.before = if alone > 0 { EntryNo::new(read.saturating_add(2)) } else { None };
            match self.job.from.entries(&query).await {
                Ok(page) if alone > 0 => {
                    for entry in page.items {
                        self.entry(entry).await?;
                    }
                }
                Ok(page) => {
                    let Some(last) = page.items.last() else { break };
                    read = last.number.get();
                    for entry in page.items {
                        self.entry(entry).await?;
                    }
                    continue;
                }
                Err(error) if is_damage(&error) && alone == 0 => {
                    // Damage that hides what comes after the last entry would be met for ever.
                    if read >= head {
                        break;
                    }
                    read = match self.next_after(read).await? {
                        Next::Nothing => break,
                        Next::At(number) => number.get() - 1,
                        Next::Unknown => self.onward(read, head).await?,
                    };
                    alone = source::PAGE;
                    continue;
                }
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
            read += 1;
            alone -= 1;
            if read >= head {
                alone = 0;
            }
        }
        if is_astray(head.into(), self.head.into(), self.head.into()) {
            let what = format!("whatever came after entry {}", self.head);
            self.loss().note(what, &no_such_head("entry", head.into()));
            return Ok(());
        }
        self.fill_up_to(head, MISSING).await
    }

    /// The next entry that is there. Engines that mind gaps in a list of entries pass over them in a list of rows.
    async fn next_after(&self, read: u32) -> Result<Next> {
        let mut query = rows_of(self.workspace, &self.session, &[RowKind::Entry]);
        query.limit = 1;
        query.cursor = Some(Cursor::seal(&query, &RowPlace::Entry(read))?);
        match self.job.from.rows(&query).await {
            Ok(page) => Ok(match page.items.first() {
                Some(Row::Entry(entry)) if entry.number.get() > read => Next::At(entry.number),
                Some(_) => Next::Unknown,
                None => Next::Nothing,
            }),
            Err(error) if is_damage(&error) => Ok(Next::Unknown),
            Err(error) => Err(error),
        }
    }

    /// Where to ask on after `read`. A leap ends at the first entry that can be read again.
    async fn onward(&self, read: u32, head: u32) -> Result<u32> {
        let far = onward(read.into(), self.head.into(), head.into());
        let (mut unread, mut far) = (read, u32::try_from(far).unwrap_or(u32::MAX - 1));
        if far > unread && self.reads_after(far).await? {
            while far - unread > 1 {
                let middle = unread + (far - unread) / 2;
                *(if self.reads_after(middle).await? { &mut far } else { &mut unread }) = middle;
            }
        }
        Ok(far)
    }

    /// Whether the next entry can be read.
    async fn reads_after(&self, read: u32) -> Result<bool> {
        let mut query = EntryQuery::new(self.workspace.clone(), self.session.clone());
        query.visibility = VisibilitySet::ALL;
        query.after = EntryNo::new(read);
        query.limit = 1;
        match self.job.from.entries(&query).await {
            Ok(page) => Ok(!page.items.is_empty()),
            Err(error) if is_damage(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn entry(&mut self, entry: Entry) -> Result<()> {
        let number = entry.number;
        if number.get() <= self.head {
            return Ok(());
        }
        let head = self.row.head.map_or(0, EntryNo::get);
        let saved = self.head.into();
        if is_row_astray(number.get().into(), saved, saved, head.into()) {
            self.loss().note(format!("entry {number}"), ASTRAY);
            return Ok(());
        }
        self.fill_up_to(number.get() - 1, MISSING).await?;
        self.at = entry.at;
        if let Some(why) = self.why_not(&entry) {
            return self.fill_up_to(number.get(), why).await;
        }
        self.head = number.get();
        if entry.on_path {
            self.tip = Some(number);
        } else {
            self.beside.insert(number);
        }
        self.keys.extend(entry.key.as_ref().map(ToString::to_string));
        self.runs.extend(entry.run.clone());
        self.job.report.entries += 1;
        self.builder.push(Row::Entry(entry)).await?;
        self.job.advance(1)
    }

    /// Why an entry cannot be taken along though it can be read.
    fn why_not(&self, entry: &Entry) -> Option<&'static str> {
        if unsound(&Row::Entry(entry.clone())).is_some() {
            return Some(NO_JSON);
        }
        let earlier = |number: EntryNo| number < entry.number;
        let parent = entry.parent.is_none_or(|parent| earlier(parent) && !self.beside.contains(&parent));
        if !parent || !entry.refs.iter().all(|reference| earlier(reference.entry)) {
            return Some("it follows or refers to an entry that is not before it");
        }
        let taken = entry.key.as_ref().is_some_and(|key| self.keys.contains(key.as_str()));
        taken.then_some("another entry has its key")
    }

    /// Puts stand-ins up to a number.
    async fn fill_up_to(&mut self, last: u32, why: &str) -> Result<()> {
        if self.head >= last {
            return Ok(());
        }
        let first = self.head + 1;
        let what = if first == last { format!("entry {first}") } else { format!("entries {first}-{last}") };
        self.loss().note(what, why);
        while self.head < last {
            let Some(entry) = stand_in::entry(self.head, self.tip, self.at) else { return Ok(()) };
            self.head = entry.number.get();
            self.tip = Some(entry.number);
            self.job.report.stand_ins += 1;
            self.builder.push(Row::Entry(entry)).await?;
            self.job.advance(1)?;
        }
        Ok(())
    }

    /// A stream and its events. The row of a damaged one is made of the events that are left.
    async fn stream(&mut self, name: StreamName, row: Option<StreamRow>) -> Result<()> {
        let mut query = EventQuery::new(self.workspace.clone(), self.session.clone(), name.clone());
        let mut read = row.as_ref().map_or(0, |row| row.floor);
        let mut last = row.as_ref().map(|row| row.floor);
        let head = row.as_ref().map_or(0, |row| row.head);
        if let Some(row) = row {
            self.push(Row::Stream(row)).await?;
        }
        let mut alone: u32 = 0;
        query.limit = source::PAGE;
        loop {
            query.after = (read > 0).then_some(read);
            query.before = (alone > 0).then_some(read.saturating_add(2));
            match self.job.from.events(&query).await {
                Ok(page) if alone > 0 => {
                    for event in page.items {
                        self.event(&name, &mut last, head, event).await?;
                    }
                }
                Ok(page) => {
                    let Some(newest) = page.items.last() else { break };
                    read = newest.number;
                    for event in page.items {
                        self.event(&name, &mut last, head, event).await?;
                    }
                    continue;
                }
                Err(error) if is_damage(&error) && alone == 0 => {
                    if read >= head {
                        break;
                    }
                    read = onward(read, last.unwrap_or(0), head);
                    alone = source::PAGE;
                    continue;
                }
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
            read += 1;
            alone -= 1;
            if read >= head {
                alone = 0;
            }
        }
        match last {
            Some(done) if is_astray(head, done, 0) => {
                let what = format!("stream {name}, whatever came after event {done}");
                self.loss().note(what, &no_such_head("event", head));
                Ok(())
            }
            Some(done) => self.events_up_to(&name, done, head, self.at).await,
            None => Ok(()),
        }
    }

    async fn event(
        &mut self,
        name: &StreamName,
        last: &mut Option<u64>,
        head: u64,
        event: Event,
    ) -> Result<()> {
        let (number, at) = (event.number, event.at);
        if last.is_some_and(|last| number <= last) || number == 0 {
            return Ok(());
        }
        // A stream without a row may have been trimmed, so its first number may be any.
        if last.is_some_and(|last| is_row_astray(number, last, 0, head)) {
            self.loss().note(format!("stream {name}, event {number}"), ASTRAY);
            return Ok(());
        }
        let done = match *last {
            Some(last) => last,
            None => {
                self.push(Row::Stream(stand_in::stream(name.clone(), number - 1))).await?;
                number - 1
            }
        };
        self.events_up_to(name, done, number - 1, at).await?;
        *last = Some(number);
        let row = Row::Event { stream: name.clone(), event };
        if unsound(&row).is_some() {
            return self.events_up_to(name, number - 1, number, at).await;
        }
        self.push(row).await
    }

    async fn events_up_to(&mut self, name: &StreamName, after: u64, last: u64, at: Timestamp) -> Result<()> {
        if after >= last {
            return Ok(());
        }
        self.loss().note(
            format!("stream {name}, events {}-{last}", after + 1),
            "missing, cannot be read, or no valid JSON any more",
        );
        for number in after + 1..=last {
            let Some(event) = stand_in::event(number, at) else { return Ok(()) };
            self.job.report.stand_ins += 1;
            self.builder.push(Row::Event { stream: name.clone(), event }).await?;
        }
        Ok(())
    }
}
