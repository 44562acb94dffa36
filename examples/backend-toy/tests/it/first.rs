//! The least that a harness can be: the one that the guide begins with, around a store that is there already.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use turnkeep_conformance::{Harness, Manifest, OpenWith, Policies, Site};
use turnkeep_core::limits::Limits;
use turnkeep_core::{Capabilities, Durability, Result, Store};
use turnkeep_memory::{MemoryOptions, MemoryStore};

#[derive(Debug, Default)]
struct FirstHarness;

#[async_trait]
impl Harness for FirstHarness {
    fn manifest(&self) -> Manifest {
        let mut capabilities = Capabilities::NONE;
        capabilities.persistent = true;
        capabilities.owner_liveness = true;
        capabilities.search = true;
        Manifest {
            name: "memory", // what StoreInfo says, word for word
            capabilities,
            limits: Limits::default(),
            durability: Durability::D0,
            policies: Policies { clock: true },
        }
    }

    async fn provision(&self) -> Result<Site> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(Site::new(format!("first-{}-{count}", std::process::id())))
    }

    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        let options = with.clock.into_iter().fold(MemoryOptions::new(), MemoryOptions::clock);
        Ok(Arc::new(options.open(site.as_str())))
    }

    async fn destroy(&self, site: &Site) -> Result<()> {
        MemoryStore::destroy(site.as_str());
        Ok(())
    }
}

turnkeep_conformance::ordering_tests!(FirstHarness);
