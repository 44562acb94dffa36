//! The rows of a store, as every backend gives them back.

mod entry;
mod event;
mod lease;
mod record;
mod row;
mod run;
mod session;

pub use entry::{Entry, Reference, Visibility, VisibilitySet, entry_kind, role};
pub use event::{Event, StreamRow, stream};
pub use lease::{LeaseKey, LeaseName, LeasePurpose, LeaseState, LeaseView, Liveness};
pub use record::{Record, Version, collection};
pub use row::{Row, RowKind, SessionImage};
pub use run::{Run, RunState, RunStates};
pub use session::{
    Audience, Channel, ForkKind, ForkOrigin, PathState, Profile, RestoreState, SessionRow, SessionState,
    Title, TitleSource, Usage,
};
