//! Golden stores: one of each format that was ever written, kept for ever. The tests of this crate write new ones.

use std::fs;

use turnkeep_conformance::Fixture;
use turnkeep_core::Result;

use crate::folder::{self, failed, path};

/// A fresh copy of a golden store, as a file of this name.
pub(crate) fn lay_out(file: &str, format: u32, bytes: &[u8], lines: &str) -> Result<Fixture> {
    let site = folder::provision(file)?;
    fs::write(path(&site), bytes).map_err(|error| failed("lay out a golden store", error))?;
    Ok(Fixture { format, site, lines: lines.lines().map(str::to_owned).collect() })
}

/// The bytes of a file that is mostly zeros: where each part that is not begins and how long it is, both in eight bytes,
/// then the part; at the end the length of the file and a part of no bytes.
#[cfg(feature = "redb")]
pub(crate) fn unfold(mut parts: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8]| {
        let number = bytes.iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        usize::try_from(number).unwrap_or(usize::MAX)
    };
    let mut bytes = Vec::new();
    while let Some((head, rest)) = parts.split_at_checked(16) {
        let (from, length) = head.split_at(8);
        let (part, rest) = rest.split_at_checked(number(length)).unwrap_or((rest, &[]));
        bytes.resize(number(from), 0);
        bytes.extend_from_slice(part);
        parts = rest;
    }
    bytes
}
