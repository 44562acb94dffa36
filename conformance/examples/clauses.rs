//! Prints the clause list as `docs/spec.md` holds it.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

fn main() {
    print!("{}", turnkeep_conformance::registry::specification());
}
