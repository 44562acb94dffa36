//! Branches: the entries of a session are a tree, and a path through it is exact.

use std::collections::HashSet;

use turnkeep_core::commit::{NewEntry, Op, Parent, RefTarget};
use turnkeep_core::query::{EntryQuery, PathTo};
use turnkeep_core::{EntryNo, ErrorKind, Guard, Order, SessionRef};

use crate::clause::Kind;
use crate::context::Context;
use crate::kit::{Kit, gather, name, no, note, spawn, user};
use crate::measure::Race;
use crate::verdict::{Outcome, Stop};

clauses! { ($) branches_tests;
    "BRA-001" bra_001_appending_to_an_earlier_entry_makes_a_branch {
        title: "Appending to an earlier entry begins a branch and moves the leaf there; the other branch keeps its entries and its path, and can be gone on with.",
        why: "A person goes back and asks again; both answers are theirs.",
        catches: "a backend that keeps one list and cuts it where somebody goes back",
    }
    "BRA-002" bra_002_an_unknown_or_foreign_parent_is_refused {
        title: "A parent, reference or leaf that is not an entry of this session answers NotFound, one that lies on no path or comes later answers Invalid, and nothing is written.",
        why: "An entry with a parent that is not there ends every path through it.",
        catches: "a backend that keeps any parent, or looks it up in all sessions",
    }
    "BRA-003" bra_003_moving_the_leaf_is_guarded_like_an_append {
        title: "Moving the leaf needs what an append needs, moves revision and mark, and makes an append that expects the former leaf stale; one of several movers wins.",
        kind: Kind::Stochastic,
        why: "A branch switched under a writer would capture its next message.",
        catches: "a backend that moves the leaf outside the commit's guards and leases",
    }
    "BRA-004" bra_004_the_path_of_a_leaf_is_exact_over_many_branch_points {
        title: "The path of any entry is exactly its chain of parents, whatever bounds, order or page size, and reading it costs by its own length and branch points, not by what else the session holds.",
        kind: Kind::Stochastic,
        timeout: std::time::Duration::from_secs(120),
        why: "Replay reads a path before every call of a model.",
        catches: "a backend that reads all entries of a session and filters, or loses a range at a branch point",
        quiet: true,
    }
}

/// An entry that continues another one.
fn after(parent: Option<EntryNo>, text: &str) -> NewEntry {
    NewEntry { parent: parent.map_or(Parent::Root, Parent::Number), ..user(text) }
}

fn path(kit: &Kit, session: &SessionRef, to: PathTo) -> EntryQuery {
    EntryQuery { path: Some(to), ..kit.every_entry(session) }
}

async fn path_to(kit: &Kit, session: &SessionRef, to: PathTo) -> Outcome<Vec<u32>> {
    Ok(kit.walk(path(kit, session, to)).await?.iter().map(|entry| entry.number.get()).collect())
}

fn moving(session: &SessionRef, to: Option<EntryNo>) -> Op {
    Op::MoveLeaf { session: session.clone(), to }
}

async fn bra_001_appending_to_an_earlier_entry_makes_a_branch(cx: &Context) -> Outcome {
    let mut kit = cx.kit().await?;
    // A neighbour branches where this one does not.
    let beside = kit.create("beside").await?;
    kit.append(&beside, vec![user("1"), user("2"), user("3"), user("4"), user("5")]).await?;
    kit.append(&beside, vec![after(Some(no(1)), "6")]).await?;
    let session = kit.create("s").await?;
    kit.append(&session, vec![user("1"), user("2"), user("3"), user("4")]).await?;
    let trunk = kit.entries(&session).await?;

    // Back to 2, then two entries there.
    kit.append(&session, vec![after(Some(no(2)), "5"), user("6")]).await?;
    ensure_eq!(
        path_to(&kit, &session, PathTo::Leaf).await?,
        [1, 2, 5, 6],
        "the path of the leaf on the branch"
    );
    ensure_eq!(
        path_to(&kit, &session, PathTo::Entry(no(4))).await?,
        [1, 2, 3, 4],
        "the path of the other branch"
    );
    let row = kit.row(&session).await?;
    ensure_eq!(
        (row.path.leaf, row.head, row.messages),
        (Some(no(6)), Some(no(6)), 6),
        "leaf, head and messages"
    );
    // Back to the other branch, by an append and then by a move.
    kit.append(&session, vec![after(Some(no(4)), "7")]).await?;
    ensure_eq!(
        path_to(&kit, &session, PathTo::Leaf).await?,
        [1, 2, 3, 4, 7],
        "the path after going on with the trunk"
    );
    kit.apply(kit.commit().op(moving(&session, Some(no(6))))).await?;
    let path = kit.row(&session).await?.path;
    ensure_eq!(
        (path.leaf, path.leaf_segment),
        (Some(no(6)), Some(no(5))),
        "the leaf and where its segment begins"
    );
    kit.append(&session, vec![user("8")]).await?;
    ensure_eq!(
        path_to(&kit, &session, PathTo::Leaf).await?,
        [1, 2, 5, 6, 8],
        "the path after moving the leaf and going on"
    );
    // A branch from the middle of an earlier segment, several in one commit, a new root, and a label beside.
    let many = vec![
        after(Some(no(5)), "9"),
        NewEntry { parent: Parent::InCommit(0), ..user("10") },
        NewEntry { parent: Parent::InCommit(0), ..user("11") },
        note("12"),
        user("13"),
    ];
    kit.append(&session, many).await?;
    ensure_eq!(
        path_to(&kit, &session, PathTo::Leaf).await?,
        [1, 2, 5, 9, 11, 13],
        "the path after a commit with a fork in it"
    );
    kit.append(&session, vec![after(None, "14"), user("15")]).await?;
    if cx.manifest.capabilities.persistent {
        kit = cx.reopen(kit).await?;
    }
    let expected: [(u32, &[u32]); 7] = [
        (15, &[14, 15]),
        (13, &[1, 2, 5, 9, 11, 13]),
        (10, &[1, 2, 5, 9, 10]),
        (8, &[1, 2, 5, 6, 8]),
        (7, &[1, 2, 3, 4, 7]),
        (4, &[1, 2, 3, 4]),
        (1, &[1]),
    ];
    for (entry, chain) in expected {
        ensure_eq!(
            path_to(&kit, &session, PathTo::Entry(no(entry))).await?,
            chain,
            "the path of entry {entry}"
        );
    }
    let now = kit.entries(&session).await?;
    ensure_eq!(now.get(..4), trunk.get(..4), "the entries that the branches began from");
    ensure_eq!(now.len(), 15, "entries on all branches");
    ensure_eq!(kit.row(&session).await?.path.leaf, Some(no(15)), "the leaf at the end");
    Ok(())
}

async fn bra_002_an_unknown_or_foreign_parent_is_refused(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let (session, other) = (kit.create("s").await?, kit.create("other").await?);
    kit.append(&session, vec![user("1"), user("2"), note("3")]).await?;
    // The other session has more numbers, so that a look-up without its session would find them.
    kit.append(&other, (1..=9).map(|at| user(&at.to_string())).collect()).await?;
    let former = kit.create("again").await?;
    kit.append(&former, vec![user("1"), user("2"), user("3")]).await?;
    kit.delete(&former).await?;
    let again = kit.create("again").await?;
    kit.append(&again, vec![user("only")]).await?;
    let before = kit.snapshot().await?;
    let refer = |target| NewEntry { refs: vec![(name("label_target"), target)], ..note("x") };
    let bad = [
        ("a parent beyond the head", &session, after(Some(no(4)), "x"), ErrorKind::NotFound),
        ("a parent that only another session has", &session, after(Some(no(9)), "x"), ErrorKind::NotFound),
        ("the highest parent", &session, after(Some(EntryNo::MAX), "x"), ErrorKind::NotFound),
        ("a parent that only a former life had", &again, after(Some(no(3)), "x"), ErrorKind::NotFound),
        ("a parent beside the path", &session, after(Some(no(3)), "x"), ErrorKind::Invalid),
        (
            "itself as a parent",
            &session,
            NewEntry { parent: Parent::InCommit(0), ..user("x") },
            ErrorKind::Invalid,
        ),
        ("its own number as a reference", &session, refer(RefTarget::Number(no(4))), ErrorKind::NotFound),
        (
            "a reference that only another session has",
            &session,
            refer(RefTarget::Number(no(9))),
            ErrorKind::NotFound,
        ),
        (
            "a reference that only a former life had",
            &again,
            refer(RefTarget::Number(no(2))),
            ErrorKind::NotFound,
        ),
    ];
    for (what, session, entry, kind) in bad {
        kit.refused(kit.appending(session, vec![entry.clone()]), kind).await?;
        let label = NewEntry { advance_leaf: false, ..entry };
        kit.refused(
            kit.commit()
                .op(Op::PutRecord(crate::kit::put("c", "k", "1")))
                .op(Op::Append { session: session.clone(), entries: vec![label] }),
            kind,
        )
        .await?;
        kit.unchanged(&before, what).await?;
    }
    for (session, to, kind) in [
        (&session, 4, ErrorKind::NotFound),
        (&session, 9, ErrorKind::NotFound),
        (&session, 3, ErrorKind::Invalid),
        (&again, 2, ErrorKind::NotFound),
    ] {
        kit.refused(kit.commit().op(moving(session, Some(no(to)))), kind).await?;
        kit.unchanged(&before, &format!("moving the leaf to entry {to}")).await?;
        let read = kit.store.entries(&path(&kit, session, PathTo::Entry(no(to)))).await;
        ensure_refused!(read, kind, "the path of entry {to}");
    }
    kit.refused(kit.commit().op(moving(&former, None)), ErrorKind::NotFound).await?;
    // A label may hang on an entry of a path, and refer to a label.
    let fine = NewEntry {
        advance_leaf: false,
        refs: vec![(name("label_target"), RefTarget::Number(no(3)))],
        ..after(Some(no(1)), "x")
    };
    kit.append(&session, vec![fine]).await?;
    Ok(())
}

async fn bra_003_moving_the_leaf_is_guarded_like_an_append(cx: &Context) -> Outcome {
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    kit.append(&session, vec![user("1"), user("2"), user("3")]).await?;
    let leaf = |leaf: Option<u32>| Guard::Leaf { session: session.clone(), leaf: leaf.map(no) };
    let before = kit.snapshot().await?;
    for stale in [None, Some(2), Some(4)] {
        kit.refused(kit.commit().guard(leaf(stale)).op(moving(&session, Some(no(1)))), ErrorKind::StaleLeaf)
            .await?;
        kit.unchanged(&before, "a move that expects another leaf").await?;
    }
    let held = kit.acquire(&session, 600_000).await?;
    let before = kit.snapshot().await?;
    other.refused(other.commit().op(moving(&session, Some(no(1)))), ErrorKind::LeaseHeld).await?;
    kit.unchanged(&before, "a move without the lease").await?;
    let (row, mark) = (kit.row(&session).await?, kit.mark(&session).await?);
    kit.apply(kit.commit().fence(held.clone()).guard(leaf(Some(3))).op(moving(&session, Some(no(1)))))
        .await?;
    let moved = kit.row(&session).await?;
    ensure_eq!((moved.path.leaf, moved.head), (Some(no(1)), Some(no(3))), "leaf and head after a move");
    ensure_eq!(moved.revision, row.revision + 1, "the revision after a move");
    ensure!(kit.mark(&session).await? != mark, "a move did not move the mark");
    kit.release(&held).await?;

    let before = kit.snapshot().await?;
    kit.refused(kit.appending(&session, vec![user("captured")]).guard(leaf(Some(3))), ErrorKind::StaleLeaf)
        .await?;
    kit.unchanged(&before, "an append that expects the former leaf").await?;
    kit.apply(kit.appending(&session, vec![user("4")]).guard(leaf(Some(1)))).await?;
    ensure_eq!(path_to(&kit, &session, PathTo::Leaf).await?, [1, 4], "the path after the move and an append");
    kit.apply(kit.commit().op(moving(&session, None))).await?;
    ensure_eq!(path_to(&kit, &session, PathTo::Leaf).await?, [0_u32; 0], "the path before the first entry");
    kit.apply(
        kit.commit().guard(leaf(None)).op(moving(&session, Some(no(2)))).op(moving(&session, Some(no(3)))),
    )
    .await?;
    ensure_eq!(
        path_to(&kit, &session, PathTo::Leaf).await?,
        [1, 2, 3],
        "the path after two moves in one commit"
    );
    let both = kit.commit().op(moving(&session, Some(no(4)))).op(moving(&session, Some(no(99))));
    kit.refused(both, ErrorKind::NotFound).await?;
    ensure_eq!(kit.row(&session).await?.path.leaf, Some(no(3)), "the leaf after a commit that was refused");
    // What lies beside the path moves nothing, also where the leaf is not the newest entry of a path.
    kit.append(&session, vec![note("beside")]).await?;
    ensure_eq!(kit.row(&session).await?.path.leaf, Some(no(3)), "the leaf after a move and a label");
    kit.append(&session, vec![user("6")]).await?;
    ensure_eq!(
        path_to(&kit, &session, PathTo::Leaf).await?,
        [1, 2, 3, 6],
        "the path after a move and a label"
    );

    for round in 0..8 {
        let session = kit.create(&format!("race {round}")).await?;
        kit.append(&session, vec![user("1"), user("2"), user("3"), user("4")]).await?;
        let mut racers = Vec::new();
        for (at, racer) in (1..=4_u32).zip(cx.kits(4).await?) {
            let guard = Guard::Leaf { session: session.clone(), leaf: Some(no(4)) };
            // Two move, two append; each expects the leaf that all of them saw.
            let commit = match at {
                1 | 2 => racer.commit().op(moving(&session, Some(no(at)))),
                _ => racer.appending(&session, vec![user(&format!("of {at}"))]),
            };
            racers.push(spawn(async move {
                match racer.store.commit(commit.guard(guard)).await {
                    Ok(_) => Ok(Some(at)),
                    Err(error) => {
                        ensure_refused!(
                            Err::<(), _>(error),
                            ErrorKind::StaleLeaf,
                            "a move or append that came second"
                        );
                        Ok(None)
                    }
                }
            }));
        }
        let won: Vec<_> = gather(racers).await?.into_iter().flatten().collect();
        ensure_eq!(won.len(), 1, "moves and appends from one leaf that won in round {round}");
        let leaf = kit.row(&session).await?.path.leaf.map(EntryNo::get);
        let expected = won.first().map(|at| if *at <= 2 { *at } else { 5 });
        ensure_eq!(leaf, expected, "the leaf that the winner of round {round} left");
    }
    Ok(())
}

/// A tree of entries, with the parent of each. Every entry is on a path unless its parent is `None` and it is no root.
struct Tree {
    parents: Vec<Option<usize>>,
    beside: HashSet<usize>,
}

impl Tree {
    /// The chain of parents, ascending, as numbers.
    fn path(&self, to: usize) -> Vec<u32> {
        let mut chain = Vec::new();
        let mut at = Some(to);
        while let Some(entry) = at {
            chain.push(entry as u32 + 1);
            at = self.parents.get(entry).copied().flatten();
        }
        chain.reverse();
        chain
    }
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }
}

/// Grows a tree of `size` entries: most go on with the entry before, some go back, some stand beside.
fn grow(size: usize, seed: u64) -> (Tree, Vec<NewEntry>) {
    let mut dice = Dice(seed);
    let mut tree = Tree { parents: Vec::new(), beside: HashSet::new() };
    let mut entries = Vec::new();
    let mut last = None;
    for at in 0..size {
        let text = format!("entry {at}");
        let on_path: Vec<usize> = (0..at).filter(|entry| !tree.beside.contains(entry)).collect();
        let parent = match dice.below(10) {
            _ if on_path.is_empty() => None,
            0 => None,
            1..=4 => on_path.get(dice.below(on_path.len())).copied(),
            _ => last,
        };
        let beside = !on_path.is_empty() && dice.below(8) == 0;
        let number = parent.map(|parent| no(parent as u32 + 1));
        entries.push(NewEntry { advance_leaf: !beside, ..after(number, &text) });
        tree.parents.push(parent);
        if beside {
            tree.beside.insert(at);
        } else {
            last = Some(at);
        }
    }
    (tree, entries)
}

async fn bra_004_the_path_of_a_leaf_is_exact_over_many_branch_points(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    for (seed, batch) in [(7, 1), (8, 13), (9, 200)] {
        let session = kit.create(&format!("tree {seed}")).await?;
        let (tree, entries) = grow(200, seed);
        for batch in entries.chunks(batch) {
            kit.append(&session, batch.to_vec()).await?;
        }
        for to in 0..tree.parents.len() {
            let query = path(&kit, &session, PathTo::Entry(no(to as u32 + 1)));
            if tree.beside.contains(&to) {
                ensure_refused!(
                    kit.store.entries(&query).await,
                    ErrorKind::Invalid,
                    "the path of entry {} beside it",
                    to + 1
                );
                continue;
            }
            let expected = tree.path(to);
            ensure_eq!(
                numbers(&kit, query.clone()).await?,
                expected,
                "the path of entry {} of tree {seed}",
                to + 1
            );
            if to % 7 == 0 {
                narrowed(&kit, &query, &expected).await?;
            }
        }
    }
    cost_of_a_path(&kit).await
}

async fn numbers(kit: &Kit, query: EntryQuery) -> Outcome<Vec<u32>> {
    Ok(kit.walk(query).await?.iter().map(|entry| entry.number.get()).collect())
}

/// The same path within bounds, backwards, and in small pages.
async fn narrowed(kit: &Kit, whole: &EntryQuery, path: &[u32]) -> Outcome {
    let (Some(first), Some(last)) = (path.first(), path.last()) else { return Ok(()) };
    let middle = first + (last - first) / 2;
    let above = EntryQuery { after: Some(no(middle)), limit: 3, ..whole.clone() };
    let expected: Vec<_> = path.iter().copied().filter(|number| *number > middle).collect();
    ensure_eq!(numbers(kit, above).await?, expected, "the path above {middle} in pages of 3");
    let below = EntryQuery { before: Some(no(middle)), ..whole.clone() };
    let expected: Vec<_> = path.iter().copied().filter(|number| *number < middle).collect();
    ensure_eq!(numbers(kit, below).await?, expected, "the path below {middle}");
    let back = EntryQuery { order: Order::Descending, limit: 2, ..whole.clone() };
    let expected: Vec<_> = path.iter().rev().copied().collect();
    ensure_eq!(numbers(kit, back).await?, expected, "the path backwards in pages of 2");
    let newest = EntryQuery { order: Order::Latest, limit: 4, ..whole.clone() };
    let page: Vec<_> =
        kit.store.entries(&newest).await?.items.iter().map(|entry| entry.number.get()).collect();
    ensure_eq!(page, path.get(path.len().saturating_sub(4)..).unwrap_or_default(), "the last 4 of the path");
    Ok(())
}

/// A path with a branch point at every second entry; `beside` siblings hang on each branch point.
async fn comb(kit: &Kit, id: &str, teeth: u32, beside: u32) -> Outcome<SessionRef> {
    let session = kit.create(id).await?;
    let mut last: Option<EntryNo> = None;
    for _ in 0..teeth {
        let mut entries = vec![after(last, "on the way"), user("on the way")];
        entries.extend(
            (0..beside).map(|_| NewEntry { parent: Parent::InCommit(0), ..user("on another branch") }),
        );
        let made = kit.append(&session, entries).await?;
        last = made.get(1).copied();
    }
    kit.apply(kit.commit().op(moving(&session, last))).await?;
    Ok(session)
}

/// The same path in a session with fifty times the entries costs about the same.
async fn cost_of_a_path(kit: &Kit) -> Outcome {
    const TEETH: u32 = 200;
    let lean = comb(kit, "lean", TEETH, 1).await?;
    let full = comb(kit, "full", TEETH, 150).await?;
    for session in [&lean, &full] {
        ensure_eq!(
            path_to(kit, session, PathTo::Leaf).await?.len() as u32,
            TEETH * 2,
            "the length of the path"
        );
    }
    let read = |session: SessionRef| {
        let (kit, query) = (kit.clone(), EntryQuery { limit: 1_000, ..path(kit, &session, PathTo::Leaf) });
        async move {
            let page = kit.store.entries(&query).await?;
            ensure_eq!(page.items.len() as u32, TEETH * 2, "the entries of the path on one page");
            Ok(())
        }
    };
    let race = Race { batches: 12, most: 6.0 };
    let ratio = race.run(|| read(lean.clone()), || read(full.clone())).await?;
    ratio.map_err(|ratio| {
        Stop::fail(format!(
            "reading a path costs {ratio:.1} times as much when the session holds fifty times the entries beside it"
        ))
    })
}
