//! The registry, the specification and reports, without opening any store.

mod registry;
#[cfg(feature = "certify")]
mod report;
mod specification;
