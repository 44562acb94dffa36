//! A site that is one file in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};

use turnkeep_conformance::Site;
use turnkeep_conformance::disk::{Image, MAIN};
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
    site(prefixed().tempdir(), file)
}

fn prefixed() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("turnkeep-conformance-");
    builder
}

fn site(folder: std::io::Result<tempfile::TempDir>, file: &str) -> Result<Site> {
    let path = folder.map_err(|error| failed("make a folder", error))?.keep().join(file);
    match path.to_str() {
        Some(text) => Ok(Site::new(text)),
        None => Err(Error::new(ErrorKind::Io, "the temporary folder has no UTF-8 name")),
    }
}

/// Makes a folder with the files of an image, in memory where there is such a place: nothing is proved by syncing what
/// is thrown away a moment later. Files that do not stand around the main one are left out.
pub(crate) fn lay_out(image: &Image, file: &str) -> Result<Site> {
    let in_memory = prefixed().tempdir_in("/dev/shm");
    let site = site(in_memory.or_else(|_| prefixed().tempdir()), file)?;
    for (name, bytes) in &image.files {
        if let Some(rest) = name.strip_prefix(MAIN).filter(|rest| !rest.contains('/')) {
            let laid = fs::write(format!("{site}{rest}"), bytes);
            laid.map_err(|error| failed("lay out an image", error))?;
        }
    }
    Ok(site)
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
