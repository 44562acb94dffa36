//! Deliberate faults, for proving that the conformance suite notices them.
//!
//! Without the feature `mutants` every question is answered `false` at compile time and nothing of a fault is left in
//! the program. With it, a process commits the one fault that the variable `TURNKEEP_MUTANT` names.

#[cfg(feature = "mutants")]
mod proof;

#[cfg(feature = "mutants")]
pub use proof::{Break, doubts};

/// Whether this process commits the named fault.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
#[must_use]
pub const fn is(_name: &str) -> bool {
    false
}

/// What the program goes on with: `sound`, or `broken` where this process commits the named fault.
#[inline(always)]
#[must_use]
pub fn either<T>(name: &str, broken: T, sound: T) -> T {
    if is(name) { broken } else { sound }
}

/// Whether this process commits the named fault.
#[cfg(feature = "mutants")]
#[must_use]
pub fn is(name: &str) -> bool {
    chosen() == Some(name)
}

/// The fault that this process commits.
#[cfg(feature = "mutants")]
#[must_use]
pub fn chosen() -> Option<&'static str> {
    static CHOSEN: std::sync::LazyLock<Option<String>> = std::sync::LazyLock::new(|| {
        std::env::var("TURNKEEP_MUTANT").ok().filter(|chosen| !chosen.is_empty())
    });
    CHOSEN.as_deref()
}
