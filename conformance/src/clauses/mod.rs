//! The clauses, one file per group. Each file begins with the table of its promises; the checks follow.

pub(crate) mod atomic;
pub(crate) mod branches;
pub(crate) mod capabilities;
pub(crate) mod concurrency;
pub(crate) mod deletion;
pub(crate) mod durability;
pub(crate) mod fork;
pub(crate) mod group;
pub(crate) mod idempotency;
pub(crate) mod identity;
pub(crate) mod isolation;
pub(crate) mod leases;
pub(crate) mod limits;
pub(crate) mod migration;
pub(crate) mod model;
pub(crate) mod ordering;
pub(crate) mod pagination;
pub(crate) mod partial;
pub(crate) mod queries;
pub(crate) mod records;
pub(crate) mod recovery;
pub(crate) mod resources;
pub(crate) mod restore;
pub(crate) mod runs;
pub(crate) mod search;
