//! The program as another user starts it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::kit::{Home, Ran, Running};

/// The program as a user that file modes bind. Root may do everything, so root starts it as nobody.
pub(super) fn as_a_plain_user(home: &Home, args: &[&str]) -> Ran {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let mut command = own_program(home, args);
    if rustix::process::geteuid().is_root() {
        chown_all(&home.path("."), NOBODY);
        command.uid(NOBODY).gid(NOBODY);
    }
    Running::start(command).end()
}

/// A copy of the program that other users can reach, too.
pub(super) fn own_program(home: &Home, args: &[&str]) -> Command {
    let program = home.path("turnkeep");
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_turnkeep"), &program).unwrap();
    }
    let like = home.command(args);
    let mut command = Command::new(program);
    command.args(args).current_dir(home.project()).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(super) fn chown_all(folder: &Path, to: u32) {
    std::os::unix::fs::chown(folder, Some(to), Some(to)).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            chown_all(&path, to);
        } else {
            std::os::unix::fs::lchown(&path, Some(to), Some(to)).unwrap();
        }
    }
}

pub(super) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
