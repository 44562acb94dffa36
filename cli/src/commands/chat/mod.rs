//! `turnkeep chat` and `turnkeep sessions resume`

mod interactive;
mod lines;
mod turn;

use serde::Serialize;
use turnkeep::core::mutant;
use turnkeep::{Session, Workspace};

use crate::args::{Chat, Global, Provider, Resume, Talk};
use crate::commands::interrupt::Interrupts;
use crate::commands::sessions::refuse_empty_title;
use crate::failure::{Failure, Outcome};
use crate::output::session::{SessionData, name};
use crate::output::words::count;
use crate::output::{Out, note, text};
use crate::provider::Echo;
use crate::{exit, open, pick};
use turn::Turn;

/// What was said and answered, for scripts.
#[derive(Serialize)]
struct Answer<'a> {
    session: SessionData<'a>,
    provider: ProviderData,
    turns: Vec<Turn>,
}

#[derive(Serialize)]
struct ProviderData {
    name: &'static str,
    /// Whether it answers without any network.
    offline: bool,
}

/// A conversation at the terminal.
pub(crate) struct Conversation<'a> {
    workspace: Workspace,
    session: Session,
    provider: Echo,
    interrupts: Interrupts,
    global: &'a Global,
}

pub(crate) async fn run(global: &Global, chat: Chat, out: &mut Out) -> Outcome<u8> {
    check(&chat.talk, chat.title.as_deref(), out)?;
    let workspace = open::workspace(global).await?;
    let session = match (&chat.session, chat.last) {
        (Some(id), _) => pick::by_id(&workspace, id).await?,
        (None, true) => pick::last(&workspace).await?,
        (None, false) => begin(&workspace, global, chat.title.as_deref()).await?,
    };
    converse(global, workspace, session, &chat.talk, out).await
}

pub(crate) async fn resume(global: &Global, resume: Resume, out: &mut Out) -> Outcome<u8> {
    check(&resume.talk, None, out)?;
    let workspace = open::workspace(global).await?;
    let session = if mutant::is("chat/resume-begins-another") {
        begin(&workspace, global, None).await?
    } else {
        pick::session(&workspace, &resume.pick).await?
    };
    converse(global, workspace, session, &resume.talk, out).await
}

fn check(talk: &Talk, title: Option<&str>, out: &Out) -> Outcome<()> {
    if talk.say.is_empty() && out.json {
        return Err(Failure::usage("--json needs something to say").hint("give it with --say TEXT"));
    }
    if let Some(title) = title {
        refuse_empty_title(title)?;
    }
    if talk.say.iter().any(|text| text.trim().is_empty()) {
        return Err(Failure::usage("there is nothing to say; give some text with --say"));
    }
    Ok(())
}

/// A session that is stored with its first message, so that nothing is left of a chat in which nobody said a word.
async fn begin(workspace: &Workspace, global: &Global, title: Option<&str>) -> Outcome<Session> {
    let mut create = workspace.sessions().create().cwd(&global.workspace).lazy();
    if let Some(title) = title {
        create = create.title(title);
    }
    Ok(create.await?)
}

async fn converse(
    global: &Global,
    workspace: Workspace,
    session: Session,
    talk: &Talk,
    out: &mut Out,
) -> Outcome<u8> {
    let provider = match talk.provider {
        Provider::Echo => Echo::new(talk.delay),
    };
    let interrupts = Interrupts::listen()?;
    let mut conversation = Conversation { workspace, session, provider, interrupts, global };
    let code = if talk.say.is_empty() {
        conversation.interactive(out).await
    } else {
        conversation.say(&talk.say, out).await
    };
    // A run whose end nobody waits for any more is closed before the program ends.
    conversation.workspace.settle().await;
    if let Some(trouble) = conversation.workspace.audit().trouble() {
        let path = text::line(&trouble.path.display().to_string());
        note(
            global.json,
            &format!("the audit log cannot be written: {path}: {}", text::line(&trouble.reason)),
        );
    }
    code
}

impl Conversation<'_> {
    /// Says what was given on the command line.
    async fn say(&mut self, texts: &[String], out: &mut Out) -> Outcome<u8> {
        if !out.json {
            self.introduce(out).await?;
        }
        let mut turns: Vec<Turn> = Vec::new();
        for text in texts {
            if !out.json {
                out.line("")?;
                self.quote(text, out)?;
            }
            let turn = self.turn(text, out).await?;
            let cancelled = turn.was_cancelled();
            turns.push(turn);
            if cancelled {
                break;
            }
        }
        let cancelled = turns.last().is_some_and(Turn::was_cancelled);
        if out.json {
            let row = self.session.info().await?;
            let provider = ProviderData { name: self.provider.name(), offline: true };
            out.json(&Answer { session: SessionData::from(&row), provider, turns })?;
        } else if cancelled {
            note(false, "the turn was cancelled; your message is kept, the answer so far is only shown");
        }
        Ok(if cancelled { exit::CANCELLED } else { exit::OK })
    }

    /// Says which session this is and who answers.
    async fn introduce(&self, out: &mut Out) -> Outcome<()> {
        let id = out.paint.bold(&text::line(self.session.id().as_str()));
        let about = if self.session.is_stored() {
            let row = self.session.info().await?;
            format!("{} so far: {}", count(row.messages.into(), "message"), text::cut(&name(&row), 60))
        } else {
            "new".to_owned()
        };
        out.line(format!("session {id} ({about})"))?;
        out.line(out.paint.dim(self.provider.about()))
    }

    /// Shows what was said, where no terminal has shown it.
    fn quote(&self, said: &str, out: &mut Out) -> Outcome<()> {
        for line in text::block(said).lines() {
            out.line(format!("{} {line}", out.paint.person(">")))?;
        }
        Ok(())
    }
}
