//! An open file: ours in front, and in the same memory behind it that of the layer below.

use std::ffi::{c_int, c_void};
use std::{io, ptr, slice};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods};
use turnkeep_conformance::disk::{Call, Disk, FileId, Flush};

use crate::folder;
use crate::layer::code;

/// A file that the disk is told about.
pub(crate) struct Recorded {
    pub(crate) disk: Disk,
    pub(crate) id: FileId,
    pub(crate) name: String,
}

/// What the engine sees; the file of the layer below begins where this ends.
#[repr(C)]
struct Front {
    base: sqlite3_file,
    recorded: Option<Box<Recorded>>,
}

/// How much room a file takes, given how much it takes in the layer below.
pub(crate) fn size(below: c_int) -> c_int {
    let front = c_int::try_from(size_of::<Front>()).unwrap_or(c_int::MAX);
    front.saturating_add(below)
}

/// Makes a file that is not open out of raw room.
///
/// # Safety
/// There must be room of [`size`].
pub(crate) unsafe fn prepare(file: *mut sqlite3_file) {
    let front = Front { base: sqlite3_file { pMethods: ptr::null() }, recorded: None };
    // SAFETY: the caller's word; the engine aligns it for pointers.
    unsafe { ptr::write(file.cast::<Front>(), front) };
}

/// The file of the layer below.
pub(crate) fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    file.wrapping_byte_add(size_of::<Front>())
}

/// Puts in order what an open answered.
///
/// # Safety
/// `prepare` must have been called, and the layer below must have answered `opened`.
pub(crate) unsafe fn opened(file: *mut sqlite3_file, recorded: Option<Recorded>, opened: c_int) -> c_int {
    if opened == ffi::SQLITE_OK {
        // SAFETY: the caller's word.
        unsafe {
            (*file.cast::<Front>()).recorded = recorded.map(Box::new);
            (*file).pMethods = &raw const METHODS;
        }
    }
    opened
}

/// Calls a method of the file of the layer below.
macro_rules! below {
    ($file:ident.$method:ident($($argument:expr),*), else $otherwise:expr) => {{
        // SAFETY: the engine calls with a file that `open` made, so the real one is behind it and open; the arguments
        // are passed on as they came.
        unsafe {
            let real = real($file);
            match (*(*real).pMethods).$method {
                Some(method) => method(real, $($argument),*),
                None => $otherwise,
            }
        }
    }};
}

/// What the disk knows of a file.
///
/// # Safety
/// `file` must be one that `open` made.
unsafe fn recorded<'a>(file: *mut sqlite3_file) -> Option<&'a Recorded> {
    // SAFETY: the caller's word; it changes only when the file is closed, and then the engine calls nothing else.
    unsafe { (*file.cast::<Front>()).recorded.as_deref() }
}

/// All bytes of a file that was just opened below.
///
/// # Safety
/// The file of the layer below must be open.
pub(crate) unsafe fn contents(file: *mut sqlite3_file) -> io::Result<Vec<u8>> {
    let failed = || io::Error::other("the file layer cannot read a file that it opened");
    let mut len: sqlite3_int64 = 0;
    if below!(file.xFileSize(&raw mut len), else ffi::SQLITE_IOERR) != ffi::SQLITE_OK {
        return Err(failed());
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    for (at, part) in bytes.chunks_mut(1 << 20).enumerate() {
        let (offset, count) = ((at as sqlite3_int64) << 20, c_int::try_from(part.len()).unwrap_or(0));
        let read = below!(file.xRead(part.as_mut_ptr().cast(), count, offset), else ffi::SQLITE_IOERR_READ);
        if read != ffi::SQLITE_OK {
            return Err(failed());
        }
    }
    Ok(bytes)
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Asks the disk, carries out, and notes what worked.
macro_rules! act {
    ($file:ident, $call:expr, $io:expr, $work:expr) => {{
        // SAFETY: the engine calls with a file that `open` made.
        let Some(recorded) = (unsafe { recorded($file) }) else { return $work };
        let entered = match recorded.disk.enter($call(recorded.id)) {
            Ok(entered) => entered,
            Err(failure) => return code(failure, $io),
        };
        let done = $work;
        if done == ffi::SQLITE_OK {
            entered.done();
        }
        done
    }};
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let closed = below!(file.xClose(), else ffi::SQLITE_OK);
    // SAFETY: the engine calls with a file that `open` made, and never again after this.
    unsafe { (*file.cast::<Front>()).recorded = None };
    closed
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    out: *mut c_void,
    count: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: the engine calls with a file that `open` made.
    if let Some(recorded) = unsafe { recorded(file) }
        && recorded.disk.enter(Call::Read(recorded.id)).is_err()
    {
        return ffi::SQLITE_IOERR_READ;
    }
    below!(file.xRead(out, count, offset), else ffi::SQLITE_IOERR_READ)
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let (len, at) = (usize::try_from(count).unwrap_or(0), u64::try_from(offset).unwrap_or(0));
    let written = if bytes.is_null() || len == 0 {
        &[][..]
    } else {
        // SAFETY: the engine gives so many bytes to write, and leaves them alone until this returns.
        unsafe { slice::from_raw_parts(bytes.cast::<u8>(), len) }
    };
    let call = |id| Call::Write(id, at, written);
    act!(
        file,
        call,
        ffi::SQLITE_IOERR_WRITE,
        below!(file.xWrite(bytes, count, offset), else ffi::SQLITE_IOERR_WRITE)
    )
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, len: sqlite3_int64) -> c_int {
    let call = |id| Call::SetLen(id, u64::try_from(len).unwrap_or(0));
    act!(file, call, ffi::SQLITE_IOERR_TRUNCATE, below!(file.xTruncate(len), else ffi::SQLITE_IOERR_TRUNCATE))
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    let flush = if flags & ffi::SQLITE_SYNC_DATAONLY == 0 { Flush::Full } else { Flush::Data };
    let sync_below = || below!(file.xSync(flags), else ffi::SQLITE_IOERR_FSYNC);
    // SAFETY: the engine calls with a file that `open` made.
    let Some(recorded) = (unsafe { recorded(file) }) else { return sync_below() };
    let Ok(entered) = recorded.disk.enter(Call::Sync(recorded.id, flush)) else {
        return ffi::SQLITE_IOERR_FSYNC;
    };
    let (synced, folder_too) = folder::watched(sync_below);
    if synced == ffi::SQLITE_OK {
        entered.done();
        if folder_too {
            folder::note(&recorded.disk, &recorded.name);
        }
    }
    synced
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, out: *mut sqlite3_int64) -> c_int {
    below!(file.xFileSize(out), else ffi::SQLITE_IOERR_FSTAT)
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    below!(file.xLock(level), else ffi::SQLITE_IOERR_LOCK)
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    below!(file.xUnlock(level), else ffi::SQLITE_IOERR_UNLOCK)
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    below!(file.xCheckReservedLock(out), else ffi::SQLITE_IOERR_CHECKRESERVEDLOCK)
}

/// Nothing that the layer below does on request touches what a file holds, unless it was told to grow it in chunks.
unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, argument: *mut c_void) -> c_int {
    if op == ffi::SQLITE_FCNTL_CHUNK_SIZE {
        return ffi::SQLITE_NOTFOUND;
    }
    below!(file.xFileControl(op, argument), else ffi::SQLITE_NOTFOUND)
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    below!(file.xSectorSize(), else 0)
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    below!(file.xDeviceCharacteristics(), else 0)
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    below!(file.xShmMap(region, size, extend, out), else ffi::SQLITE_IOERR_SHMMAP)
}

unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, offset: c_int, count: c_int, flags: c_int) -> c_int {
    below!(file.xShmLock(offset, count, flags), else ffi::SQLITE_IOERR_SHMLOCK)
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    below!(file.xShmBarrier(), else ());
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    below!(file.xShmUnmap(delete), else ffi::SQLITE_OK)
}
