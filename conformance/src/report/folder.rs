//! The folder of a report.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::certificate::Certificate;
use super::data::Report;
use super::{junit, page};
use crate::fragment::write_whole;

const REPORT: &str = "report.json";
const PAGE: &str = "report.html";
const JUNIT: &str = "junit.xml";
const CERTIFICATE: &str = "certificate.json";
const TAPES: &str = "tapes";

/// What was written.
#[derive(Clone, Debug)]
pub struct Files {
    /// `report.json`, the source of all others.
    pub report: PathBuf,
    /// `report.html`, for people.
    pub page: PathBuf,
    /// `junit.xml`, for programs that show test results.
    pub junit: PathBuf,
    /// `certificate.json` with what it says, where there is one.
    pub certificate: Option<(PathBuf, Certificate)>,
}

/// Where the tape of a clause is, from the folder of the report.
pub(crate) fn tape_path(id: &str) -> String {
    format!("{TAPES}/{id}.json")
}

/// Writes a report and all that is made from it. A certificate or tape of an earlier report goes first, so that none
/// ever stands beside a report that it does not belong to.
///
/// # Errors
/// When the folder cannot be written.
pub fn write(report: &Report, folder: &Path) -> io::Result<Files> {
    fs::create_dir_all(folder)?;
    let at = |name: &str| folder.join(name);
    remove(&at(CERTIFICATE))?;
    remove_tapes(&at(TAPES))?;
    let json = report.to_json()?;
    write_whole(&at(REPORT), json.as_bytes())?;
    write_whole(&at(JUNIT), junit(report)?.as_bytes())?;
    write_whole(&at(PAGE), page(report).as_bytes())?;
    for entry in &report.clauses {
        // A report can come from elsewhere: what it calls an id becomes no path unless it is one.
        let id = Some(&entry.promise.id).filter(|id| is_clause_id(id));
        if let (Some(tape), Some(id)) = (&entry.tape, id) {
            fs::create_dir_all(at(TAPES))?;
            write_whole(&at(&tape_path(id)), format!("{tape:#}\n").as_bytes())?;
        }
    }
    let certificate = match Certificate::issue(report, json.as_bytes()) {
        Ok(certificate) => {
            write_whole(&at(CERTIFICATE), certificate.to_json()?.as_bytes())?;
            Some((at(CERTIFICATE), certificate))
        }
        Err(_) => None,
    };
    Ok(Files { report: at(REPORT), page: at(PAGE), junit: at(JUNIT), certificate })
}

/// Reads the report of a folder.
///
/// # Errors
/// When it is not there, or is none.
pub fn read(folder: &Path) -> io::Result<Report> {
    Ok(serde_json::from_slice(&fs::read(folder.join(REPORT))?)?)
}

/// The bytes of certificate and report of a folder, as [`verify`](super::verify) takes them.
///
/// # Errors
/// When one of them is not there.
pub fn read_certificate(folder: &Path) -> io::Result<(Vec<u8>, Vec<u8>)> {
    Ok((fs::read(folder.join(CERTIFICATE))?, fs::read(folder.join(REPORT))?))
}

/// Whether a folder holds a report.
pub(crate) fn holds_report(folder: &Path) -> bool {
    folder.join(REPORT).is_file()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the tapes of an earlier report, and nothing else that somebody may have put there.
fn remove_tapes(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let is_tape = path.extension().is_some_and(|extension| extension == "json")
            && path.file_stem().and_then(|stem| stem.to_str()).is_some_and(is_clause_id);
        if is_tape {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Whether a name has the form of a clause id, known or not.
fn is_clause_id(name: &str) -> bool {
    name.split_once('-').is_some_and(|(group, number)| {
        !group.is_empty()
            && group.bytes().all(|byte| byte.is_ascii_uppercase())
            && number.len() == 3
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}
