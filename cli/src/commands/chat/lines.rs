//! Lines of standard input, read on a thread of their own, so that waiting for one keeps nobody from Ctrl-C.

use std::io::{self, BufRead, Read};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::failure::{Failure, Outcome};

/// The longest line, in bytes; far above what a message may hold.
const LONGEST: u64 = 64 * 1024 * 1024;

/// What the thread read: `None` at the end.
type Read1 = io::Result<Option<Vec<u8>>>;

/// Lines, read one by one as they are asked for: what comes later stays with the terminal.
#[derive(Debug)]
pub(crate) struct Lines {
    ask: std::sync::mpsc::Sender<()>,
    told: UnboundedReceiver<Read1>,
    asked: bool,
}

impl Lines {
    pub(crate) fn of_stdin() -> Outcome<Self> {
        let (ask, asked) = std::sync::mpsc::channel::<()>();
        let (tell, told) = unbounded_channel();
        std::thread::Builder::new()
            .name("turnkeep-stdin".to_owned())
            .spawn(move || read(&asked, &tell))
            .map_err(|error| Failure::program(format!("standard input cannot be read: {error}")))?;
        Ok(Self { ask, told, asked: false })
    }

    /// The next line without its end; `None` at the end of the input. May be dropped and called again: no line is lost.
    pub(crate) async fn next(&mut self) -> Outcome<Option<Vec<u8>>> {
        if !self.asked {
            if self.ask.send(()).is_err() {
                return Ok(None);
            }
            self.asked = true;
        }
        let line = self.told.recv().await;
        self.asked = false;
        match line {
            Some(Ok(line)) => Ok(line),
            Some(Err(error)) => Err(Failure::program(format!("standard input cannot be read: {error}"))),
            None => Ok(None),
        }
    }
}

fn read(asked: &std::sync::mpsc::Receiver<()>, tell: &UnboundedSender<Read1>) {
    let mut input = io::stdin().lock();
    while asked.recv().is_ok() {
        let mut line = Vec::new();
        let read = match input.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) => Ok(None),
            Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 == LONGEST => {
                Err(io::Error::other("a line is longer than 64 MiB"))
            }
            Ok(_) => Ok(Some(line)),
            Err(error) => Err(error),
        };
        let end = !matches!(read, Ok(Some(_)));
        if tell.send(read).is_err() || end {
            return;
        }
    }
}
