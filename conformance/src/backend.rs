//! Who was asked: what a backend declares, and what an open store says of itself.

use serde::{Deserialize, Serialize};
use turnkeep_core::limits::Limits;
use turnkeep_core::{Capabilities, Durability, StoreInfo};

use crate::harness::{Manifest, Policies, Site};

/// The backend that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// What an open store said of itself. Nothing if none was ever open.
    pub store: Option<StoreFacts>,
    /// What survives what, as declared.
    pub durability: Durability,
    /// What it can do, as declared.
    pub capabilities: Capabilities,
    /// What it accepts, as declared.
    pub limits: Limits,
    /// Choices it made.
    pub policies: Policies,
}

impl Backend {
    /// What the manifest declares, before any store was seen.
    #[must_use]
    pub fn declared(manifest: &Manifest) -> Self {
        Self {
            name: manifest.name.to_owned(),
            store: None,
            durability: manifest.durability,
            capabilities: manifest.capabilities,
            limits: manifest.limits.clone(),
            policies: manifest.policies,
        }
    }
}

/// What an open store says of itself, without what differs from site to site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreFacts {
    /// The version of the backend.
    pub version: String,
    /// The engine beneath and its version.
    pub engine: String,
    /// The format version of the stored data.
    pub format: u32,
    /// What kind of place it is at: `file`, `folder`, or `name` for what is neither.
    pub location: String,
}

impl StoreFacts {
    /// What is said by a store that is open at a site.
    pub(crate) fn of(info: &StoreInfo, site: &Site) -> Self {
        let path = std::path::Path::new(site.as_str());
        let location = match path.metadata() {
            Ok(data) if data.is_dir() => "folder",
            Ok(_) => "file",
            Err(_) => "name",
        };
        Self {
            version: info.version.to_owned(),
            engine: info.engine.clone(),
            format: info.format,
            location: location.to_owned(),
        }
    }
}
