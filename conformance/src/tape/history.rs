//! Histories of appends to one session by many clients, and whether a store may show them.
//!
//! There must be one final order such that every read is a prefix of it, what was acknowledged before another append or
//! read was asked for comes before it, what was acknowledged is there, once, under the number that was told, and
//! nothing is there that nobody asked for. An append whose answer is unknown may be there or not.

use std::collections::HashMap;

/// An append that somebody asked for. Its words are its own: no other append has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) words: String,
    /// When it was asked for, on the one counter of all clients.
    pub(crate) invoked: u64,
    /// When it was acknowledged, and with which number; `None` when nobody knows what became of it.
    pub(crate) acknowledged: Option<(u64, u32)>,
}

/// A read of all entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) invoked: u64,
    pub(crate) returned: u64,
    pub(crate) words: Vec<String>,
}

/// What clients did to one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) appends: Vec<Asked>,
    pub(crate) reads: Vec<Read>,
}

impl History {
    /// Holds the history against what is stored at the end, in the order of numbers from 1.
    pub(crate) fn check(&self, stored: &[String]) -> Result<(), String> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (at, words) in stored.iter().enumerate() {
            if let Some(first) = places.insert(words, at) {
                return Err(format!("{words:?} is there twice, as {} and {}", first + 1, at + 1));
            }
            if !self.appends.iter().any(|append| append.words == *words) {
                return Err(format!("{words:?} is entry {}, but nobody asked for it", at + 1));
            }
        }
        for append in &self.appends {
            let Some((_, number)) = append.acknowledged else { continue };
            match places.get(append.words.as_str()) {
                Some(at) if *at + 1 == number as usize => {}
                Some(at) => {
                    let at = at + 1;
                    return Err(format!("{:?} was told number {number} and is entry {at}", append.words));
                }
                None => return Err(format!("{:?} was acknowledged and is not there", append.words)),
            }
        }
        self.check_order(&places)?;
        self.check_reads(stored, &places)
    }

    /// Acknowledged before another was asked for: comes before it.
    fn check_order(&self, places: &HashMap<&str, usize>) -> Result<(), String> {
        let mut asked: Vec<(u64, usize)> = Vec::new();
        let mut acknowledged: Vec<(u64, usize)> = Vec::new();
        for append in &self.appends {
            let Some(place) = places.get(append.words.as_str()) else { continue };
            asked.push((append.invoked, *place));
            acknowledged.extend(append.acknowledged.map(|(returned, _)| (returned, *place)));
        }
        asked.sort_unstable();
        acknowledged.sort_unstable();
        // The highest place that was acknowledged so far must be below each one that is asked for from now on.
        let mut highest: Option<usize> = None;
        let mut done = acknowledged.iter().peekable();
        for (invoked, place) in asked {
            while let Some((_, earlier)) = done.next_if(|(returned, _)| *returned < invoked) {
                highest = highest.max(Some(*earlier));
            }
            if let Some(earlier) = highest.filter(|earlier| *earlier > place) {
                let (earlier, place) = (earlier + 1, place + 1);
                return Err(format!(
                    "entry {earlier} was acknowledged before entry {place} was asked for, and comes after it"
                ));
            }
        }
        Ok(())
    }

    fn check_reads(&self, stored: &[String], places: &HashMap<&str, usize>) -> Result<(), String> {
        for read in &self.reads {
            let seen = read.words.len();
            if !stored.starts_with(&read.words) {
                return Err(format!("a read of {seen} entries is no prefix of the final order"));
            }
            for append in &self.appends {
                let Some(place) = places.get(append.words.as_str()) else { continue };
                let number = place + 1;
                let known = append.acknowledged.is_some_and(|(returned, _)| returned < read.invoked);
                if known && number > seen {
                    return Err(format!("entry {number} was acknowledged before a read that lacks it"));
                }
                if append.invoked > read.returned && number <= seen {
                    return Err(format!("entry {number} was read before it was asked for"));
                }
            }
        }
        let mut by_time: Vec<&Read> = self.reads.iter().collect();
        by_time.sort_by_key(|read| read.invoked);
        for later in &by_time {
            let earlier = by_time.iter().filter(|earlier| earlier.returned < later.invoked);
            if let Some(most) = earlier.map(|read| read.words.len()).max()
                && most > later.words.len()
            {
                let less = later.words.len();
                return Err(format!("a read of {less} entries began after one of {most} had ended"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn acknowledged(words: &str, invoked: u64, returned: u64, number: u32) -> Asked {
        Asked { words: words.to_owned(), invoked, acknowledged: Some((returned, number)) }
    }

    fn unknown(words: &str, invoked: u64) -> Asked {
        Asked { words: words.to_owned(), invoked, acknowledged: None }
    }

    fn read(invoked: u64, returned: u64, words: &[&str]) -> Read {
        Read { invoked, returned, words: words.iter().map(|words| (*words).to_owned()).collect() }
    }

    fn judge(appends: &[Asked], reads: &[Read], stored: &[&str]) -> Result<(), String> {
        let stored: Vec<String> = stored.iter().map(|words| (*words).to_owned()).collect();
        History { appends: appends.to_vec(), reads: reads.to_vec() }.check(&stored)
    }

    #[test]
    fn appends_at_once_may_come_in_either_order() {
        let both = [acknowledged("a", 1, 4, 2), acknowledged("b", 2, 3, 1)];
        judge(&both, &[read(5, 6, &["b", "a"])], &["b", "a"]).unwrap();
        let both = [acknowledged("a", 1, 4, 1), acknowledged("b", 2, 3, 2)];
        judge(&both, &[read(2, 6, &[]), read(2, 6, &["a"])], &["a", "b"]).unwrap();
    }

    #[test]
    fn what_nobody_knows_may_be_there_or_not() {
        let appends = [acknowledged("a", 1, 2, 1), unknown("b", 3), acknowledged("c", 5, 6, 2)];
        judge(&appends, &[], &["a", "c"]).unwrap();
        let landed = [acknowledged("a", 1, 2, 1), unknown("b", 3), acknowledged("c", 5, 6, 3)];
        judge(&landed, &[read(4, 9, &["a", "b"])], &["a", "b", "c"]).unwrap();
        // It may land late, but not before it was asked for.
        let late = [acknowledged("a", 1, 2, 1), unknown("b", 3), acknowledged("c", 5, 6, 2)];
        judge(&late, &[], &["a", "c", "b"]).unwrap();
        assert!(judge(&[acknowledged("a", 1, 2, 2), unknown("b", 3)], &[], &["b", "a"]).is_err());
    }

    #[test]
    fn bad_histories_are_told_by_what_is_wrong_with_them() {
        let two = [acknowledged("a", 1, 2, 1), acknowledged("b", 3, 4, 2)];
        let cases: &[(&[Read], &[&str], &str)] = &[
            (&[], &["a"], "was acknowledged and is not there"),
            (&[], &["a", "b", "b"], "is there twice"),
            (&[], &["a", "b", "x"], "nobody asked for it"),
            (&[], &["b", "a"], "was told number"),
            (&[read(5, 6, &["b"])], &["a", "b"], "no prefix"),
            (&[read(5, 6, &["a"])], &["a", "b"], "before a read that lacks it"),
            (&[read(1, 2, &["a", "b"])], &["a", "b"], "read before it was asked for"),
        ];
        for (reads, stored, expected) in cases {
            let told = judge(&two, reads, stored).unwrap_err();
            assert!(told.contains(expected), "{told:?} does not say {expected:?}");
        }
        let swapped = [acknowledged("a", 1, 2, 2), acknowledged("b", 3, 4, 1)];
        assert!(judge(&swapped, &[], &["b", "a"]).unwrap_err().contains("comes after it"));
        let open = [acknowledged("a", 1, 9, 1), acknowledged("b", 1, 9, 2)];
        let backwards = [read(2, 3, &["a"]), read(4, 5, &[])];
        assert!(judge(&open, &backwards, &["a", "b"]).unwrap_err().contains("began after one of"));
    }

    /// A store that does what it should, asked by a few clients in any interleaving.
    fn lawful(moves: &[(u8, u8)]) -> (History, Vec<String>) {
        /// What a client is at: an append that has landed as this entry or not yet, or a read.
        enum At {
            Append(usize, bool),
            Read(u64, Option<Vec<String>>),
        }
        let (mut history, mut stored, mut now) = (History::default(), Vec::new(), 0);
        let mut clients: [Option<At>; 4] = [const { None }; 4];
        for (client, choice) in moves {
            now += 1;
            let client = &mut clients[usize::from(client % 4)];
            *client = match client.take() {
                None if choice % 3 == 0 => Some(At::Read(now, None)),
                None => {
                    let words = format!("w{}", history.appends.len());
                    history.appends.push(Asked { words, invoked: now, acknowledged: None });
                    Some(At::Append(history.appends.len() - 1, false))
                }
                // Some are given up before they land, some after.
                Some(At::Append(..)) if *choice > 240 => None,
                Some(At::Append(at, false)) => {
                    stored.push(history.appends[at].words.clone());
                    Some(At::Append(at, true))
                }
                Some(At::Append(at, true)) => {
                    let place = stored.iter().position(|words| *words == history.appends[at].words).unwrap();
                    history.appends[at].acknowledged = Some((now, u32::try_from(place + 1).unwrap()));
                    None
                }
                Some(At::Read(invoked, None)) => Some(At::Read(invoked, Some(stored.clone()))),
                Some(At::Read(invoked, Some(words))) => {
                    history.reads.push(Read { invoked, returned: now, words });
                    None
                }
            };
        }
        (history, stored)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_a_lawful_store_shows_is_accepted(moves in prop::collection::vec(any::<(u8, u8)>(), 0..120)) {
            let (history, stored) = lawful(&moves);
            prop_assert_eq!(history.check(&stored), Ok(()));
        }

        #[test]
        fn a_lost_a_doubled_and_a_made_up_entry_are_found(
            moves in prop::collection::vec(any::<(u8, u8)>(), 20..120),
            choice in any::<prop::sample::Index>(),
        ) {
            let (history, stored) = lawful(&moves);
            let told: Vec<_> = history.appends.iter().filter(|it| it.acknowledged.is_some()).collect();
            prop_assume!(!told.is_empty());
            let lost = &told[choice.index(told.len())].words;
            let without: Vec<String> = stored.iter().filter(|words| *words != lost).cloned().collect();
            prop_assert!(history.check(&without).is_err());
            let mut doubled = stored.clone();
            doubled.push(lost.clone());
            prop_assert!(history.check(&doubled).is_err());
            let mut made_up = stored.clone();
            made_up.push("made up".to_owned());
            prop_assert!(history.check(&made_up).is_err());
        }

        #[test]
        fn a_read_that_misses_one_in_the_middle_is_found(
            moves in prop::collection::vec(any::<(u8, u8)>(), 20..120),
            choice in any::<prop::sample::Index>(),
        ) {
            let (mut history, stored) = lawful(&moves);
            let Some(read) = history.reads.iter_mut().find(|read| read.words.len() >= 2) else {
                return Ok(());
            };
            read.words.remove(choice.index(read.words.len() - 1));
            prop_assert!(history.check(&stored).is_err());
        }
    }
}
