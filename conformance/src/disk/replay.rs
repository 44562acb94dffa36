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
        Self { steps: log.steps(), at: 0, files, durable, names, begun: 0, acked: 0 }
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
        Image { files, begun: self.begun, acked: self.acked, about }
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
                    if seen.insert((image.print(), image.acked, image.begun)) {
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
mod tests {
    use super::super::{Call, Disk, Failure, Fault, Flush, Kind, MAIN};
    use super::*;

    fn create(disk: &Disk, name: &str) -> FileId {
        disk.enter(Call::Create(name)).unwrap().done().unwrap()
    }

    fn act(disk: &Disk, call: Call<'_>) {
        disk.act(call, || Ok(())).unwrap();
    }

    fn end(log: &Log) -> Replay<'_> {
        let mut replay = Replay::new(log);
        while replay.advance() {}
        replay
    }

    /// Every image of the last moment that a few thousand seeds give.
    fn ends(log: &Log) -> Vec<BTreeMap<String, Vec<u8>>> {
        let replay = end(log);
        let mut all: Vec<_> = (0..3_000).map(|seed| replay.image(Loss::Any(seed)).files).collect();
        all.push(replay.image(Loss::None).files);
        all.push(replay.image(Loss::All).files);
        all.sort();
        all.dedup();
        all
    }

    #[test]
    fn a_sync_makes_a_file_durable_and_a_folder_sync_its_name() {
        let disk = Disk::new();
        let main = create(&disk, MAIN);
        act(&disk, Call::Write(main, 0, b"abc"));
        act(&disk, Call::Sync(main, Flush::Data));
        let log = disk.log();
        assert!(end(&log).image(Loss::All).files.is_empty(), "the name is not durable");
        assert!(ends(&log).contains(&BTreeMap::from([(MAIN.to_owned(), b"abc".to_vec())])));
        act(&disk, Call::SyncFolder(""));
        assert_eq!(ends(&disk.log()), [BTreeMap::from([(MAIN.to_owned(), b"abc".to_vec())])]);
    }

    #[test]
    fn each_sector_is_as_it_was_after_one_of_the_writes_to_it() {
        let disk = Disk::new();
        let main = create(&disk, MAIN);
        act(&disk, Call::SyncFolder(""));
        act(&disk, Call::Write(main, 0, &[1; 1024]));
        act(&disk, Call::Sync(main, Flush::Full));
        act(&disk, Call::Write(main, 0, &[2; 1024]));
        act(&disk, Call::Write(main, 256, &[3; 512]));
        let mut seen = HashSet::new();
        for files in ends(&disk.log()) {
            let bytes = &files[MAIN];
            assert_eq!(bytes.len(), 1024);
            let sectors = [&bytes[..512], &bytes[512..]];
            let whole = |value: u8| [[value; 512]; 2];
            let mut mixed = [[2; 512]; 2];
            mixed[0][256..].fill(3);
            mixed[1][..256].fill(3);
            for (at, sector) in sectors.iter().enumerate() {
                let is = |of: [[u8; 512]; 2]| **sector == of[at];
                assert!(is(whole(1)) || is(whole(2)) || is(mixed), "sector {at} is torn within");
            }
            seen.insert((sectors[0][0], sectors[0][511], sectors[1][0], sectors[1][511]));
        }
        assert_eq!(seen.len(), 9, "every pair of versions comes up: {seen:?}");
    }

    #[test]
    fn a_length_and_the_bytes_below_it_are_lost_each_by_itself() {
        let disk = Disk::new();
        let main = create(&disk, MAIN);
        act(&disk, Call::SyncFolder(""));
        act(&disk, Call::Write(main, 0, &[1; 600]));
        act(&disk, Call::Sync(main, Flush::Data));
        act(&disk, Call::SetLen(main, 100));
        act(&disk, Call::Write(main, 100, &[2; 400]));
        let all = ends(&disk.log());
        let lengths: HashSet<usize> = all.iter().map(|files| files[MAIN].len()).collect();
        assert_eq!(lengths, HashSet::from([600, 100, 500]));
        let kept = |files: &&BTreeMap<String, Vec<u8>>| files[MAIN].len() == 500;
        assert!(
            all.iter().filter(kept).any(|files| files[MAIN][100..] == [0; 400]),
            "grown, but not written"
        );
        assert!(all.iter().filter(kept).any(|files| files[MAIN][100..] == [2; 400]));
        assert!(all.iter().filter(kept).all(|files| files[MAIN][..100] == [1; 100]));
    }

    #[test]
    fn a_removal_may_be_undone_and_a_new_file_of_that_name_comes_after_it() {
        let disk = Disk::new();
        let old = disk.file(MAIN, || Ok(b"old".to_vec())).unwrap();
        act(&disk, Call::Remove(MAIN));
        let new = create(&disk, MAIN);
        assert_ne!(old, new);
        act(&disk, Call::Write(new, 0, b"new"));
        act(&disk, Call::Sync(new, Flush::Full));
        let file = |bytes: &[u8]| BTreeMap::from([(MAIN.to_owned(), bytes.to_vec())]);
        assert_eq!(ends(&disk.log()), [BTreeMap::new(), file(b"new"), file(b"old")]);
    }

    #[test]
    fn a_file_is_published_whole_or_not_at_all() {
        let disk = Disk::new();
        let file = create(&disk, "unfinished");
        act(&disk, Call::Write(file, 0, b"all of it"));
        act(&disk, Call::Sync(file, Flush::Full));
        act(&disk, Call::Link("unfinished", MAIN));
        act(&disk, Call::Remove("unfinished"));
        for files in ends(&disk.log()) {
            assert!(files.get(MAIN).is_none_or(|bytes| bytes == b"all of it"), "{files:?}");
        }
        act(&disk, Call::SyncFolder(""));
        assert_eq!(ends(&disk.log()), [BTreeMap::from([(MAIN.to_owned(), b"all of it".to_vec())])]);
        act(&disk, Call::Rename(MAIN, "moved"));
        let names: Vec<Vec<String>> =
            ends(&disk.log()).into_iter().map(|files| files.into_keys().collect()).collect();
        assert_eq!(names, [[MAIN], ["moved"]]);
    }

    #[test]
    fn the_images_of_a_log_are_bounded_repeatable_and_know_what_was_said() {
        let disk = Disk::new();
        let main = create(&disk, MAIN);
        act(&disk, Call::SyncFolder(""));
        for commit in 1..=20 {
            disk.mark(Mark::Begun(commit));
            act(&disk, Call::Write(main, commit * 700, &[1; 1500]));
            act(&disk, Call::Sync(main, Flush::Data));
            disk.mark(Mark::Acked(commit));
        }
        let log = disk.log();
        for most in [10, 60, 100] {
            let images: Vec<Image> = log.images(7, most).collect();
            assert!(images.len() as u64 <= most && images.len() as u64 * 2 >= most, "{}", images.len());
            assert_eq!(images, log.images(7, most).collect::<Vec<_>>());
            assert!(images.is_sorted_by_key(|image| image.acked));
            assert_eq!(images.last().map(|image| (image.begun, image.acked)), Some((20, 20)));
        }
        assert_ne!(log.images(7, 60).collect::<Vec<_>>(), log.images(8, 60).collect::<Vec<_>>());
    }

    #[test]
    fn faults_fail_the_calls_they_name_and_nothing_is_noted() {
        let disk = Disk::new();
        let (main, log) = (create(&disk, MAIN), create(&disk, "main-wal"));
        let write = |file| disk.act(Call::Write(file, 0, b"x"), || Ok(()));
        disk.arm(Fault::once(Kind::Write, 1, Failure::Full).on("-wal"));
        let before = disk.log().steps().len();
        assert!(write(main).is_ok() && write(log).is_ok());
        assert_eq!(write(log).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        assert!(write(log).is_ok());
        assert_eq!(disk.log().steps().len(), before + 3);
        disk.arm(Fault::always(Kind::Change, Failure::Io));
        assert!(write(main).is_err() && disk.act(Call::Sync(main, Flush::Full), || Ok(())).is_err());
        assert!(disk.act(Call::Read(main), || Ok(())).is_ok(), "a read changes nothing");
        disk.disarm();
        assert!(write(main).is_ok());
        assert_eq!((disk.failed(), disk.calls(Kind::Write), disk.calls(Kind::Sync)), (3, 6, 1));
    }

    #[test]
    fn a_full_disk_refuses_growth_and_takes_what_lies_within() {
        let disk = Disk::new();
        let main = create(&disk, MAIN);
        act(&disk, Call::Write(main, 0, &[1; 100]));
        disk.set_capacity(Some(150));
        act(&disk, Call::Write(main, 100, &[1; 50]));
        assert!(disk.act(Call::Write(main, 149, &[1; 2]), || Ok(())).is_err());
        act(&disk, Call::Write(main, 0, &[2; 150]));
        act(&disk, Call::SetLen(main, 10));
        act(&disk, Call::Write(main, 10, &[1; 100]));
        assert_eq!(disk.used(), 110);
    }
}
