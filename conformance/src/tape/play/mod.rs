//! The players.

pub(crate) mod concurrent;
pub(crate) mod killed;
pub(crate) mod sequential;
