//! Tests of the toy backend.

mod conformance;
mod disk;
mod first;
mod golden;
mod guide;
mod harness;
