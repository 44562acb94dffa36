//! The memory backend: a site is a name within this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use turnkeep_conformance::{Harness, Manifest, OpenWith, Policies, Site, TableCount};
use turnkeep_core::limits::Limits;
use turnkeep_core::{Capabilities, Durability, Result, Store};
use turnkeep_memory::{MemoryOptions, MemoryStore};

/// Unnamed stores, each as long as a handle on it is there: what a site held is gone with its last client.
#[derive(Debug, Default)]
pub struct MemoryHarness;

static OPEN: Mutex<BTreeMap<String, Vec<Weak<MemoryStore>>>> = Mutex::new(BTreeMap::new());

fn open() -> MutexGuard<'static, BTreeMap<String, Vec<Weak<MemoryStore>>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle on the site that is still there.
fn client_of(clients: &[Weak<MemoryStore>]) -> Option<Arc<MemoryStore>> {
    clients.iter().find_map(Weak::upgrade)
}

fn options(with: OpenWith) -> MemoryOptions {
    match with.clock {
        Some(clock) => MemoryOptions::new().clock(clock),
        None => MemoryOptions::new(),
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    fn manifest(&self) -> Manifest {
        let mut capabilities = Capabilities::NONE;
        capabilities.search = true;
        capabilities.owner_liveness = true;
        Manifest {
            name: "memory",
            capabilities,
            limits: Limits::default(),
            durability: Durability::D0,
            policies: Policies { clock: true },
        }
    }

    async fn provision(&self) -> Result<Site> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(Site::new(format!("memory:{}-{count}", std::process::id())))
    }

    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        let options = options(with);
        let mut open = open();
        let clients = open.entry(site.as_str().to_owned()).or_default();
        let store = match client_of(clients) {
            Some(client) => options.attach(&client),
            None => options.build(),
        };
        let store = Arc::new(store);
        clients.push(Arc::downgrade(&store));
        Ok(store)
    }

    async fn destroy(&self, site: &Site) -> Result<()> {
        open().remove(site.as_str());
        Ok(())
    }

    async fn residue(&self, site: &Site) -> Result<Option<Vec<TableCount>>> {
        let client = open().get(site.as_str()).and_then(|clients| client_of(clients));
        let Some(client) = client else { return Ok(Some(Vec::new())) };
        let rows = client.reopen().table_rows()?;
        let count = |(table, rows): (&str, u64)| TableCount { table: table.to_owned(), rows };
        Ok(Some(rows.into_iter().map(count).collect()))
    }
}

/// Named stores: what a site held is there until it is destroyed, whoever closes it.
#[derive(Debug, Default)]
pub struct NamedMemoryHarness;

#[async_trait]
impl Harness for NamedMemoryHarness {
    fn manifest(&self) -> Manifest {
        let mut manifest = MemoryHarness.manifest();
        manifest.capabilities.persistent = true;
        manifest
    }

    async fn provision(&self) -> Result<Site> {
        MemoryHarness.provision().await
    }

    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(options(with).open(site.as_str())))
    }

    async fn destroy(&self, site: &Site) -> Result<()> {
        MemoryStore::destroy(site.as_str());
        Ok(())
    }
}
