//! Reads of a random tree compared with a naive filter over the full list.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use turnkeep_core::commit::{NewEntry, Op, Parent};
use turnkeep_core::id::{EntryKey, EntryKind, Role, TurnId};
use turnkeep_core::model::{Visibility, VisibilitySet};
use turnkeep_core::query::{EntryQuery, Order, PathTo};
use turnkeep_core::{EntryNo, RunId, SessionRef};

use crate::support::{Bench, at, entry_query, flatten, json, no, walk};

const KINDS: [&str; 3] = ["message", "label", "odd"];
const ROLES: [Option<&str>; 3] = [None, Some("user"), Some("assistant")];
const SEEN: [Visibility; 3] = [Visibility::Conversation, Visibility::Internal, Visibility::Partial];

/// What a test wants to append; `parent` picks among what is there.
#[derive(Clone, Debug)]
struct Draft {
    parent: Option<usize>,
    advance: bool,
    kind: usize,
    role: usize,
    seen: usize,
    tags: (Option<u8>, Option<u8>),
    keyed: bool,
}

#[derive(Clone, Debug)]
enum Step {
    /// One commit.
    Append(Vec<Draft>),
    /// The leaf goes to one of the path entries, or before the first.
    Move(usize),
}

fn draft() -> impl Strategy<Value = Draft> {
    let parent = prop_oneof![6 => Just(None), 3 => any::<usize>().prop_map(Some)];
    let tags = (option::of(0..2_u8), option::of(0..2_u8));
    (parent, prop::bool::weighted(0.8), 0..3_usize, 0..3_usize, 0..3_usize, tags, any::<bool>()).prop_map(
        |(parent, advance, kind, role, seen, tags, keyed)| Draft {
            parent,
            advance,
            kind,
            role,
            seen,
            tags,
            keyed,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => vec(draft(), 1..5).prop_map(Step::Append),
        1 => any::<usize>().prop_map(Step::Move),
    ];
    vec(step, 1..16)
}

/// A query with places instead of numbers, so that it fits any tree.
#[derive(Clone, Debug)]
struct Ask {
    path: Option<Option<usize>>,
    bounds: (Option<u32>, Option<u32>),
    kinds: Vec<usize>,
    roles: Vec<usize>,
    seen: usize,
    tags: (Option<u8>, Option<u8>),
    key: Option<u32>,
    order: Order,
    limit: u32,
}

fn ask() -> impl Strategy<Value = Ask> {
    let bounds = (option::weighted(0.3, 1..40_u32), option::weighted(0.3, 1..40_u32));
    let filters = (vec(0..3_usize, 0..2), vec(1..3_usize, 0..2), 0..5_usize);
    let tags = (option::weighted(0.2, 0..2_u8), option::weighted(0.2, 0..2_u8));
    let order = prop_oneof![Just(Order::Ascending), Just(Order::Descending), Just(Order::Latest)];
    let path = option::of(option::of(any::<usize>()));
    (path, bounds, filters, tags, option::weighted(0.1, 1..40_u32), order, 1..9_u32).prop_map(
        |(path, bounds, (kinds, roles, seen), tags, key, order, limit)| Ask {
            path,
            bounds,
            kinds,
            roles,
            seen,
            tags,
            key,
            order,
            limit,
        },
    )
}

fn tag<T>(tag: Option<u8>, new: impl Fn(&str) -> T) -> Option<T> {
    tag.map(|tag| new(&format!("tag{tag}")))
}

fn run_tag(of: Option<u8>) -> Option<RunId> {
    tag(of, |text| RunId::new(text).unwrap())
}

fn turn_tag(of: Option<u8>) -> Option<TurnId> {
    tag(of, |text| TurnId::new(text).unwrap())
}

fn entry_key(number: u32) -> EntryKey {
    EntryKey::new(format!("key{number}")).unwrap()
}

/// What is there, as the test knows it.
#[derive(Default)]
struct Model {
    entries: Vec<Known>,
    leaf: Option<u32>,
}

struct Known {
    number: u32,
    parent: Option<u32>,
    draft: Draft,
}

impl Model {
    fn on_path(&self) -> Vec<u32> {
        self.entries.iter().filter(|known| known.draft.advance).map(|known| known.number).collect()
    }

    /// A place among the path entries, the one before the first included.
    fn pick(&self, place: usize) -> Option<u32> {
        let path = self.on_path();
        let place = place % (path.len() + 1);
        place.checked_sub(1).map(|place| path[place])
    }

    fn add(&mut self, draft: &Draft) -> NewEntry {
        let number = self.entries.len() as u32 + 1;
        let parent = draft.parent.map_or(self.leaf, |place| self.pick(place));
        let said = match draft.parent {
            None => Parent::Leaf,
            Some(_) => parent.map_or(Parent::Root, |parent| Parent::Number(no(parent))),
        };
        self.entries.push(Known { number, parent, draft: draft.clone() });
        if draft.advance {
            self.leaf = Some(number);
        }
        NewEntry {
            parent: said,
            advance_leaf: draft.advance,
            role: ROLES[draft.role].map(|role| Role::new(role).unwrap()),
            run: run_tag(draft.tags.0),
            turn: turn_tag(draft.tags.1),
            key: draft.keyed.then(|| entry_key(number)),
            visibility: SEEN[draft.seen],
            ..NewEntry::new(EntryKind::new(KINDS[draft.kind]).unwrap(), at(0), json(&number.to_string()))
        }
    }

    fn known(&self, number: u32) -> &Known {
        &self.entries[number as usize - 1]
    }

    /// The path of an entry by following parents.
    fn path(&self, mut end: Option<u32>) -> Vec<u32> {
        let mut path = Vec::new();
        while let Some(number) = end {
            path.push(number);
            end = self.known(number).parent;
        }
        path
    }

    fn visibility(seen: usize) -> (VisibilitySet, Vec<Visibility>) {
        match seen {
            0 => (VisibilitySet::ALL, SEEN.to_vec()),
            1 => (VisibilitySet::COMMITTED, SEEN[..2].to_vec()),
            one => (VisibilitySet::only(SEEN[one - 2]), vec![SEEN[one - 2]]),
        }
    }

    /// The query that is meant, and the numbers that it must give, ascending.
    fn expect(&self, session: &SessionRef, ask: &Ask) -> (EntryQuery, Vec<u32>) {
        let path = ask.path.map(|to| to.and_then(|place| self.pick(place)).map_or(PathTo::Leaf, entry));
        let on_path = path.map(|path| match path {
            PathTo::Leaf => self.path(self.leaf),
            PathTo::Entry(number) => self.path(Some(number.get())),
        });
        let (visibility, seen) = Self::visibility(ask.seen);
        let fits = |known: &&Known| {
            let Draft { kind, role, keyed, tags, .. } = known.draft;
            on_path.as_ref().is_none_or(|path| path.contains(&known.number))
                && ask.bounds.0.is_none_or(|after| known.number > after)
                && ask.bounds.1.is_none_or(|before| known.number < before)
                && (ask.kinds.is_empty() || ask.kinds.contains(&kind))
                && (ask.roles.is_empty() || ask.roles.contains(&role))
                && seen.contains(&SEEN[known.draft.seen])
                && (ask.tags.0.is_none() || tags.0 == ask.tags.0)
                && (ask.tags.1.is_none() || tags.1 == ask.tags.1)
                && ask.key.is_none_or(|key| keyed && key == known.number)
        };
        let query = EntryQuery {
            path,
            after: ask.bounds.0.map(no),
            before: ask.bounds.1.map(no),
            kinds: ask.kinds.iter().map(|kind| EntryKind::new(KINDS[*kind]).unwrap()).collect(),
            roles: ask
                .roles
                .iter()
                .filter_map(|role| ROLES[*role])
                .map(|role| Role::new(role).unwrap())
                .collect(),
            visibility,
            run: run_tag(ask.tags.0),
            turn: turn_tag(ask.tags.1),
            key: ask.key.map(entry_key),
            order: ask.order,
            limit: ask.limit,
            ..entry_query(session)
        };
        (query, self.entries.iter().filter(fits).map(|known| known.number).collect())
    }
}

fn entry(number: u32) -> PathTo {
    PathTo::Entry(EntryNo::new(number).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reads_agree_with_a_naive_filter(steps in steps(), asks in vec(ask(), 1..12)) {
        let bench = Bench::new();
        let session = bench.create("s");
        let mut model = Model::default();
        for step in &steps {
            match step {
                Step::Append(drafts) => {
                    let batch = drafts.iter().map(|draft| model.add(draft)).collect();
                    bench.append(&session, batch);
                }
                Step::Move(place) => {
                    model.leaf = model.pick(*place);
                    bench.op(Op::MoveLeaf { session: session.clone(), to: model.leaf.map(no) });
                }
            }
        }
        bench.assert_sound();
        for ask in &asks {
            let (query, mut expected) = model.expect(&session, ask);
            if ask.order == Order::Descending {
                expected.reverse();
            }
            let pages = walk(ask.limit, |limit, cursor| {
                bench.entries(&EntryQuery { limit, cursor, ..query.clone() })
            });
            let full = pages.iter().rev().skip(1).all(|page| page.len() == ask.limit as usize);
            prop_assert!(full, "only the last page may be short");
            let read: Vec<u32> = flatten(ask.order, pages).iter().map(|entry| entry.number.get()).collect();
            prop_assert_eq!(read, expected, "{:?}", query);
        }
        for known in &model.entries {
            let query = EntryQuery {
                visibility: VisibilitySet::ALL,
                after: EntryNo::new(known.number - 1),
                limit: 1,
                ..entry_query(&session)
            };
            let stored = bench.entries(&query).items.remove(0);
            prop_assert_eq!(stored.number.get(), known.number);
            prop_assert_eq!(stored.parent.map(EntryNo::get), known.parent);
            prop_assert_eq!(stored.on_path, known.draft.advance);
        }
    }
}
