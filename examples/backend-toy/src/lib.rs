//! A whole small backend, for learning: `docs/backend-guide.md` walks through it.
//!
//! Every commit becomes one line of a log file and is synced before it is acknowledged; the rows themselves live in
//! memory, as the [`Tables`](turnkeep_memory::Tables) of the memory backend, and are made anew from the log when the
//! store is opened. Small stores only: everything is in memory, and opening reads the whole file.
//!
//! | file | what is in it |
//! |---|---|
//! | `log` | the file: lines, marks, torn tails |
//! | `medium` | the few things that are done to files, for disks that fail on purpose |
//! | `migrate` | formats, and how an old one becomes today's |
//! | `open` | opening a store, step by step |
//! | `write` | the engine under the group committer |
//! | `store` | the handle that callers hold |
//! | `maintenance` | chores |

mod log;
mod maintenance;
mod medium;
mod migrate;
mod open;
mod options;
mod store;
mod write;

pub use medium::{FileSystem, Medium, MediumFile};
pub use options::ToyOptions;
pub use store::ToyStore;
