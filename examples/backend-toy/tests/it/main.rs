//! Tests of the toy backend.

mod conformance;
mod disk;
mod golden;
mod harness;
