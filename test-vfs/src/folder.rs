//! Syncs of folders, which the layer below makes by itself: it opens a folder for nothing else.

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use rusqlite::ffi::{self, sqlite3_vfs};
use turnkeep_conformance::disk::{Call, Disk};

/// How the layer below opens a folder: a path in, a descriptor out.
type OpenFolder = unsafe extern "C" fn(*const c_char, *mut c_int) -> c_int;

const OPEN_FOLDER: &std::ffi::CStr = c"openDirectory";

/// The function that was there before. Kept until the process ends.
static BEFORE: OnceLock<Option<OpenFolder>> = OnceLock::new();

thread_local! {
    static OPENED: Cell<bool> = const { Cell::new(false) };
}

/// Looks on whenever the layer below opens a folder. Where that layer cannot be looked at, no folder ever counts as
/// synced.
///
/// # Safety
/// `below` must be a registered layer.
pub(crate) unsafe fn watch(below: *mut sqlite3_vfs) {
    BEFORE.get_or_init(|| {
        // SAFETY: the caller's word; the name is a C string, and the engine documents both functions.
        unsafe {
            let (get, set) = ((*below).xGetSystemCall?, (*below).xSetSystemCall?);
            let before = get(below, OPEN_FOLDER.as_ptr())?;
            // The type under which the engine keeps this very function.
            let before = std::mem::transmute::<unsafe extern "C" fn(), OpenFolder>(before);
            let ours = std::mem::transmute::<OpenFolder, unsafe extern "C" fn()>(open_folder);
            (set(below, OPEN_FOLDER.as_ptr(), Some(ours)) == ffi::SQLITE_OK).then_some(before)
        }
    });
}

unsafe extern "C" fn open_folder(path: *const c_char, out: *mut c_int) -> c_int {
    // Set a moment after this function was put in place; until then no test has a file open.
    let Some(before) = BEFORE.get().copied().flatten() else { return ffi::SQLITE_CANTOPEN };
    // SAFETY: the arguments are passed on as they came, to the function that they were meant for.
    let opened = unsafe { before(path, out) };
    if opened == ffi::SQLITE_OK {
        OPENED.set(true);
    }
    opened
}

/// Does something and says whether a folder was opened for a sync meanwhile.
pub(crate) fn watched<T>(work: impl FnOnce() -> T) -> (T, bool) {
    OPENED.set(false);
    let done = work();
    (done, OPENED.get())
}

/// Notes that the folder of a file was synced.
pub(crate) fn note(disk: &Disk, file: &str) {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    if let Ok(entered) = disk.enter(Call::SyncFolder(folder)) {
        entered.done();
    }
}
