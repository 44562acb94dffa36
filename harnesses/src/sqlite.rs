//! SQLite: each site is the path of a database in a folder of its own.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags};
use turnkeep_conformance::disk::{Disk, Image, Names};
use turnkeep_conformance::{Damage, Fixture, Harness, Manifest, OpenWith, Policies, Site, TableCount};
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::limits::Limits;
use turnkeep_core::{Capabilities, Durability, Result, Store};
use turnkeep_sqlite::SqliteOptions;

use crate::folder::{self, failed, path, truncate};
use crate::golden;

const FILE: &str = "state.sqlite3";

/// Stores in SQLite databases, opened as a host opens them.
#[derive(Debug, Default)]
pub struct SqliteHarness;

fn options(site: &Site, with: OpenWith) -> SqliteOptions {
    let options = SqliteOptions::new(path(site));
    match with.clock {
        Some(clock) => options.clock(clock),
        None => options,
    }
}

/// Puts a disk under the engine.
///
/// # Errors
/// When the engine takes no file layer.
pub(crate) fn on_disk(options: SqliteOptions, site: &Site, disk: &Disk) -> Result<SqliteOptions> {
    let path = path(site);
    let vfs = turnkeep_test_vfs::register(disk, &path);
    Ok(options
        .files(disk.watching(&Names::of(&path)))
        .vfs(vfs.map_err(|error| failed("register a file layer", error))?))
}

/// A connection that bypasses the store.
fn connect(site: &Site, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path(site), flags)?;
    conn.busy_timeout(std::time::Duration::from_secs(10))?;
    Ok(conn)
}

fn count_rows(site: &Site) -> rusqlite::Result<Vec<TableCount>> {
    let conn = connect(site, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut statement = conn.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
         AND name NOT LIKE 'search%' AND name <> 'indexed' ORDER BY name",
    )?;
    let tables: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let count = |table: String| {
        let rows: i64 = conn.query_row(&format!("SELECT count(*) FROM \"{table}\""), [], |row| row.get(0))?;
        Ok(TableCount { table, rows: u64::try_from(rows).unwrap_or(0) })
    };
    let mut counts = tables.into_iter().map(count).collect::<rusqlite::Result<Vec<_>>>()?;
    for (what, text) in LEFT_IN_THE_INDEX {
        let rows: i64 = conn.query_row(text, [], |row| row.get(0))?;
        counts.push(TableCount { table: (*what).to_owned(), rows: u64::try_from(rows).unwrap_or(0) });
    }
    Ok(counts)
}

/// The index for searches grows by itself while nobody commits, so only what it should have lost is counted.
const LEFT_IN_THE_INDEX: &[(&str, &str)] = &[
    (
        "search, of entries that are gone",
        "SELECT count(*) FROM search_docsize d WHERE NOT EXISTS (SELECT 1 FROM entries e WHERE e.rid = d.id)",
    ),
    (
        "indexed, of sessions that are gone",
        "SELECT count(*) FROM indexed i WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.skey = i.skey)",
    ),
];

/// Brings everything into the one file, so that damage to it is damage to the store.
fn settle(site: &Site) -> rusqlite::Result<()> {
    let conn = connect(site, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn raise_format(site: &Site) -> rusqlite::Result<()> {
    let conn = connect(site, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let version: i32 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    conn.pragma_update(None, "user_version", version + 1)
}

/// Turns over the type of every page in the middle third of the file.
fn flip(path: &Path) -> std::io::Result<()> {
    const PAGE_SIZE_AT: u64 = 16;
    let mut file = fs::OpenOptions::new().read(true).write(true).open(path)?;
    let mut size = [0; 2];
    file.seek(SeekFrom::Start(PAGE_SIZE_AT))?;
    file.read_exact(&mut size)?;
    let size = u64::from(u16::from_be_bytes(size)).max(512);
    let pages = file.metadata()?.len() / size;
    for page in pages / 3..pages * 2 / 3 {
        let mut kind = [0];
        file.seek(SeekFrom::Start(page * size))?;
        file.read_exact(&mut kind)?;
        file.seek(SeekFrom::Start(page * size))?;
        file.write_all(&[kind[0] ^ 0xFF])?;
    }
    file.sync_all()
}

#[async_trait]
impl Harness for SqliteHarness {
    fn manifest(&self) -> Manifest {
        let mut capabilities = Capabilities::NONE;
        capabilities.search = true;
        capabilities.multi_process = true;
        capabilities.persistent = true;
        capabilities.owner_liveness = true;
        capabilities.backup = true;
        capabilities.compact = true;
        Manifest {
            name: "sqlite",
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
        Ok(Arc::new(options(site, with).open().await?))
    }

    async fn open_on(&self, site: &Site, disk: &Disk, with: OpenWith) -> Result<Option<Arc<dyn Store>>> {
        Ok(Some(Arc::new(on_disk(options(site, with), site, disk)?.open().await?)))
    }

    async fn lay_out(&self, image: &Image) -> Result<Option<Site>> {
        folder::lay_out(image, FILE).map(Some)
    }

    async fn destroy(&self, site: &Site) -> Result<()> {
        folder::destroy(site, FILE)
    }

    async fn residue(&self, site: &Site) -> Result<Option<Vec<TableCount>>> {
        count_rows(site).map(Some).map_err(|error| failed("count rows", error))
    }

    async fn damage(&self, site: &Site, damage: Damage) -> Result<bool> {
        settle(site).map_err(|error| failed("settle the file", error))?;
        match damage {
            Damage::Truncate => truncate(&path(site)).map_err(|error| failed("cut the file", error))?,
            Damage::FlipBits => flip(&path(site)).map_err(|error| failed("turn bits over", error))?,
            Damage::NewerFormat => raise_format(site).map_err(|error| failed("raise the format", error))?,
        }
        Ok(true)
    }

    /// The database and its log; the shared memory and the lock files hold no data.
    async fn image(&self, site: &Site) -> Result<Option<[u8; 32]>> {
        let mut digest = FieldDigest::new("sqlite-image/1");
        for suffix in ["", "-wal", "-journal"] {
            let bytes = fs::read(format!("{site}{suffix}"));
            digest = match bytes {
                Ok(bytes) => digest.bytes(&bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => digest.bytes(&[]),
                Err(error) => return Err(failed("read the files", error)),
            };
        }
        Ok(Some(digest.finish()))
    }

    async fn fixtures(&self) -> Result<Option<Vec<Fixture>>> {
        let first: (&[u8], &str) =
            (include_bytes!("../golden/sqlite-1.bytes"), include_str!("../golden/sqlite-1.jsonl"));
        let second: (&[u8], &str) =
            (include_bytes!("../golden/sqlite-2.bytes"), include_str!("../golden/sqlite-2.jsonl"));
        let stores = [(1, first), (2, second)];
        stores
            .into_iter()
            .map(|(format, (bytes, lines))| golden::lay_out(FILE, format, bytes, lines))
            .collect::<Result<_>>()
            .map(Some)
    }
}
