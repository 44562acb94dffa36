//! redb: each site is the path of a store in a folder of its own.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, LazyLock, Weak};

use ::redb::{ReadableTable, TableDefinition};
use async_trait::async_trait;
use tokio::sync::Mutex;
use turnkeep_conformance::disk::{Disk, Image};
use turnkeep_conformance::{Damage, Fixture, Harness, Manifest, OpenWith, Policies, Site, TableCount};
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::limits::Limits;
use turnkeep_core::{Capabilities, Durability, ErrorKind, Result, Store};
use turnkeep_redb::{RedbOptions, RedbStore};

use crate::folder::{self, failed, path, truncate};
use crate::golden;
use crate::medium::on_disk;

const FILE: &str = "state.redb";

/// Stores in redb files, opened as a host opens them.
#[derive(Debug, Default)]
pub struct RedbHarness;

type Opened = HashMap<Site, Vec<Weak<RedbStore>>>;

/// Where a process has a site open already, a further client is a handle on that: so a host does it too.
static OPENED: LazyLock<Mutex<Opened>> = LazyLock::new(Mutex::default);

fn options(site: &Site, with: OpenWith) -> RedbOptions {
    let options = RedbOptions::new(path(site));
    match with.clock {
        Some(clock) => options.clock(clock),
        None => options,
    }
}

impl RedbHarness {
    /// Opens a site with options of the caller's: a further client, or the first one. For tests of false claims.
    ///
    /// # Errors
    /// What the backend answers.
    #[doc(hidden)]
    pub async fn open_as(&self, site: &Site, options: RedbOptions) -> Result<Arc<dyn Store>> {
        open(site, options).await
    }
}

/// A further client, or the first one.
async fn open(site: &Site, options: RedbOptions) -> Result<Arc<dyn Store>> {
    let mut opened = OPENED.lock().await;
    let here = opened.entry(site.clone()).or_default();
    here.retain(|store| store.strong_count() > 0);
    for store in here.iter().filter_map(Weak::upgrade) {
        match store.handle() {
            Ok(handle) => {
                let handle = Arc::new(handle);
                here.push(Arc::downgrade(&handle));
                return Ok(handle);
            }
            Err(error) if error.kind() == ErrorKind::Closed => {}
            Err(error) => return Err(error),
        }
    }
    let store = Arc::new(options.open().await?);
    here.push(Arc::downgrade(&store));
    Ok(store)
}

fn raise_format(site: &Site) -> std::result::Result<(), ::redb::Error> {
    const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
    let engine = ::redb::Database::open(path(site))?;
    let transaction = engine.begin_write()?;
    {
        let mut meta = transaction.open_table(META)?;
        let format: u32 = meta.get("format")?.map_or(0, |format| format.value().parse().unwrap_or(0));
        meta.insert("format", (format + 1).to_string().as_str())?;
    }
    transaction.commit()?;
    Ok(())
}

/// Turns over a byte in every page that is not empty, but for those before the first quarter of them.
fn flip(path: &Path) -> std::io::Result<()> {
    const PAGE: u64 = 4096;
    let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
    let mut used = Vec::new();
    let mut bytes = [0; PAGE as usize];
    for page in 0..file.metadata()?.len() / PAGE {
        file.read_exact_at(&mut bytes, page * PAGE)?;
        if bytes.iter().any(|byte| *byte != 0) {
            used.push(page);
        }
    }
    for page in &used[used.len() / 4..] {
        let at = page * PAGE + 70;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&[byte[0] ^ 0xFF], at)?;
    }
    file.sync_all()
}

#[async_trait]
impl Harness for RedbHarness {
    fn manifest(&self) -> Manifest {
        let mut capabilities = Capabilities::NONE;
        capabilities.search = true;
        capabilities.persistent = true;
        capabilities.owner_liveness = true;
        capabilities.backup = true;
        capabilities.compact = true;
        Manifest {
            name: "redb",
            capabilities,
            limits: Limits::default(),
            durability: Durability::D3,
            policies: Policies { clock: true },
        }
    }

    async fn provision(&self) -> Result<Site> {
        folder::provision(FILE)
    }

    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        open(site, options(site, with)).await
    }

    async fn open_on(&self, site: &Site, disk: &Disk, with: OpenWith) -> Result<Option<Arc<dyn Store>>> {
        open(site, on_disk(options(site, with), site, disk)).await.map(Some)
    }

    async fn lay_out(&self, image: &Image) -> Result<Option<Site>> {
        folder::lay_out(image, FILE).map(Some)
    }

    async fn destroy(&self, site: &Site) -> Result<()> {
        OPENED.lock().await.remove(site);
        folder::destroy(site, FILE)
    }

    /// Asked while the store is open, so the open store counts; a whole scan of each table would say the same.
    async fn residue(&self, site: &Site) -> Result<Option<Vec<TableCount>>> {
        let open = OPENED.lock().await;
        let store = open.get(site).and_then(|stores| stores.iter().find_map(Weak::upgrade));
        let Some(store) = store else { return Ok(None) };
        let rows = store.table_rows().await?;
        let count = |(table, rows): (&str, u64)| TableCount { table: table.to_owned(), rows };
        Ok(Some(rows.into_iter().map(count).collect()))
    }

    async fn damage(&self, site: &Site, damage: Damage) -> Result<bool> {
        match damage {
            Damage::Truncate => truncate(&path(site)).map_err(|error| failed("cut the file", error))?,
            Damage::FlipBits => flip(&path(site)).map_err(|error| failed("turn bits over", error))?,
            Damage::NewerFormat => raise_format(site).map_err(|error| failed("raise the format", error))?,
        }
        Ok(true)
    }

    async fn image(&self, site: &Site) -> Result<Option<[u8; 32]>> {
        let bytes = fs::read(path(site)).map_err(|error| failed("read the file", error))?;
        Ok(Some(FieldDigest::new("redb-image/1").bytes(&bytes).finish()))
    }

    async fn fixtures(&self) -> Result<Option<Vec<Fixture>>> {
        let (bytes, lines) = (
            &golden::unfold(include_bytes!("../golden/redb-1.bytes")),
            include_str!("../golden/redb-1.jsonl"),
        );
        Ok(Some(vec![golden::lay_out(FILE, 1, bytes, lines)?]))
    }
}
