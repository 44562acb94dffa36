//! All that the conformance suite has to know of a backend.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Weak};

use async_trait::async_trait;
use tokio::sync::Mutex;
use turnkeep_conformance::disk::{Disk, Image, MAIN};
use turnkeep_conformance::{Damage, Fixture, Harness, Manifest, OpenWith, Policies, Site, TableCount};
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::limits::Limits;
use turnkeep_core::{Capabilities, Durability, Error, ErrorKind, Result, Store};
use turnkeep_toy::{ToyOptions, ToyStore};

use crate::disk::OnDisk;

/// Each site is the path of a log in a folder of its own.
#[derive(Debug, Default)]
pub(crate) struct ToyHarness;

/// Where a process has a site open already, a further client is a handle on that: so a host does it too.
static OPENED: LazyLock<Mutex<HashMap<Site, Vec<Weak<ToyStore>>>>> = LazyLock::new(Mutex::default);

fn failed(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "the harness failed").with_source(error)
}

fn path(site: &Site) -> PathBuf {
    PathBuf::from(site.as_str())
}

fn prefixed() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("toy-");
    builder
}

fn site(folder: std::io::Result<tempfile::TempDir>) -> Result<Site> {
    let folder = folder.map_err(failed)?.keep();
    Ok(Site::new(folder.join("log").display().to_string()))
}

fn options(site: &Site, with: OpenWith) -> ToyOptions {
    with.clock.into_iter().fold(ToyOptions::new(path(site)), ToyOptions::clock)
}

async fn open(site: &Site, options: ToyOptions) -> Result<Arc<dyn Store>> {
    let mut opened = OPENED.lock().await;
    let here = opened.entry(site.clone()).or_default();
    let another = here.iter().filter_map(Weak::upgrade).find_map(|store| store.handle().ok());
    let store = match another {
        Some(store) => store,
        None => options.open().await?,
    };
    let store = Arc::new(store);
    here.retain(|store| store.strong_count() > 0);
    here.push(Arc::downgrade(&store));
    Ok(store)
}

#[async_trait]
impl Harness for ToyHarness {
    fn manifest(&self) -> Manifest {
        let mut capabilities = Capabilities::NONE;
        capabilities.persistent = true;
        capabilities.owner_liveness = true;
        capabilities.compact = true;
        Manifest {
            name: "toy",
            capabilities,
            limits: Limits::default(),
            durability: Durability::D3,
            policies: Policies { clock: true },
        }
    }

    async fn provision(&self) -> Result<Site> {
        site(prefixed().tempdir())
    }

    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        open(site, options(site, with)).await
    }

    async fn open_on(&self, site: &Site, disk: &Disk, with: OpenWith) -> Result<Option<Arc<dyn Store>>> {
        let options = options(site, with).medium(Arc::new(OnDisk::new(&path(site), disk)));
        open(site, options).await.map(Some)
    }

    /// In memory, where there is such a place: nothing is proved by syncing what is thrown away a moment later.
    async fn lay_out(&self, image: &Image) -> Result<Option<Site>> {
        let site = site(prefixed().tempdir_in("/dev/shm").or_else(|_| prefixed().tempdir()))?;
        for (name, bytes) in &image.files {
            if let Some(rest) = name.strip_prefix(MAIN) {
                fs::write(format!("{site}{rest}"), bytes).map_err(failed)?;
            }
        }
        Ok(Some(site))
    }

    async fn destroy(&self, site: &Site) -> Result<()> {
        OPENED.lock().await.remove(site);
        let folder = path(site).parent().map(fs::remove_dir_all);
        folder.unwrap_or(Ok(())).map_err(failed)
    }

    /// The rows are in memory, so an open store has to count them.
    async fn residue(&self, site: &Site) -> Result<Option<Vec<TableCount>>> {
        let opened = OPENED.lock().await;
        let store = opened.get(site).and_then(|stores| stores.iter().find_map(Weak::upgrade));
        let Some(store) = store else { return Ok(None) };
        let count = |(table, rows): (&str, u64)| TableCount { table: table.to_owned(), rows };
        Ok(Some(store.table_rows().await?.into_iter().map(count).collect()))
    }

    async fn damage(&self, site: &Site, damage: Damage) -> Result<bool> {
        let mut bytes = fs::read(path(site)).map_err(failed)?;
        let length = bytes.len();
        match damage {
            Damage::Truncate => bytes.truncate(length * 6 / 10),
            Damage::FlipBits => bytes[length / 2] ^= 0xFF,
            Damage::NewerFormat => {
                let head = String::from_utf8_lossy(&bytes[..512]).replace("format 2", "format 3");
                bytes.splice(..512, head.into_bytes());
            }
        }
        fs::write(path(site), bytes).map_err(failed)?;
        Ok(true)
    }

    async fn image(&self, site: &Site) -> Result<Option<[u8; 32]>> {
        let bytes = fs::read(path(site)).map_err(failed)?;
        Ok(Some(FieldDigest::new("toy-image").bytes(&bytes).finish()))
    }

    /// The log of format 2 was written once by the test in `golden`; that of format 1 holds the same.
    async fn fixtures(&self) -> Result<Option<Vec<Fixture>>> {
        let logs = [(1, include_str!("../golden/format-1.log")), (2, include_str!("../golden/format-2.log"))];
        let mut laid = Vec::new();
        for (format, log) in logs {
            let site = self.provision().await?;
            fs::write(path(&site), log).map_err(failed)?;
            let lines = include_str!("../golden/rows.jsonl").lines().map(str::to_owned).collect();
            laid.push(Fixture { format, site, lines });
        }
        Ok(Some(laid))
    }
}
