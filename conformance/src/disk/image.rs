//! What the files hold after a power loss.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The files as a power loss may have left them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Each file by its name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// How many commits had been handed in.
    pub begun: u64,
    /// How many of them had been acknowledged.
    pub acked: u64,
    /// What else the test had noted by then.
    pub noted: u64,
    /// After which line of the log the power went, and what was lost, for messages.
    pub about: String,
}

impl Image {
    /// A disk that nothing was written to yet.
    #[must_use]
    pub fn empty() -> Self {
        Self { files: BTreeMap::new(), begun: 0, acked: 0, noted: 0, about: "an empty disk".to_owned() }
    }

    /// A number that tells images of other contents apart.
    pub(super) fn print(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.files.hash(&mut hasher);
        hasher.finish()
    }

    /// The files whose names begin so, with another beginning: a copy that lies beside a store, as a store.
    #[must_use]
    pub fn renamed(&self, from: &str, to: &str) -> Self {
        let file = |(name, bytes): (&String, &Vec<u8>)| {
            name.strip_prefix(from).map(|rest| (format!("{to}{rest}"), bytes.clone()))
        };
        Self { files: self.files.iter().filter_map(file).collect(), ..self.clone() }
    }
}
