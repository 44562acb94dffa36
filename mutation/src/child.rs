//! Running a program that may hang.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A run that has not ended after so long hangs: that is noticed too.
const LONGEST: Duration = Duration::from_secs(90);

/// How a program ended, and what it wrote.
pub(crate) struct Ended {
    /// Whether it ended well; `None` if it had to be stopped.
    pub(crate) success: Option<bool>,
    pub(crate) said: String,
    pub(crate) errors: String,
}

/// Runs a program to its end, or to the end of our patience.
pub(crate) fn run(mut command: Command) -> Result<Ended, String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let (said, errors) = (child.stdout.take().map(collect), child.stderr.take().map(collect));
    let success = wait(&mut child);
    let text =
        |thread: Option<JoinHandle<String>>| thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
    Ok(Ended { success, said: text(said), errors: text(errors) })
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Waits for the end, not for ever.
fn wait(child: &mut Child) -> Option<bool> {
    let until = Instant::now() + LONGEST;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}
