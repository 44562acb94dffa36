//! The faults as they stand in the sources of this workspace.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Folders whose code may hold faults.
const FOLDERS: &[&str] = &["core/src", "backend-memory/src", "backend-sqlite/src", "backend-redb/src"];
/// What stands before the name of a fault.
const ASKED_BY: &[&str] = &["mutant::is(", "mutant::either(", "fault("];

/// Every fault of the sources below `root`, and the file that commits it.
///
/// # Errors
/// When a source cannot be read, or a fault is committed in two files.
pub fn in_sources(root: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        list(&root.join(folder), &mut files)?;
    }
    let mut faults: BTreeMap<String, String> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let place = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        for name in names(&text) {
            let other = faults.insert(name.to_owned(), place.clone()).filter(|other| *other != place);
            if let Some(other) = other {
                return Err(io::Error::other(format!("{name} is in {place} and in {other}")));
            }
        }
    }
    Ok(faults)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The names that a source asks for. A call may be broken over lines.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let calls = ASKED_BY.iter().flat_map(|call| text.split(call).skip(1));
    calls.filter_map(|rest| {
        let (name, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        name.contains('/').then_some(name)
    })
}
