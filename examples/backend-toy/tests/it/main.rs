//! Tests of the toy backend.

mod conformance;
mod harness;
