//! `turnkeep sessions …`

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod new;
pub(crate) mod rename;
pub(crate) mod show;
