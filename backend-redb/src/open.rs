//! Opening a store, step by step. Nothing of a file that is not accepted is changed.

use std::path::Path;
use std::sync::Arc;

use redb::{Durability, ReadableDatabase};
use turnkeep_core::local::{CommitterOptions, GroupCommitter, Readers, place, random_owner};
use turnkeep_core::{Capabilities, Durability as Promise, Error, ErrorKind, OwnerId, Result, StoreInfo};

use crate::database::Database;
use crate::error::{self, contained};
use crate::files::{self, Locked};
use crate::medium::{Disk, FileMedium, Look, Syncs};
use crate::options::{Media, RedbOptions};
use crate::probe;
use crate::read::{newest_activity, read_workspace};
use crate::source::{Source, Span, Toward};
use crate::store::RedbStore;
use crate::tables::{self, FORMAT, META};
use crate::write::Writer;

/// The version of the engine, for people.
const ENGINE: &str = "redb 4.6";

pub(crate) fn open(options: RedbOptions) -> Result<RedbStore> {
    open_steps(options).map_err(|error| error.with_operation("open"))
}

fn open_steps(options: RedbOptions) -> Result<RedbStore> {
    let path = place::locate(&options.path)?;
    if files::is_absent(&path)? {
        create(&path, &options.media)?;
    }
    let owner = random_owner()?;
    let locked = Arc::new(Locked::take(&path, owner, options.busy_timeout)?);
    let opened = open_locked(options, &locked, owner);
    if opened.is_err() {
        locked.release();
    }
    opened
}

fn open_locked(options: RedbOptions, locked: &Arc<Locked>, owner: OwnerId) -> Result<RedbStore> {
    let found = probe::look(&locked.file, &locked.path, options.damaged)?;
    let (syncs, quick_repair) = (Arc::new(Syncs::new(options.damaged)), options.quick_repair);
    let open = {
        let (options, locked, syncs) = (options.clone(), Arc::clone(locked), Arc::clone(&syncs));
        Box::new(move || open_engine(&options, &locked, &syncs))
    };
    let database = Database::open(open, Arc::clone(locked), quick_repair, syncs, options.media.clone())
        .map_err(|error| error.with("path", locked.path.display()))?;
    let database = Arc::new(database);
    if found == probe::Found::NeedsRepair {
        database.with(probe::identify)?;
    }
    let last_activity = database.read(last_activity)?;
    let owners = locked.gate.owners.clone();
    let writer = Writer::new(Arc::clone(&database), options.clock.clone(), owners, last_activity);
    let mut settings = CommitterOptions::new("turnkeep-write");
    settings.busy = options.busy_timeout;
    settings.group = options.group;
    settings.limits = options.limits.clone();
    let committer = GroupCommitter::start(writer, settings)?;
    let readers = Readers::start(vec![Arc::clone(&database); options.readers])?;
    Ok(RedbStore::new(info(&options, &locked.path, owner), committer, readers, database, options.clock))
}

fn open_engine(options: &RedbOptions, locked: &Arc<Locked>, syncs: &Arc<Syncs>) -> Result<redb::Database> {
    let file = locked
        .file
        .try_clone()
        .map_err(|error| Error::io("cannot open the file of the store", &locked.path, error))?;
    let mut builder = redb::Builder::new();
    builder.set_cache_size(options.cache_bytes);
    if let Some(progress) = options.progress.clone() {
        builder.set_repair_callback(move |session| progress(session.progress()));
    }
    let medium = options.media.of(&locked.path, file);
    if options.damaged {
        // What the engine mends when it opens a file would go over what is to be saved.
        let look = Look::new(Arc::from(medium));
        let look =
            look.map_err(|error| Error::io("cannot read the file of the store", &locked.path, error))?;
        return builder.create_with_backend(look).map_err(error::database);
    }
    // The lock is given back by whoever knows that all is over: the database, or the opening that failed.
    let disk = Disk::counted(medium, Arc::clone(syncs));
    builder.create_with_backend(disk).map_err(error::database)
}

/// Makes a store whole under another name and gives it its own then, so that no kill leaves half of one.
fn create(path: &Path, media: &Media) -> Result<()> {
    place::tidy(path);
    // Whoever was first has made it: it is opened like any other.
    place::make_whole(&media.files, path, |unfinished| make(unfinished, media)).map(drop)
}

fn make(path: &Path, media: &Media) -> Result<()> {
    let file = media
        .files
        .create(path)
        .map_err(|error| Error::io("cannot create the file of the store", path, error))?;
    // Says to a tidying neighbour that somebody is at it.
    file.try_lock().map_err(|_| {
        Error::new(ErrorKind::Io, "the file system has no file locks, which a redb store stands on")
            .with("path", path.display())
    })?;
    let clone =
        file.try_clone().map_err(|error| Error::io("cannot create the file of the store", path, error))?;
    let disk = Disk::new(media.of(path, clone));
    contained(|| {
        let engine = redb::Builder::new().create_with_backend(disk).map_err(error::database)?;
        fill(&engine)?;
        engine.close().map_err(error::database)
    })?;
    media
        .files
        .sync(&file, path)
        .map_err(|error| Error::io("cannot sync the file of the store", path, error))?;
    let _ = file.unlock();
    Ok(())
}

/// Makes every table of an empty database.
pub(crate) fn fill(engine: &redb::Database) -> Result<()> {
    let mut transaction = engine.begin_write().map_err(error::transaction)?;
    transaction.set_durability(Durability::Immediate).map_err(|error| {
        Error::new(ErrorKind::Io, "the engine cannot make commits durable").with_source(error)
    })?;
    transaction.set_quick_repair(true);
    {
        let mut meta = transaction.open_table(META).map_err(error::table)?;
        let about = "turnkeep store; the README of turnkeep-redb explains it";
        let created_with = concat!("turnkeep-redb ", env!("CARGO_PKG_VERSION"));
        let format = FORMAT.to_string();
        for (name, value) in [("about", about), ("created_with", created_with), ("format", &format)] {
            meta.insert(name, value).map_err(error::storage)?;
        }
    }
    for table in tables::ALL {
        transaction.open_table(table.definition()).map_err(error::table)?;
    }
    transaction.commit().map_err(error::commit)
}

/// The highest activity number ever given or restored.
fn last_activity(source: &dyn Source) -> Result<u64> {
    let mut last = 0;
    source.scan(tables::WORKSPACES, &Span::all(), Toward::Higher, &mut |_, body| {
        let row = read_workspace(body)?;
        last = last.max(row.mark).max(newest_activity(source, row.wkey)?);
        Ok(true)
    })?;
    Ok(last)
}

fn info(options: &RedbOptions, path: &Path, owner: OwnerId) -> StoreInfo {
    let mut info = StoreInfo::new("redb", env!("CARGO_PKG_VERSION"), Promise::D3, owner);
    info.engine = ENGINE.to_owned();
    info.location = path.display().to_string();
    info.format = FORMAT;
    info.limits = options.limits.clone();
    let mut capabilities = Capabilities::NONE;
    capabilities.search = true;
    capabilities.persistent = true;
    capabilities.owner_liveness = true;
    capabilities.backup = true;
    capabilities.compact = true;
    info.capabilities = capabilities;
    info
}

/// Opens a copy that was just made, to see that it is a whole store; `more` may look further. Nothing
/// else can have it yet.
pub(crate) fn reads_well<T>(
    file: &std::fs::File,
    path: &Path,
    more: impl FnOnce(&redb::ReadTransaction) -> Result<T>,
) -> Result<T> {
    probe::look(file, path, false)?;
    probe::check_pages(file, path)?;
    let clone = file.try_clone().map_err(|error| Error::io("cannot read the copy", path, error))?;
    let look = Look::new(Arc::new(FileMedium(clone)))
        .map_err(|error| Error::io("cannot read the copy", path, error))?;
    contained(|| {
        let engine = redb::Builder::new().create_with_backend(look).map_err(error::database)?;
        let snapshot = engine.begin_read().map_err(error::transaction)?;
        last_activity(&snapshot)?;
        more(&snapshot)
    })
}
