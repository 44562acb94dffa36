//! Where the state of workspaces lies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::local::owner::create_private_folder;
use turnkeep_core::mutant;
use uuid::Uuid;

use super::files::make_private;
use super::origin::Place;

/// The names under which an application keeps its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateLayout {
    app: String,
    root: PathBuf,
}

impl StateLayout {
    /// The names of an application: state in `~/.<app>`, unless the environment variable `<APP>_STATE_HOME` names
    /// another root; the marker in `.<app>/workspace-id`.
    ///
    /// # Errors
    /// `Invalid` when the name is not made of 1 to 64 ASCII letters, digits, `-` and `_`, or when neither the variable
    /// nor a home directory is there.
    pub fn for_app(app: &str) -> Result<Self> {
        Self::for_app_in(app, |name| std::env::var_os(name), std::env::home_dir())
    }

    /// As [`for_app`](Self::for_app), with an environment of one's own.
    ///
    /// # Errors
    /// As [`for_app`](Self::for_app).
    pub fn for_app_in(
        app: &str,
        variable: impl Fn(&str) -> Option<OsString>,
        home: Option<PathBuf>,
    ) -> Result<Self> {
        let known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if app.is_empty() || app.len() > 64 || !app.chars().all(known) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "an application name has 1 to 64 ASCII letters, digits, - and _",
            ));
        }
        let name = variable_of(app);
        let root = match variable(&name).filter(|value| !value.is_empty()) {
            Some(root) => PathBuf::from(root),
            None => match home.filter(|home| !home.as_os_str().is_empty()) {
                Some(home) => home.join(format!(".{app}")),
                None => {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        format!("there is no home directory; set {name} to a directory for the state"),
                    )
                    .with("variable", &name));
                }
            },
        };
        Self::of(app, root)
    }

    /// An application that keeps its state under `root`.
    ///
    /// # Errors
    /// As [`for_app`](Self::for_app).
    pub fn at(app: &str, root: impl Into<PathBuf>) -> Result<Self> {
        let root: OsString = root.into().into_os_string();
        Self::for_app_in(app, |_| Some(root.clone()), None)
    }

    fn of(app: &str, root: PathBuf) -> Result<Self> {
        let root = std::path::absolute(&root)
            .map_err(|error| Error::io("the state root is no path", &root, error))?;
        Ok(Self { app: app.to_owned(), root })
    }

    /// The root of the state.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The name of the application.
    #[must_use]
    pub fn app(&self) -> &str {
        &self.app
    }

    /// The environment variable that moves the root.
    #[must_use]
    pub fn variable(&self) -> String {
        variable_of(&self.app)
    }

    pub(super) fn marker_folder(&self, directory: &Path) -> PathBuf {
        directory.join(format!(".{}", self.app))
    }

    /// Makes the root, if it does not lie in the workspace, and answers its canonical path.
    pub(super) fn prepare(&self, directory: &Path) -> Result<PathBuf> {
        // Before anything is made: what is there already of the path must lead out of the workspace.
        let (there, missing) = existing_part(&self.root);
        let planned = missing.iter().rev().fold(there, |path, name| path.join(name));
        self.refuse_inside(&planned, directory)?;
        create_private_folder(&self.root)
            .map_err(|error| Error::io("the state root cannot be made", &self.root, error))?;
        let root = self
            .root
            .canonicalize()
            .map_err(|error| Error::io("the state root cannot be opened", &self.root, error))?;
        self.refuse_inside(&root, directory)?;
        Ok(root)
    }

    fn refuse_inside(&self, root: &Path, directory: &Path) -> Result<()> {
        if lies_inside(root, directory)? && !mutant::is("identity/root-inside-passes") {
            return Err(Error::new(
                ErrorKind::UnsafeRoot,
                format!(
                    "the state would lie inside the workspace, where its tools could change it; set {} to a \
                     directory outside",
                    self.variable()
                ),
            )
            .with("root", root.display())
            .with("workspace", directory.display()));
        }
        Ok(())
    }
}

fn variable_of(app: &str) -> String {
    let mut name: String = app.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_uppercase() }).collect();
    name.push_str("_STATE_HOME");
    name
}

/// The canonical path of the deepest part of `path` that exists, and the names below it, deepest first.
fn existing_part(path: &Path) -> (PathBuf, Vec<OsString>) {
    let mut missing = Vec::new();
    let mut part = path;
    loop {
        if let Ok(canonical) = part.canonicalize() {
            return (canonical, missing);
        }
        match (part.parent(), part.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name.to_owned());
                part = parent;
            }
            _ => return (part.to_owned(), missing),
        }
    }
}

/// Whether `path`, whose existing part is canonical, is `directory` or lies in it; also by another mount of it.
fn lies_inside(path: &Path, directory: &Path) -> Result<bool> {
    if path.starts_with(directory) {
        return Ok(true);
    }
    let workspace = Place::of(directory)?;
    Ok(path
        .ancestors()
        .filter(|ancestor| ancestor.is_dir())
        .any(|ancestor| Place::of(ancestor).is_ok_and(|place| place.is_certainly(&workspace))))
}

/// The folders of one workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateFolders {
    pub(super) state: PathBuf,
    pub(super) logs: PathBuf,
}

impl StateFolders {
    /// Only a UUID becomes a part of a path, never text of a marker.
    pub(super) fn of(root: &Path, id: Uuid) -> Self {
        let name = id.hyphenated().to_string();
        Self { state: root.join("workspaces").join(&name), logs: root.join("logs").join(&name) }
    }

    /// A workspace that holds states, its own or others', or that lies among them, is as unsafe as a root inside of it.
    pub(super) fn refuse_overlap(&self, directory: &Path) -> Result<()> {
        for folder in [self.state.parent(), self.logs.parent()].into_iter().flatten() {
            if folder.starts_with(directory) || directory.starts_with(folder) {
                return Err(Error::new(
                    ErrorKind::UnsafeRoot,
                    "the workspace overlaps the state of workspaces, which its tools could change; use another \
                     directory",
                )
                .with("state", folder.display())
                .with("workspace", directory.display()));
            }
        }
        Ok(())
    }

    pub(super) fn make(&self) -> Result<()> {
        create_private_folder(&self.state)
            .map_err(|error| Error::io("the state folder cannot be made", &self.state, error))?;
        for folder in [self.state.parent(), Some(&*self.state)].into_iter().flatten() {
            make_private(folder)?;
        }
        Ok(())
    }
}
