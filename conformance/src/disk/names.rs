//! Short names for the files of a store.

use std::path::{Path, PathBuf};

/// The short name of a store's main file.
pub const MAIN: &str = "main";

/// How a disk calls the files of a store, wherever it lies: its main file is `main`, what stands beside it with a
/// longer name is `main-wal` or the like, another file of its folder has its own name, and one elsewhere that of its
/// folder in front, as in `backups/copy`.
#[derive(Clone, Debug)]
pub struct Names {
    main: PathBuf,
}

impl Names {
    /// The names around this main file.
    #[must_use]
    pub fn of(main: &Path) -> Self {
        Self { main: real(main) }
    }

    /// The short name of a file.
    #[must_use]
    pub fn short(&self, path: &Path) -> String {
        let path = real(path);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (main, full) = (text(&self.main), text(&path));
        if let Some(rest) = full.strip_prefix(&main) {
            return format!("{MAIN}{rest}");
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        match self.folder(path.parent().unwrap_or(Path::new(""))) {
            folder if folder.is_empty() => file.into_owned(),
            folder => format!("{folder}/{file}"),
        }
    }

    /// The short name of a folder.
    #[must_use]
    pub fn folder(&self, path: &Path) -> String {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.main.parent() == Some(&path) {
            return String::new();
        }
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The path by way of the real folder. The file itself need not be there.
fn real(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// The folder of a short name.
pub(super) fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_their_place_beside_the_store() {
        let names = Names::of(Path::new("/nowhere/a/state.db"));
        for (path, name) in [
            ("/nowhere/a/state.db", "main"),
            ("/nowhere/a/state.db-wal", "main-wal"),
            ("/nowhere/a/other", "other"),
            ("/nowhere/b/copy", "b/copy"),
        ] {
            assert_eq!(names.short(Path::new(path)), name);
        }
        assert_eq!(
            (names.folder(Path::new("/nowhere/a")), names.folder(Path::new("/nowhere/b"))),
            (String::new(), "b".into())
        );
        assert_eq!((folder("main-wal"), folder("b/copy")), ("", "b"));
    }
}
