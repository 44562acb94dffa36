//! You write a backend: this one forgets which requests it has seen, and the suite says which promise that breaks. A whole
//! backend that keeps them all is `examples/backend-toy`.
//!
//! ```text
//! cargo run -p turnkeep-examples --bin backend-author -- --only IDM-001   # broken, and how to see it again
//! cargo run -p turnkeep-examples --bin backend-author -- --only ORD-001   # kept
//! cargo run -p turnkeep-examples --bin backend-author -- explain IDM-001  # why it matters
//! ```

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use turnkeep::core::commit::{Commit, Receipt};
use turnkeep::core::{Layer, Result, Store, StoreInfo};
use turnkeep_conformance::{Harness, Manifest, OpenWith, Site, TableCount};
use turnkeep_harnesses::MemoryHarness;

/// A store that is sound but for one thing.
#[derive(Debug)]
struct Forgetful(Arc<dyn Store>, StoreInfo);

#[async_trait]
impl Layer for Forgetful {
    fn behind(&self) -> &dyn Store {
        &*self.0
    }

    fn info(&self) -> &StoreInfo {
        &self.1
    }

    async fn commit(&self, mut commit: Commit) -> Result<Receipt> {
        commit.request = None; // the fault
        self.0.commit(commit).await
    }
}

/// What the suite has to know: what the store claims, and how to make, open and remove one.
#[derive(Debug, Default)]
struct ForgetfulHarness(MemoryHarness);

#[async_trait]
impl Harness for ForgetfulHarness {
    fn manifest(&self) -> Manifest {
        Manifest { name: "forgetful", ..self.0.manifest() }
    }
    async fn provision(&self) -> Result<Site> {
        self.0.provision().await
    }
    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        let store = self.0.open(site, with).await?;
        let mut info = store.info().clone();
        info.name = self.manifest().name;
        Ok(Arc::new(Forgetful(store, info)))
    }
    async fn destroy(&self, site: &Site) -> Result<()> {
        self.0.destroy(site).await
    }
    async fn residue(&self, site: &Site) -> Result<Option<Vec<TableCount>>> {
        self.0.residue(site).await
    }
}

fn main() -> ExitCode {
    turnkeep_conformance::program::main::<ForgetfulHarness>()
}
