//! Copied and restored sessions read like their source, whatever branches it has.

use proptest::collection::vec;
use proptest::prelude::*;
use turnkeep_core::commit::{NewEntry, Op, Parent};
use turnkeep_core::model::{Row, RunState, RunStates, SessionImage, SessionState};
use turnkeep_core::rules::{copied, fold_row};
use turnkeep_core::{EntryNo, SessionRef};

use crate::kit::{
    acquire, append, commit, create, fence, lease_of, message, name, no, run_id, session, stamp, start,
};
use crate::naive::Naive;

/// Where the next entry goes, whether it advances the leaf, and whether it speaks for the user.
type Twig = (u8, bool, bool);

fn history() -> impl Strategy<Value = Vec<Vec<Twig>>> {
    vec(vec((any::<u8>(), prop::bool::weighted(0.8), any::<bool>()), 1..5), 1..12)
}

/// Grows a session from twigs; the entries name the run that wrote them.
fn grow(store: &mut Naive, s: &SessionRef, history: &[Vec<Twig>]) {
    let begin = commit().op(create(s, SessionState::Active)).op(start(s, "r"));
    store.commit(&begin, &stamp(1)).unwrap();
    for (round, twigs) in history.iter().enumerate() {
        let paths: Vec<EntryNo> =
            store.life(s).entries.iter().filter(|entry| entry.on_path).map(|entry| entry.number).collect();
        let entry = |(choice, advance_leaf, user): &Twig| {
            let parent = match paths.len() {
                _ if *choice < 128 => Parent::Leaf,
                0 => Parent::Root,
                len => match usize::from(*choice) % (len + 1) {
                    0 => Parent::Root,
                    place => Parent::Number(paths[place - 1]),
                },
            };
            let role = Some(name(if *user { "user" } else { "assistant" }));
            NewEntry {
                parent,
                advance_leaf: *advance_leaf,
                role,
                run: Some(run_id("r")),
                ..message("one two")
            }
        };
        let entries = twigs.iter().map(entry).collect();
        store.commit(&commit().op(append(s, entries)), &stamp(2 + round as u64)).unwrap();
    }
    let done = RunState::Completed;
    let over = Op::TransitionRun {
        session: s.clone(),
        run: run_id("r"),
        from: RunStates::ACTIVE,
        to: done,
        error: None,
    };
    store.commit(&commit().op(over), &stamp(90)).unwrap();
}

/// Copies `1..=through` in slices of `slice` and seals with a leaf; the last slice and the seal are one commit.
fn copy(
    store: &mut Naive,
    from: &SessionRef,
    to: &SessionRef,
    through: EntryNo,
    slice: u32,
    leaf: Option<EntryNo>,
) {
    let begin = commit().op(create(to, SessionState::Restoring)).op(acquire(lease_of(to), 1));
    store.commit(&begin, &stamp(100)).unwrap();
    let proof = fence(lease_of(to), 1, 1);
    let mut after = None;
    loop {
        let start = after.map_or(0, EntryNo::get);
        let end = no((start + slice).min(through.get()));
        let digest = copied(from, end);
        let part = Op::CopyEntries { from: from.clone(), to: to.clone(), after, through: end };
        let part = commit().fence(proof.clone()).op(part);
        if end == through {
            let rows = u64::from(through.get());
            let seal = Op::SealSession { session: to.clone(), leaf, rows, digest };
            store.commit(&part.op(seal).op(Op::ReleaseLease { fence: proof }), &stamp(101)).unwrap();
            return;
        }
        store.commit(&part, &stamp(101)).unwrap();
        after = Some(end);
    }
}

/// Restores exact rows in batches and seals with the leaf of the image.
fn restore(store: &mut Naive, from: &SessionRef, to: &SessionRef, batch: usize) {
    let image = SessionImage::from(store.row(from).unwrap());
    let leaf = image.leaf;
    let life = store.life(from);
    let entries = life.entries.iter().cloned().map(Row::Entry);
    let runs = life.runs.iter().cloned().map(Row::Run);
    let rows: Vec<Row> = [Row::Session(image)].into_iter().chain(entries).chain(runs).collect();
    let digest = rows.iter().fold([0; 32], |digest, row| fold_row(&digest, row));
    let begin = commit().op(create(to, SessionState::Restoring)).op(acquire(lease_of(to), 1));
    store.commit(&begin, &stamp(200)).unwrap();
    let proof = fence(lease_of(to), 1, 1);
    for part in rows.chunks(batch) {
        let part = Op::Restore { session: to.clone(), rows: part.to_vec() };
        store.commit(&commit().fence(proof.clone()).op(part), &stamp(201)).unwrap();
    }
    let seal = Op::SealSession { session: to.clone(), leaf, rows: rows.len() as u64, digest };
    store.commit(&commit().fence(proof).op(seal), &stamp(202)).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_path_of_every_entry_is_the_same_by_segments_and_by_parents(history in history()) {
        let (mut store, s) = (Naive::default(), session("s", 1));
        grow(&mut store, &s, &history);
        let paths = |store: &Naive| {
            let life = store.life(&s);
            for entry in life.entries.iter().filter(|entry| entry.on_path) {
                let segment = life.segments.range(..=entry.number).next_back().map(|(first, _)| *first);
                let by_segments = life.path_by_segments(Some(entry.number), segment);
                assert_eq!(by_segments, life.path_by_parents(Some(entry.number)));
            }
        };
        paths(&store);
        // The leaf may be put on any entry of a path, and the next append continues there.
        let numbers: Vec<_> = store.life(&s).entries.iter().filter(|entry| entry.on_path).map(|entry| entry.number).collect();
        for number in numbers {
            let moved = commit()
                .op(Op::MoveLeaf { session: s.clone(), to: Some(number) })
                .op(append(&s, vec![message("on")]));
            store.commit(&moved, &stamp(300)).unwrap();
            let row = store.row(&s).unwrap();
            prop_assert_eq!(store.life(&s).path_by_segments(row.path.leaf, row.path.leaf_segment)[1], number);
        }
        paths(&store);
    }

    #[test]
    fn a_whole_copy_and_a_restored_session_have_the_segments_of_the_original(
        history in history(), slice in 1_u32..9, batch in 1_usize..9,
    ) {
        let (mut store, s) = (Naive::default(), session("s", 1));
        let (copied, restored) = (session("copy", 2), session("restored", 3));
        grow(&mut store, &s, &history);
        let source = store.row(&s).unwrap().clone();
        let head = source.head.unwrap();
        copy(&mut store, &s, &copied, head, slice, source.path.leaf);
        restore(&mut store, &s, &restored, batch);
        for child in [&copied, &restored] {
            let row = store.row(child).unwrap();
            prop_assert_eq!(row.path, source.path);
            prop_assert_eq!((row.head, row.messages, row.runs), (source.head, source.messages, source.runs));
            prop_assert_eq!((&row.preview, row.state), (&source.preview, SessionState::Active));
            prop_assert_eq!(&store.life(child).segments, &store.life(&s).segments);
            prop_assert_eq!(&store.life(child).entries, &store.life(&s).entries);
            prop_assert_eq!(store.life(child).runs.len(), 1);
        }
        let row = store.row(&restored).unwrap();
        prop_assert_eq!((row.activity, row.updated_at), (source.activity, source.updated_at));
        prop_assert_eq!((row.created_at, &row.profile), (source.created_at, &source.profile));
    }

    #[test]
    fn a_copy_cut_anywhere_goes_on_like_the_original_cut_there(
        history in history(), cut in any::<u8>(), slice in 1_u32..9,
    ) {
        let (mut store, s) = (Naive::default(), session("s", 1));
        grow(&mut store, &s, &history);
        let head = store.row(&s).unwrap().head.unwrap().get();
        let through = no(u32::from(cut) % head + 1);
        let on_path = |number: &EntryNo| store.life(&s).entries[number.get() as usize - 1].on_path;
        let leaf = (1..=through.get()).rev().map(no).find(on_path);
        let (child, cut_child) = (session("child", 2), session("cut", 3));
        copy(&mut store, &s, &child, through, slice, leaf);

        // The same entries appended one by one are the original cut at that place.
        store.commit(&commit().op(create(&cut_child, SessionState::Active)), &stamp(300)).unwrap();
        let prefix = store.life(&s).entries[..through.get() as usize].to_vec();
        for entry in prefix {
            let parent = entry.parent.map_or(Parent::Root, Parent::Number);
            let entry = NewEntry { parent, advance_leaf: entry.on_path, role: entry.role, ..message("one two") };
            store.commit(&commit().op(append(&cut_child, vec![entry])), &stamp(301)).unwrap();
        }
        for session in [&child, &cut_child] {
            store.commit(&commit().op(append(session, vec![message("on")])), &stamp(302)).unwrap();
        }
        let (a, b) = (store.row(&child).unwrap(), store.row(&cut_child).unwrap());
        prop_assert_eq!(a.path, b.path);
        prop_assert_eq!((a.messages, &a.preview), (b.messages, &b.preview));
        prop_assert_eq!(&store.life(&child).segments, &store.life(&cut_child).segments);
    }
}
