//! What the benchmarks share: data, bare-engine floors, and paired rounds.
//!
//! A floor does the same durable writes, or the same reads, with the bare engine, on a copy of the same database, in
//! the same process and run. Figures move with the machine; ratios of interleaved rounds hold.

#![expect(clippy::print_stdout, reason = "benchmarks print their figures")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot go on stops")]

pub mod data;
pub mod floor;
pub mod rounds;
