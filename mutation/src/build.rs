//! One build of all breaks: what does not compile is taken out until the rest does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::crate_tests::{self, Tests};
use crate::listed::Listed;
use crate::rewrite::{blamed, rewrite};
use crate::spots;

/// No more attempts than this to find out what does not compile.
const ATTEMPTS: usize = 60;

/// What came of the list.
pub(crate) struct Built {
    /// The program that runs clauses.
    pub(crate) program: PathBuf,
    /// The tests of the crates that are broken.
    pub(crate) tests: Vec<Tests>,
    /// Breaks that are in it.
    pub(crate) ready: Vec<Listed>,
    /// Breaks that the compiler refuses.
    pub(crate) unviable: Vec<Listed>,
    /// Breaks that there is no form for here.
    pub(crate) alone: Vec<Listed>,
}

/// Copies the workspace, writes the breaks into the copy and builds it.
pub(crate) fn build(copy: &Path, listed: &[Listed], mut say: impl FnMut(&str)) -> Result<Built, String> {
    copy_workspace(copy)?;
    let mut files: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
    for one in listed {
        files.entry(&one.file).or_default().push(one);
    }
    let mut sources = BTreeMap::new();
    for file in files.keys() {
        sources.insert(*file, read(&copy.join(file))?);
    }
    let (mut unviable, mut alone) = (BTreeSet::new(), BTreeSet::new());
    for attempt in 1..=ATTEMPTS {
        let mut written: BTreeMap<&str, String> = BTreeMap::new();
        for (file, breaks) in &files {
            let breaks: Vec<&Listed> =
                breaks.iter().copied().filter(|one| !unviable.contains(&one.id)).collect();
            let source = &sources[file];
            let found = spots::find(source, &breaks).map_err(|error| format!("{file}: {error}"))?;
            unviable.extend(found.unviable.iter().map(|one| one.id));
            alone.extend(found.lost.iter().map(|one| one.id));
            let text = rewrite(source, &found.spots, file.starts_with("core/"));
            let path = copy.join(file);
            if read(&path)? != text {
                fs::write(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            written.insert(file, text);
        }
        match compile(copy)? {
            Ok(program) => {
                let some = |ids: &BTreeSet<usize>| {
                    listed.iter().filter(|one| ids.contains(&one.id)).cloned().collect::<Vec<_>>()
                };
                let ready = listed
                    .iter()
                    .filter(|one| !unviable.contains(&one.id) && !alone.contains(&one.id))
                    .cloned()
                    .collect();
                let tests = crate_tests::build(copy, files.keys().copied())?;
                return Ok(Built { program, tests, ready, unviable: some(&unviable), alone: some(&alone) });
            }
            Err(errors) => {
                let before = unviable.len();
                for (file, bytes) in &errors {
                    if let Some(text) = written.get(file.as_str()) {
                        unviable.extend(blamed(text, bytes));
                    }
                }
                say(&format!("attempt {attempt}: {} breaks do not compile", unviable.len()));
                if unviable.len() == before {
                    let places: Vec<String> =
                        errors.iter().map(|(file, bytes)| format!("{file}:{bytes:?}")).collect();
                    return Err(format!("the copy does not compile, and no break is to blame: {places:?}"));
                }
            }
        }
    }
    Err(format!("the copy does not compile after {ATTEMPTS} attempts"))
}

/// Copies the workspace and builds the program without any break.
pub(crate) fn build_sound(copy: &Path) -> Result<PathBuf, String> {
    copy_workspace(copy)?;
    compile(copy)?.map_err(|errors| format!("the workspace does not compile: {errors:?}"))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Copies the files that version control knows or would know.
fn copy_workspace(copy: &Path) -> Result<(), String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .map_err(|error| format!("git cannot be run: {error}"))?;
    if !output.status.success() {
        return Err("git does not list the files; run this at the root of the workspace".to_owned());
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    let known: BTreeSet<&str> = listed.split('\0').filter(|file| Path::new(file).is_file()).collect();
    remove_gone(copy, &known)?;
    for file in known {
        let (from, to) = (Path::new(file), copy.join(file));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let bytes = fs::read(from).map_err(|error| format!("{file}: {error}"))?;
        // What is as it was keeps its time, so that it is not built again.
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::write(&to, bytes).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    Ok(())
}

/// Removes from the copy what was copied before and the workspace does not have any more: a test or an example would be
/// built for ever. What nobody copied is left alone.
fn remove_gone(copy: &Path, known: &BTreeSet<&str>) -> Result<(), String> {
    let list = copy.join(".copied");
    let before = fs::read_to_string(&list).unwrap_or_default();
    for gone in before.split('\0').filter(|file| !file.is_empty() && !known.contains(file)) {
        match fs::remove_file(copy.join(gone)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{gone}: {error}"));
            }
            _ => {}
        }
    }
    let known: Vec<&str> = known.iter().copied().collect();
    fs::create_dir_all(copy)
        .and_then(|()| fs::write(&list, known.join("\0")))
        .map_err(|error| format!("{}: {error}", list.display()))
}

type Errors = Vec<(String, std::ops::Range<usize>)>;

/// Builds the program, or says where the errors are.
fn compile(copy: &Path) -> Result<Result<PathBuf, Errors>, String> {
    let command = ["build", "--package", "turnkeep-harnesses", "--example", "judge", "--features", "mutants"];
    let made = cargo(copy, &command)?;
    let program = made.programs.iter().find(|program| program.of == "judge");
    Ok(program.map(|program| program.path.clone()).ok_or(made.errors))
}

/// What a command of cargo made. It was in order if there is no error.
pub(crate) struct Made {
    pub(crate) programs: Vec<Program>,
    pub(crate) errors: Errors,
}

/// A program that cargo made.
pub(crate) struct Program {
    /// The name of what it was made of.
    pub(crate) of: String,
    /// Whether it runs tests.
    pub(crate) tests: bool,
    pub(crate) path: PathBuf,
}

/// Lets cargo build in the copy.
pub(crate) fn cargo(copy: &Path, command: &[&str]) -> Result<Made, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(command)
        .args(["--message-format", "json"])
        .env("RUSTFLAGS", "-Awarnings")
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .current_dir(copy)
        .output()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    let mut made = Made { programs: Vec::new(), errors: Errors::new() };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        match message["reason"].as_str() {
            Some("compiler-message") if message["message"]["level"] == "error" => {
                let spans = message["message"]["spans"].as_array().map_or(&[] as &[_], Vec::as_slice);
                let primary = spans.iter().filter(|span| span["is_primary"] == true);
                primary.for_each(|span| place(span, &mut made.errors));
            }
            Some("compiler-artifact") => {
                if let (Some(of), Some(path)) =
                    (message["target"]["name"].as_str(), message["executable"].as_str())
                {
                    let tests = message["profile"]["test"] == true;
                    made.programs.push(Program { of: of.to_owned(), tests, path: path.into() });
                }
            }
            _ => {}
        }
    }
    if output.status.success() || !made.errors.is_empty() {
        Ok(made)
    } else {
        Err(format!("the build failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// The place of an error, and the place where a macro was called that it lies in.
fn place(span: &Value, errors: &mut Errors) {
    let number = |name: &str| span[name].as_u64().and_then(|number| usize::try_from(number).ok());
    if let (Some(file), Some(start), Some(end)) =
        (span["file_name"].as_str(), number("byte_start"), number("byte_end"))
    {
        errors.push((file.to_owned(), start..end));
    }
    if span["expansion"].is_object() {
        place(&span["expansion"]["span"], errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_from_the_source_goes_from_the_copy_and_nothing_else() {
        let copy = std::env::temp_dir().join(format!("turnkeep-copy-{}", std::process::id()));
        let [lib, gone, mine] = ["lib.rs", "gone.rs", "mine.rs"].map(|name| copy.join(name));
        remove_gone(&copy, &BTreeSet::from(["lib.rs", "gone.rs"])).unwrap();
        for file in [&lib, &gone, &mine] {
            fs::write(file, "").unwrap();
        }
        remove_gone(&copy, &BTreeSet::from(["lib.rs"])).unwrap();
        let left = [lib, gone, mine].map(|file| file.exists());
        fs::remove_dir_all(&copy).unwrap();
        assert_eq!(left, [true, false, true]);
    }
}
