//! How to open an in-memory store.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use turnkeep_core::limits::Limits;
use turnkeep_core::{Capabilities, Clock, Durability, OwnerId, StoreInfo, SystemClock};

use crate::data::{self, Data};
use crate::{Handle, MemoryStore};

/// How to open a [`MemoryStore`]. Everything has a default.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    clock: Arc<dyn Clock>,
    owner: Option<OwnerId>,
    seed: Option<u64>,
    limits: Limits,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), owner: None, seed: None, limits: Limits::default() }
    }
}

impl MemoryOptions {
    /// The machine's clock, random ids, the limits of the contract.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The clock that this handle reads: expiries and times of rows follow it.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The owner id of the handle, instead of one that is drawn. Give each handle its own.
    #[must_use]
    pub fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Makes everything that is drawn (owner ids, births of records) follow from this number, so that two stores
    /// with one seed answer alike.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// What the handle accepts. Lower limits make a test of "too large" cheap.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// A new, empty store. It is gone with its last handle.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        self.on(Arc::default())
    }

    /// A handle on the store of this name in this process, made when it is not there. It stays until
    /// [`MemoryStore::destroy`], also with no handle open.
    #[must_use]
    pub fn open(self, name: &str) -> MemoryStore {
        self.on(data::named(name))
    }

    /// Another handle on the data of `store`, as another process would have it on a file.
    #[must_use]
    pub fn attach(self, store: &MemoryStore) -> MemoryStore {
        self.on(Arc::clone(&store.handle.data))
    }

    pub(crate) fn without_owner(&self) -> Self {
        Self { owner: None, ..self.clone() }
    }

    pub(crate) fn the_clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn the_seed(&self) -> Option<u64> {
        self.seed
    }

    fn on(self, data: Arc<Data>) -> MemoryStore {
        let owner = data.enter(self.owner, self.seed);
        let mut info = StoreInfo::new("memory", env!("CARGO_PKG_VERSION"), Durability::D0, owner);
        info.engine = "ordered maps of the Rust standard library".to_owned();
        info.location = format!("memory:{}", data.name().unwrap_or_default());
        info.format = 1;
        info.limits = self.limits.clone();
        let mut capabilities = Capabilities::NONE;
        capabilities.search = true;
        capabilities.persistent = data.name().is_some();
        capabilities.owner_liveness = true;
        info.capabilities = capabilities;
        let handle = Handle { data, info, options: self, closed: AtomicBool::new(false) };
        MemoryStore { handle: Arc::new(handle) }
    }
}
