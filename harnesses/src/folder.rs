//! A site that is one file in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};

use turnkeep_conformance::Site;
use turnkeep_core::{Error, ErrorKind, Result};

/// A failure of the harness itself.
pub(crate) fn failed(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Io, format!("the harness could not {what}: {error}")).with_source(error)
}

/// The file of a site.
pub(crate) fn path(site: &Site) -> PathBuf {
    PathBuf::from(site.as_str())
}

/// Makes a folder among the temporary ones and names the file that a store will make in it.
pub(crate) fn provision(file: &str) -> Result<Site> {
    let folder = tempfile::Builder::new().prefix("turnkeep-conformance-").tempdir();
    let folder = folder.map_err(|error| failed("make a folder", error))?.keep();
    let path = folder.join(file);
    match path.to_str() {
        Some(text) => Ok(Site::new(text)),
        None => Err(Error::new(ErrorKind::Io, "the temporary folder has no UTF-8 name")),
    }
}

/// Removes the folder of a site, if the site is one that this harness made.
pub(crate) fn destroy(site: &Site, file: &str) -> Result<()> {
    let path = path(site);
    match path.parent().filter(|_| path.ends_with(file)) {
        Some(folder) => fs::remove_dir_all(folder).map_err(|error| failed("remove the folder", error)),
        None => {
            Err(Error::new(ErrorKind::Invalid, "a site of this harness is a file in a folder of its own"))
        }
    }
}

/// Cuts off the last part of a file.
pub(crate) fn truncate(path: &Path) -> std::io::Result<()> {
    let file = fs::OpenOptions::new().write(true).open(path)?;
    file.set_len(file.metadata()?.len() * 6 / 10)
}
