//! The rules against a plain model and tables, and the group committer on an engine made for tests.

#![expect(clippy::expect_used, reason = "a test says what it takes for granted")]

mod against_model;
mod bench;
mod compare;
mod kit;
mod model;
mod naive;
mod tape;
