//! Certifies the toy backend: `cargo run --release -p turnkeep-toy --example certify`.

#[path = "../tests/it/disk.rs"]
mod disk;
#[path = "../tests/it/harness.rs"]
mod harness;

fn main() -> std::process::ExitCode {
    turnkeep_conformance::program::main::<harness::ToyHarness>()
}
