//! What the checks look at: the files of the workspace and what Cargo says of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The workspace on disk.
pub(crate) struct Project {
    /// The folder of the root manifest.
    pub(crate) root: PathBuf,
    /// The member packages, as `cargo metadata --no-deps` prints them.
    pub(crate) members: Vec<Value>,
    /// Every file below the root, relative to it, sorted, with `/` between parts.
    pub(crate) files: Vec<String>,
}

impl Project {
    pub(crate) fn open() -> Result<Self, String> {
        let metadata = cargo_metadata(&["--no-deps"])?;
        let root = metadata["workspace_root"].as_str().ok_or("cargo metadata names no workspace root")?;
        let root = PathBuf::from(root);
        let mut files = Vec::new();
        walk(&root, "", &mut files)
            .map_err(|error| format!("cannot list the files of the workspace: {error}"))?;
        files.sort();
        Ok(Self { root, members: array(&metadata["packages"]).to_vec(), files })
    }

    /// The text of a file, or a failure message. Bytes that are not UTF-8 are replaced.
    pub(crate) fn read(&self, file: &str) -> Result<String, String> {
        let bytes = fs::read(self.root.join(file)).map_err(|error| format!("cannot read {file}: {error}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The Rust source files.
    pub(crate) fn rust_files(&self) -> impl Iterator<Item = &String> {
        self.files.iter().filter(|file| file.ends_with(".rs"))
    }
}

/// Runs `cargo metadata` without a network.
pub(crate) fn cargo_metadata(arguments: &[&str]) -> Result<Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata failed; run `cargo fetch` first. It said: {}", said.trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata printed no JSON: {error}"))
}

/// The items of a JSON array; none when the value is not an array.
pub(crate) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A JSON string; empty when the value is not a string.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if name == ".git" {
            continue;
        }
        if kind.is_file() {
            files.push(format!("{prefix}{name}"));
        } else if kind.is_dir() && !is_build_output(&entry.path()) {
            walk(&entry.path(), &format!("{prefix}{name}/"), files)?;
        }
    }
    Ok(())
}

/// Cargo tags its target folders, whatever their name.
fn is_build_output(folder: &Path) -> bool {
    folder.join("CACHEDIR.TAG").is_file()
}
