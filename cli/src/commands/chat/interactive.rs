//! A conversation line by line.

use std::io::{self, IsTerminal};

use turnkeep::ErrorKind;

use super::lines::Lines;
use super::{Conversation, begin};
use crate::args::List;
use crate::commands::sessions::{list, runs, show};
use crate::failure::{Failure, Outcome};
use crate::output::{Out, note};
use crate::{exit, pick};

/// Messages that are shown when a session is continued.
const SHOWN: u32 = 4;

const HELP: &str = "\
/new [TITLE]   begin another session
/sessions      list the sessions of this workspace
/resume ID     continue another session; a beginning of its id is enough
/help          this list
/quit          leave; so does Ctrl-D
Ctrl-C cancels the answer under way. To say something that begins with /, write // instead.";

/// What a line means.
#[derive(Debug, PartialEq, Eq)]
enum Input {
    Nothing,
    Say(String),
    New(Option<String>),
    Sessions,
    Resume(String),
    Help,
    Quit,
    Wrong(String),
}

impl Input {
    fn read(line: &str) -> Self {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let trimmed = line.trim();
        let Some(command) = trimmed.strip_prefix('/') else {
            return if trimmed.is_empty() { Self::Nothing } else { Self::Say(line.to_owned()) };
        };
        if command.starts_with('/') {
            return Self::Say(command.to_owned());
        }
        let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        match (word, rest) {
            ("new", "") => Self::New(None),
            ("new", title) => Self::New(Some(title.to_owned())),
            ("sessions", "") => Self::Sessions,
            ("resume", "") => Self::Wrong("/resume needs an id; /sessions lists them".to_owned()),
            ("resume", id) => Self::Resume(id.to_owned()),
            ("help", "") => Self::Help,
            ("quit" | "exit", "") => Self::Quit,
            _ => Self::Wrong(format!("/{word} is no command, or not in this form; /help lists them all")),
        }
    }
}

impl Conversation<'_> {
    /// Reads lines until the input ends. What goes wrong with one line does not end the conversation; but a script
    /// that feeds lines gets the exit code of the first that went wrong.
    pub(super) async fn interactive(&mut self, out: &mut Out) -> Outcome<u8> {
        let person = io::stdin().is_terminal();
        self.introduce(out).await?;
        if person {
            out.line(out.paint.dim("/help lists the commands; Ctrl-C cancels an answer, Ctrl-D leaves"))?;
        }
        self.recall(out).await?;
        let mut lines = Lines::of_stdin()?;
        let mut code = exit::OK;
        let mut pressed_before = false;
        loop {
            if person {
                let prompt = format!("\n{} ", out.paint.person(">"));
                out.piece(&prompt)?;
            } else {
                out.flush()?;
            }
            let line = tokio::select! {
                biased;
                () = self.interrupts.next() => {
                    // Twice in a row, with nothing to cancel, can only mean one thing.
                    if pressed_before {
                        out.line("")?;
                        return Ok(code);
                    }
                    pressed_before = true;
                    if person {
                        out.line("")?;
                        out.line(out.paint.dim("(nothing to cancel; Ctrl-C again or Ctrl-D leaves)"))?;
                    }
                    continue;
                }
                line = lines.next() => line?,
            };
            pressed_before = false;
            let Some(line) = line else {
                if person {
                    out.line("")?;
                }
                return Ok(code);
            };
            let Ok(line) = String::from_utf8(line) else {
                let failure = Failure::usage("the line is not UTF-8, so it was not said");
                if !person {
                    code = first(code, &failure);
                }
                failure.tell(false);
                continue;
            };
            match self.obey(Input::read(&line), person, out).await {
                Ok(true) => {}
                Ok(false) => return Ok(code),
                Err(Failure::ClosedPipe) => return Err(Failure::ClosedPipe),
                Err(failure) => {
                    out.flush()?;
                    if !person {
                        code = first(code, &failure);
                    }
                    failure.tell(false);
                }
            }
        }
    }

    /// Does what a line asks for, and answers whether to go on.
    async fn obey(&mut self, input: Input, person: bool, out: &mut Out) -> Outcome<bool> {
        match input {
            Input::Nothing => {}
            Input::Say(text) => {
                if !person {
                    out.line("")?;
                    self.quote(&text, out)?;
                }
                self.say_or_catch_up(&text, out).await?;
            }
            Input::New(title) => {
                self.session = begin(&self.workspace, self.global, title.as_deref()).await?;
                self.introduce(out).await?;
            }
            Input::Sessions => {
                let all = List::default();
                list::show(&self.workspace, &all, out).await?;
            }
            Input::Resume(id) => {
                self.session = pick::by_id(&self.workspace, &id).await?;
                self.introduce(out).await?;
                self.recall(out).await?;
            }
            Input::Help => out.line(HELP)?,
            Input::Quit => return Ok(false),
            Input::Wrong(why) => return Err(Failure::usage(why)),
        }
        Ok(true)
    }

    /// Says something. If another process wrote to the session meanwhile, shows what, and says nothing: a person
    /// decides on what they have read.
    async fn say_or_catch_up(&mut self, text: &str, out: &mut Out) -> Outcome<()> {
        let leaf = self.session.leaf();
        let begun = self.turn(text, out).await;
        let turn = match begun {
            Err(failure) if failure.kind() == Some(ErrorKind::StaleLeaf) => {
                self.session.reload().await?;
                let mut history = self.session.history();
                if let Some(leaf) = leaf {
                    history = history.after(leaf);
                }
                self.present(&history.await?.items, out).await?;
                return Err(
                    failure.hint("what another process wrote is shown above; say it again if it still holds")
                );
            }
            begun => begun?,
        };
        if turn.was_cancelled() {
            out.line("")?;
            out.flush()?;
            note(false, "cancelled; your message is kept, the answer so far is only shown");
        }
        Ok(())
    }

    /// Shows the newest messages of a session that is continued.
    async fn recall(&self, out: &mut Out) -> Outcome<()> {
        let newest = self.session.history().latest(SHOWN).await?;
        self.present(&newest.items, out).await
    }

    async fn present(&self, messages: &[turnkeep::HistoryItem], out: &mut Out) -> Outcome<()> {
        if messages.is_empty() {
            return Ok(());
        }
        let runs = runs::all(&self.session).await?;
        let runs = show::by_id(&runs);
        for item in messages {
            out.line("")?;
            show::message(item, &runs, false, out)?;
        }
        Ok(())
    }
}

fn first(code: u8, failure: &Failure) -> u8 {
    if code == exit::OK { failure.code() } else { code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_words_or_commands() {
        assert_eq!(Input::read("\n"), Input::Nothing);
        assert_eq!(Input::read("  hello \r\n"), Input::Say("  hello ".to_owned()));
        assert_eq!(Input::read("//etc is a folder"), Input::Say("/etc is a folder".to_owned()));
        assert_eq!(Input::read("/new"), Input::New(None));
        assert_eq!(Input::read("/new  two words "), Input::New(Some("two words".to_owned())));
        assert_eq!(Input::read("/resume a b"), Input::Resume("a b".to_owned()));
        assert!(matches!(Input::read("/resume"), Input::Wrong(_)));
        assert!(matches!(Input::read("/etc/passwd"), Input::Wrong(_)));
        assert_eq!(Input::read("/quit"), Input::Quit);
    }
}
