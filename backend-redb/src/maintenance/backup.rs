//! A copy of one moment, whole or not there at all.

use std::path::Path;

use redb::{Durability, ReadTransaction, ReadableTable, ReadableTableMetadata};
use turnkeep_core::local::{backup, place};
use turnkeep_core::{Error, ErrorKind, Result};

use crate::error;
use crate::medium::Disk;
use crate::open::{fill, reads_well};
use crate::options::Media;
use crate::tables::{self, META, Table};

/// Bytes that one transaction of the copy writes: bounds the memory that it takes.
const STEP_BYTES: usize = 16 * 1024 * 1024;

pub(super) fn backup(from: &ReadTransaction, media: &Media, to: &Path) -> Result<()> {
    place::tidy(to);
    backup::make(&media.files, to, |unfinished| copy(from, media, unfinished))
}

fn copy(from: &ReadTransaction, media: &Media, path: &Path) -> Result<()> {
    let file =
        media.files.create(path).map_err(|error| Error::io("cannot create the backup", path, error))?;
    // Says to a tidying neighbour that somebody is at it. Without locks there is no tidying either.
    let _ = file.try_lock();
    let clone = file.try_clone().map_err(|error| Error::io("cannot open the backup", path, error))?;
    let disk = Disk::new(media.of(path, clone));
    let mut builder = redb::Builder::new();
    let engine = builder.set_cache_size(2 * STEP_BYTES).create_with_backend(disk).map_err(error::database)?;
    fill(&engine)?;
    copy_meta(from, &engine)?;
    for table in tables::ALL {
        copy_table(from, &engine, table)?;
    }
    seal(&engine)?;
    engine.close().map_err(error::database)?;
    media.files.sync(&file, path).map_err(|error| Error::io("cannot sync the backup", path, error))?;
    // A copy that cannot be read is no backup.
    reads_well(&file, path, |_| Ok(()))
}

fn begin(engine: &redb::Database, durability: Durability) -> Result<redb::WriteTransaction> {
    let mut transaction = engine.begin_write().map_err(error::transaction)?;
    transaction.set_durability(durability).map_err(|error| {
        Error::new(ErrorKind::Io, "the engine cannot make commits durable").with_source(error)
    })?;
    Ok(transaction)
}

fn end(transaction: redb::WriteTransaction) -> Result<()> {
    transaction.commit().map_err(error::commit)
}

fn copy_meta(from: &ReadTransaction, engine: &redb::Database) -> Result<()> {
    let transaction = begin(engine, Durability::None)?;
    {
        let mut meta = transaction.open_table(META).map_err(error::table)?;
        for row in from.open_table(META).map_err(error::table)?.iter().map_err(error::storage)? {
            let (name, value) = row.map_err(error::storage)?;
            meta.insert(name.value(), value.value()).map_err(error::storage)?;
        }
    }
    end(transaction)
}

fn copy_table(from: &ReadTransaction, engine: &redb::Database, table: Table) -> Result<()> {
    let source = from.open_table(table.definition()).map_err(error::table)?;
    let mut rows = source.iter().map_err(error::storage)?;
    let (mut copied, mut more) = (0_u64, true);
    while more {
        let transaction = begin(engine, Durability::None)?;
        {
            let mut to = transaction.open_table(table.definition()).map_err(error::table)?;
            let mut bytes = 0;
            while bytes < STEP_BYTES {
                let Some(row) = rows.next() else {
                    more = false;
                    break;
                };
                let (key, value) = row.map_err(error::storage)?;
                // A row that is damaged is damage of the store, and no backup hides it.
                crate::codec::unseal(table, key.value(), value.value())?;
                bytes += key.value().len() + value.value().len();
                to.insert(key.value(), value.value()).map_err(error::storage)?;
                copied += 1;
            }
        }
        end(transaction)?;
    }
    if copied == source.len().map_err(error::storage)? {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Corrupt, "a table has other rows than it counts, so the store may be damaged")
        .with("table", table.0))
}

/// Makes everything durable, with the record that makes the copy quick to open.
fn seal(engine: &redb::Database) -> Result<()> {
    let mut transaction = begin(engine, Durability::Immediate)?;
    transaction.set_quick_repair(true);
    end(transaction)
}
