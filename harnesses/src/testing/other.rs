//! A test in several processes: the others are the test program again, in a role.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ROLE: &str = "TURNKEEP_TEST_ROLE";
const PLACE: &str = "TURNKEEP_TEST_PLACE";

/// This test program again, running only the test of this name, in a role.
pub fn again(test: &str, role: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role).env(PLACE, path);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// The role and the path that this process was started with, if it was.
pub fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, PathBuf::from(std::env::var_os(PLACE)?)))
}

/// A process that is killed and waited for when dropped.
#[derive(Debug)]
pub struct Other(pub Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says a line to the process that started this one. The test program may stand in the middle of a line of its own.
pub fn tell(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    write!(out, "\n{line}\n").and_then(|()| out.flush()).unwrap();
}
