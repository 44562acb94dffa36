//! The registry and the specification, without opening any store.

mod registry;
mod specification;
