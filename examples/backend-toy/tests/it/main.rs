//! Tests of the toy backend.

mod conformance;
mod disk;
mod harness;
