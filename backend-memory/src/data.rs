//! What handles share: the tables, who is alive, and the registry of named stores.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use turnkeep_core::dice::Dice;
use turnkeep_core::model::Liveness;
use turnkeep_core::{Error, ErrorKind, OwnerId, Result};

use crate::tables::Tables;

/// One set of data, with any number of handles on it.
#[derive(Debug, Default)]
pub(crate) struct Data {
    name: Option<String>,
    tables: RwLock<Tables>,
    owners: Mutex<Owners>,
}

/// The handles that are open.
#[derive(Debug, Default)]
struct Owners {
    opened: u64,
    /// How many handles go by this id; more than one only when the ids are given.
    alive: BTreeMap<OwnerId, usize>,
}

impl Data {
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn read(&self) -> Result<RwLockReadGuard<'_, Tables>> {
        self.tables.read().map_err(|_| poisoned())
    }

    pub(crate) fn write(&self) -> Result<RwLockWriteGuard<'_, Tables>> {
        self.tables.write().map_err(|_| poisoned())
    }

    /// Takes in a handle: with the id given, else with one drawn from the seed or at random.
    pub(crate) fn enter(&self, given: Option<OwnerId>, seed: Option<u64>) -> OwnerId {
        let mut owners = self.owners();
        owners.opened += 1;
        let owner = given.unwrap_or_else(|| {
            let halves = match seed {
                Some(seed) => [mix(seed ^ mix(owners.opened)), mix(!seed ^ mix(owners.opened))],
                None => [random(), random()],
            };
            let bits = (u128::from(halves[0]) << 64) | u128::from(halves[1]);
            OwnerId::from_bytes(bits.to_be_bytes())
        });
        *owners.alive.entry(owner).or_default() += 1;
        owner
    }

    /// A handle was closed or dropped.
    pub(crate) fn leave(&self, owner: &OwnerId) {
        let mut owners = self.owners();
        if let Some(count) = owners.alive.get_mut(owner) {
            *count -= 1;
            if *count == 0 {
                owners.alive.remove(owner);
            }
        }
    }

    /// Everybody who can hold a lease here is a handle of this process, so nothing is unknown.
    pub(crate) fn liveness(&self, owner: &OwnerId) -> Liveness {
        if self.owners().alive.contains_key(owner) { Liveness::Alive } else { Liveness::Dead }
    }

    /// A panic cannot leave the set of handles half changed, so its poison means nothing.
    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn poisoned() -> Error {
    Error::new(
        ErrorKind::Poisoned,
        "a commit of this in-memory store panicked half way, so its contents cannot be trusted; make a new store",
    )
}

type Registry = BTreeMap<String, Arc<Data>>;

static NAMED: Mutex<Registry> = Mutex::new(Registry::new());

/// A panic cannot leave the registry half changed, so its poison means nothing.
fn registry() -> MutexGuard<'static, Registry> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The data of this name, made when it is not there.
pub(crate) fn named(name: &str) -> Arc<Data> {
    let mut registry = registry();
    if let Some(data) = registry.get(name) {
        return Arc::clone(data);
    }
    let data = Arc::new(Data { name: Some(name.to_owned()), ..Data::default() });
    registry.insert(name.to_owned(), Arc::clone(&data));
    data
}

/// Forgets the data of this name; `false` when it was not there.
pub(crate) fn destroy(name: &str) -> bool {
    registry().remove(name).is_some()
}

/// Spreads the bits of a number: different inputs give different outputs.
pub(crate) fn mix(number: u64) -> u64 {
    Dice::new(number).next()
}

/// Random bits. Nothing here is a secret, so when the system gives none, the standard library's hash keys do.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| RandomState::new().hash_one(0_u8))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_panic_under_the_lock_is_a_typed_error_ever_after() {
        let data = Arc::new(Data::default());
        let other = Arc::clone(&data);
        let panicked = std::thread::spawn(move || {
            let _held = other.write();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        for error in [data.read().map(drop).unwrap_err(), data.write().map(drop).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Poisoned);
        }
    }

    #[test]
    fn owners_drawn_from_a_seed_differ_and_repeat_on_new_data() {
        let draw = || {
            let data = Data::default();
            (0..1_000).map(|_| data.enter(None, Some(3))).collect::<Vec<_>>()
        };
        let owners = draw();
        assert_eq!(owners, draw());
        assert_eq!(owners.iter().collect::<BTreeSet<_>>().len(), owners.len());
    }

    #[test]
    fn an_owner_given_twice_lives_until_its_last_handle_left() {
        let data = Data::default();
        let owner = OwnerId::from_bytes([1; 16]);
        data.enter(Some(owner), None);
        data.enter(Some(owner), None);
        data.leave(&owner);
        assert_eq!(data.liveness(&owner), Liveness::Alive);
        data.leave(&owner);
        assert_eq!(data.liveness(&owner), Liveness::Dead);
    }
}
