//! The layer itself: it opens and removes files.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_vfs};
use turnkeep_conformance::disk::{Call, Disk, Failure, FileId, Names, WeakDisk};

use crate::file::{self, Recorded};
use crate::folder;

/// What the engine gets a pointer to, and what stands behind it.
pub(crate) struct Layer {
    /// What the engine sees.
    table: sqlite3_vfs,
    /// The engine's own layer.
    below: *mut sqlite3_vfs,
    disk: WeakDisk,
    names: Names,
    /// The table points to its text.
    _name: CString,
}

/// Files whose contents matter after a power loss.
const LASTING: c_int = ffi::SQLITE_OPEN_MAIN_DB
    | ffi::SQLITE_OPEN_MAIN_JOURNAL
    | ffi::SQLITE_OPEN_SUPER_JOURNAL
    | ffi::SQLITE_OPEN_WAL;

pub(crate) fn register(name: CString, disk: WeakDisk, names: Names) -> io::Result<()> {
    // SAFETY: a null name asks for the default layer; the answer is null or lives as long as the process.
    let below = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    if below.is_null() {
        return Err(io::Error::other("the engine has no file layer"));
    }
    // SAFETY: `below` is a registered layer.
    unsafe { folder::watch(below) };
    // SAFETY: `below` is a registered layer, and a table is plain data. What of it is kept below is what a layer passes
    // on without being asked: sizes, the version, and functions that take no layer.
    let mut table = unsafe { ptr::read(below) };
    table.iVersion = table.iVersion.min(2);
    table.szOsFile = file::size(table.szOsFile);
    table.pNext = ptr::null_mut();
    table.zName = name.as_ptr();
    table.xOpen = Some(open);
    table.xDelete = Some(delete);
    table.xAccess = Some(access);
    table.xFullPathname = Some(full_pathname);
    table.xDlOpen = None;
    table.xDlError = None;
    table.xDlSym = None;
    table.xDlClose = None;
    table.xRandomness = Some(randomness);
    table.xSleep = Some(sleep);
    table.xCurrentTime = Some(current_time);
    table.xGetLastError = Some(last_error);
    table.xCurrentTimeInt64 = Some(current_time_64);
    table.xSetSystemCall = None;
    table.xGetSystemCall = None;
    table.xNextSystemCall = None;
    let layer = Box::leak(Box::new(Layer { table, below, disk, names, _name: name }));
    layer.table.pAppData = ptr::from_mut(layer).cast();
    // SAFETY: the table is complete and, leaked, lives as long as the process.
    let registered = unsafe { ffi::sqlite3_vfs_register(&raw mut layer.table, 0) };
    if registered == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(io::Error::other("the engine takes no file layer"))
    }
}

/// The layer behind what the engine passes.
///
/// # Safety
/// `vfs` must be the table of a registered layer.
unsafe fn layer<'a>(vfs: *mut sqlite3_vfs) -> &'a Layer {
    // SAFETY: `register` put a pointer to the leaked layer there. Nothing changes a layer after that.
    unsafe { &*(*vfs).pAppData.cast::<Layer>() }
}

/// Calls a function of the layer below.
macro_rules! below {
    ($vfs:ident.$function:ident($($argument:expr),*), else $otherwise:expr) => {{
        // SAFETY: the engine calls with the table that was registered, and the layer below is registered too; the
        // arguments are passed on as they came.
        unsafe {
            let below = layer($vfs).below;
            match (*below).$function {
                Some(function) => function(below, $($argument),*),
                None => $otherwise,
            }
        }
    }};
}

impl Layer {
    /// The disk and the short name of a file, if the file is one that lasts.
    ///
    /// # Safety
    /// `name` must be null or a C string.
    unsafe fn lasting(&self, name: *const c_char) -> Result<Option<(Disk, String)>, c_int> {
        let Some(disk) = self.disk.upgrade() else { return Ok(None) };
        if name.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's word.
        let text = unsafe { CStr::from_ptr(name) };
        // A file that is not noted would be missing in every image.
        let text = text.to_str().map_err(|_| ffi::SQLITE_CANTOPEN)?;
        Ok(Some((disk, self.names.short(Path::new(text)))))
    }
}

/// What the engine is told when a call fails that has no code of its own.
pub(crate) fn code(failure: Failure, io: c_int) -> c_int {
    match failure {
        Failure::Full => ffi::SQLITE_FULL,
        Failure::Io | Failure::Abort => io,
    }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    /// Whether a file is there is asked and answered by one at a time.
    static OPENING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the engine gives room of the size that the table asks for.
    unsafe { file::prepare(file) };
    // SAFETY: the engine calls with the table that was registered, and a name is null or a C string.
    let lasting = if flags & LASTING == 0 { Ok(None) } else { unsafe { layer(vfs).lasting(name) } };
    let lasting = match lasting {
        Ok(lasting) => lasting,
        Err(code) => return code,
    };
    let open_below = || {
        // SAFETY: `prepare` was called on the file, so the room of the real one is where it should be.
        below!(vfs.xOpen(name, file::real(file), flags, out_flags), else ffi::SQLITE_CANTOPEN)
    };
    let Some((disk, short)) = lasting else {
        let opened = open_below();
        // SAFETY: as above.
        return unsafe { file::opened(file, None, opened) };
    };
    // SAFETY: `lasting` saw a C string.
    let path = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default();
    let made = if Path::new(path).exists() || flags & ffi::SQLITE_OPEN_CREATE == 0 {
        None
    } else {
        match disk.enter(Call::Create(&short)) {
            Ok(entered) => Some(entered),
            Err(failure) => return code(failure, ffi::SQLITE_CANTOPEN),
        }
    };
    let opened = open_below();
    let id: Option<FileId> = match (opened == ffi::SQLITE_OK, made) {
        (false, _not_made) => None,
        (true, Some(entered)) => entered.done(),
        // SAFETY: the layer below has just opened the real file.
        (true, None) => disk.file(&short, || unsafe { file::contents(file) }).ok(),
    };
    let recorded = id.map(|id| Recorded { disk, id, name: short });
    let opened = if opened == ffi::SQLITE_OK && recorded.is_none() { ffi::SQLITE_IOERR_READ } else { opened };
    // SAFETY: as above.
    unsafe { file::opened(file, recorded, opened) }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: the engine calls with the table that was registered and a C string.
    let lasting = unsafe { layer(vfs).lasting(name) };
    let delete_below = || below!(vfs.xDelete(name, sync_folder), else ffi::SQLITE_IOERR_DELETE);
    let (disk, short) = match lasting {
        Ok(Some(lasting)) => lasting,
        Ok(None) => return delete_below(),
        Err(code) => return code,
    };
    let entered = match disk.enter(Call::Remove(&short)) {
        Ok(entered) => entered,
        Err(failure) => return code(failure, ffi::SQLITE_IOERR_DELETE),
    };
    let (deleted, synced) = folder::watched(delete_below);
    if deleted == ffi::SQLITE_OK {
        entered.done();
        if synced {
            folder::note(&disk, &short);
        }
    }
    deleted
}

unsafe extern "C" fn access(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    below!(vfs.xAccess(name, flags, out), else ffi::SQLITE_IOERR_ACCESS)
}

unsafe extern "C" fn full_pathname(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    below!(vfs.xFullPathname(name, room, out), else ffi::SQLITE_CANTOPEN)
}

unsafe extern "C" fn randomness(vfs: *mut sqlite3_vfs, bytes: c_int, out: *mut c_char) -> c_int {
    below!(vfs.xRandomness(bytes, out), else 0)
}

unsafe extern "C" fn sleep(vfs: *mut sqlite3_vfs, microseconds: c_int) -> c_int {
    below!(vfs.xSleep(microseconds), else 0)
}

unsafe extern "C" fn current_time(vfs: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    below!(vfs.xCurrentTime(out), else ffi::SQLITE_ERROR)
}

unsafe extern "C" fn current_time_64(vfs: *mut sqlite3_vfs, out: *mut sqlite3_int64) -> c_int {
    below!(vfs.xCurrentTimeInt64(out), else ffi::SQLITE_ERROR)
}

unsafe extern "C" fn last_error(vfs: *mut sqlite3_vfs, room: c_int, out: *mut c_char) -> c_int {
    below!(vfs.xGetLastError(room, out), else 0)
}
