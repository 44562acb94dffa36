//! From a log to what a power loss may leave.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::{Dice, FileId, Image, Log, Mark, Op, Step, names};

/// What a device writes whole or not at all.
const SECTOR: u64 = 512;
/// What a page cache writes back at once.
const PAGE: u64 = 4096;

/// What of the writes that are not durable is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing: the process was killed, or everything was written back just in time.
    None,
    /// All of it.
    All,
    /// Of the last write a part of its sectors, and nothing else.
    Torn(u64),
    /// Anything, as the seed decides: of each file nothing, all, or each sector or page by itself.
    Any(u64),
}

/// Walks a log and gives images of each moment.
#[derive(Clone, Debug)]
pub struct Replay<'a> {
    steps: &'a [Step],
    at: usize,
    files: HashMap<FileId, File>,
    /// Names that are durable.
    durable: BTreeMap<String, FileId>,
    /// What happened to names since.
    names: Vec<Naming>,
    begun: u64,
    acked: u64,
    noted: u64,
}

#[derive(Clone, Debug, Default)]
struct File {
    durable: Vec<u8>,
    live: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, bytes: Arc<[u8]> },
    SetLen(u64),
}

#[derive(Clone, Debug)]
enum Naming {
    Add(String, FileId),
    Remove(String),
    Rename(String, String),
    Link(String, String),
}

impl Naming {
    fn names(&self) -> impl Iterator<Item = &String> {
        let (one, other) = match self {
            Self::Add(name, _) | Self::Remove(name) => (name, None),
            Self::Rename(from, to) | Self::Link(from, to) => (from, Some(to)),
        };
        std::iter::once(one).chain(other)
    }

    fn apply(&self, names: &mut BTreeMap<String, FileId>) {
        match self {
            Self::Add(name, file) => {
                names.insert(name.clone(), *file);
            }
            Self::Remove(name) => {
                names.remove(name);
            }
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Link(from, to) => {
                if let Some(file) = names.get(from).copied() {
                    names.insert(to.clone(), file);
                }
            }
        }
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => put(to, place(*offset), bytes),
            Self::SetLen(len) => to.resize(place(*len), 0),
        }
    }
}

/// An offset in memory. What does not fit there was never written by a test.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Writes into bytes that grow as needed.
fn put(to: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at.saturating_add(bytes.len());
    if to.len() < end {
        to.resize(end, 0);
    }
    if let Some(part) = to.get_mut(at..end) {
        part.copy_from_slice(bytes);
    }
}

impl File {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// The last write with only those of its sectors that the dice keep.
    fn torn(&self, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let Some((last, before)) = self.pending.split_last() else { return bytes };
        before.iter().for_each(|change| change.apply(&mut bytes));
        let Change::Write { offset, bytes: written } = last else {
            // Of a length there is nothing to tear: it was not set.
            return bytes;
        };
        let sectors: Vec<_> = granules(*offset, written.len(), SECTOR).collect();
        // Most devices write in order, some do not.
        let in_order = dice.percent(70);
        let kept = dice.below(sectors.len() as u64);
        for (at, (_, part)) in sectors.into_iter().enumerate() {
            if if in_order { (at as u64) < kept } else { dice.percent(50) } {
                put(&mut bytes, place(*offset) + part.start, &written[part]);
            }
        }
        bytes
    }

    /// Each granule as it was after any of the writes to it, and the length as it was after any of its changes.
    fn mixed(&self, granule: u64, keep: u64, dice: &mut Dice) -> Vec<u8> {
        let mut versions: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut length, mut lengths) = (self.durable.len() as u64, Vec::new());
        for change in &self.pending {
            match change {
                Change::Write { offset, bytes } => {
                    for (at, _) in granules(*offset, bytes.len(), granule) {
                        *versions.entry(at).or_default() += 1;
                    }
                    if offset + bytes.len() as u64 > length {
                        length = offset + bytes.len() as u64;
                        lengths.push(length);
                    }
                }
                Change::SetLen(len) => {
                    length = *len;
                    lengths.push(length);
                }
            }
        }
        let mut choose = |all: u64| if dice.percent(keep) { all } else { dice.below(all + 1) };
        let kept_lengths = choose(lengths.len() as u64);
        for version in versions.values_mut() {
            *version = choose(*version);
        }
        let mut bytes = self.durable.clone();
        let mut lengths_left = kept_lengths;
        let mut end = self.durable.len() as u64;
        for change in &self.pending {
            match change {
                Change::Write { offset, bytes: written } => {
                    for (at, part) in granules(*offset, written.len(), granule) {
                        if let Some(left) = versions.get_mut(&at).filter(|left| **left > 0) {
                            *left -= 1;
                            put(&mut bytes, place(*offset) + part.start, &written[part]);
                        }
                    }
                    let reaches = offset + written.len() as u64;
                    if reaches > end && lengths_left > 0 {
                        lengths_left -= 1;
                        end = reaches;
                    }
                }
                Change::SetLen(len) if lengths_left > 0 => {
                    lengths_left -= 1;
                    if *len < end
                        && let Some(beyond) = bytes.get_mut(place(*len)..)
                    {
                        beyond.fill(0);
                    }
                    end = *len;
                }
                Change::SetLen(_) => {}
            }
        }
        bytes.resize(place(end), 0);
        bytes
    }

    fn after(&self, dice: &mut Dice) -> Vec<u8> {
        match dice.below(5) {
            0 => self.live.clone(),
            1 => self.durable.clone(),
            how => {
                let granule = [SECTOR, PAGE, u64::MAX][place(how - 2)];
                let keep = [10, 50, 90][place(dice.below(3))];
                self.mixed(granule, keep, dice)
            }
        }
    }
}

/// The granules that bytes at an offset touch, each with the part of the bytes in it.
fn granules(offset: u64, len: usize, size: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = offset + len as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let granule = at / size;
        let until = (granule + 1).saturating_mul(size).min(end);
        let part = place(at - offset)..place(until - offset);
        at = until;
        Some((granule, part))
    })
}

impl<'a> Replay<'a> {
    /// Stands before the first line.
    #[must_use]
    pub fn new(log: &'a Log) -> Self {
        let (files, durable, names) = (HashMap::new(), BTreeMap::new(), Vec::new());
        Self { steps: log.steps(), at: 0, files, durable, names, begun: 0, acked: 0, noted: 0 }
    }

    /// Goes on to just before the next thing that was done, or to the end. `false` once there is nothing more.
    pub fn advance(&mut self) -> bool {
        let mut moved = false;
        while let Some(step) = self.steps.get(self.at) {
            match step {
                Step::Op(_) if moved => return true,
                Step::Op(op) => self.apply(op),
                Step::Mark(Mark::Begun(count)) => self.begun = *count,
                Step::Mark(Mark::Acked(count)) => self.acked = *count,
                Step::Mark(Mark::Noted(count)) => self.noted = *count,
            }
            self.at += 1;
            moved = true;
        }
        moved
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Found { name, file, bytes } => {
                let found = File { durable: bytes.to_vec(), live: bytes.to_vec(), pending: Vec::new() };
                self.files.insert(*file, found);
                self.durable.insert(name.clone(), *file);
            }
            Op::Create { name, file } => {
                self.files.insert(*file, File::default());
                self.names.push(Naming::Add(name.clone(), *file));
            }
            Op::Write { file, offset, bytes } => {
                self.change(*file, Change::Write { offset: *offset, bytes: Arc::clone(bytes) });
            }
            Op::SetLen { file, len } => self.change(*file, Change::SetLen(*len)),
            Op::Sync { file, .. } => {
                if let Some(file) = self.files.get_mut(file) {
                    file.sync();
                }
            }
            Op::Remove { name } => self.names.push(Naming::Remove(name.clone())),
            Op::Rename { from, to } => self.names.push(Naming::Rename(from.clone(), to.clone())),
            Op::Link { from, to } => self.names.push(Naming::Link(from.clone(), to.clone())),
            Op::SyncFolder { folder } => {
                for naming in std::mem::take(&mut self.names) {
                    if naming.names().any(|name| names::folder(name) == folder) {
                        naming.apply(&mut self.durable);
                    } else {
                        self.names.push(naming);
                    }
                }
            }
        }
    }

    fn change(&mut self, file: FileId, change: Change) {
        if let Some(file) = self.files.get_mut(&file) {
            file.change(change);
        }
    }

    /// The file that the last line wrote to, if it did.
    fn last_written(&self) -> Option<FileId> {
        let done = self.steps.get(..self.at)?;
        match done.iter().rev().find(|step| matches!(step, Step::Op(_))) {
            Some(Step::Op(Op::Write { file, .. })) => Some(*file),
            _ => None,
        }
    }

    fn names(&self, dice: Option<&mut Dice>) -> BTreeMap<String, FileId> {
        let mut names = self.durable.clone();
        let mut lost = HashSet::new();
        let (chance, dice) = match dice {
            Some(dice) => ([100, 0, 50][place(dice.below(3))], dice),
            None => (100, &mut Dice::new(0)),
        };
        for naming in &self.names {
            // What follows on a name that was lost is lost too.
            if !dice.percent(chance) || naming.names().any(|name| lost.contains(name)) {
                lost.extend(naming.names());
            } else {
                naming.apply(&mut names);
            }
        }
        names
    }

    /// What the files may hold if the power goes now.
    #[must_use]
    pub fn image(&self, loss: Loss) -> Image {
        let mut dice = Dice::new(0);
        let names = match loss {
            Loss::None | Loss::Torn(_) => self.names(None),
            Loss::All => self.durable.clone(),
            Loss::Any(seed) => {
                dice = Dice::new(seed);
                self.names(Some(&mut dice))
            }
        };
        let torn = self.last_written();
        let mut contents: BTreeMap<FileId, Vec<u8>> = BTreeMap::new();
        for id in names.values() {
            let Some(file) = self.files.get(id) else { continue };
            let bytes = match loss {
                Loss::Torn(seed) if torn == Some(*id) => file.torn(&mut Dice::new(seed)),
                Loss::None | Loss::Torn(_) => file.live.clone(),
                Loss::All => file.durable.clone(),
                Loss::Any(_) if file.pending.is_empty() => file.durable.clone(),
                Loss::Any(_) => file.after(&mut dice),
            };
            contents.insert(*id, bytes);
        }
        let file = |(name, id): (String, FileId)| contents.get(&id).map(|bytes| (name, bytes.clone()));
        let files = names.into_iter().filter_map(file).collect();
        let about = format!("after {} of {} lines, lost: {loss:?}", self.at, self.steps.len());
        Image { files, begun: self.begun, acked: self.acked, noted: self.noted, about }
    }
}

impl Log {
    /// Images of a log, at most so many, spread over all moments of it: with nothing lost, all that was not durable
    /// lost, the last write torn, and whatever the seed decides. The same contents come once.
    pub fn images(&self, seed: u64, most: u64) -> impl Iterator<Item = Image> {
        let cuts = self.ops().count() as u64;
        let mut replay = Replay::new(self);
        let (mut cut, mut given) = (0_u64, 0_u64);
        let (mut waiting, mut seen) = (Vec::new(), HashSet::new());
        std::iter::from_fn(move || {
            loop {
                if let Some(image) = waiting.pop() {
                    return Some(image);
                }
                if !replay.advance() {
                    return None;
                }
                cut += 1;
                // What is due by now of an even spread.
                let due: u128 = u128::from(most) * u128::from(cut) / u128::from(cuts.max(1));
                let mut dice = Dice::new(seed ^ cut.wrapping_mul(0x2545_F491_4F6C_DD1D));
                let first = dice.next();
                for turn in 0..MOST_OF_A_MOMENT {
                    if u128::from(given) >= due {
                        break;
                    }
                    // By turns, but what is least like a mere kill most often.
                    let loss = match first.wrapping_add(turn) % 8 {
                        0 => Loss::None,
                        2 | 6 => Loss::All,
                        4 => Loss::Torn(dice.next()),
                        _ => Loss::Any(dice.next()),
                    };
                    let image = replay.image(loss);
                    if seen.insert((image.print(), image.acked, image.begun, image.noted)) {
                        given += 1;
                        waiting.push(image);
                    }
                }
            }
        })
    }
}

/// No moment gives more images than this: nothing is pending after a sync, and then all of them are the same.
const MOST_OF_A_MOMENT: u64 = 12;

#[cfg(test)]
mod tests;
