//! One turn: what a person says and what is answered.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use turnkeep::model::{RunState, Usage};
use turnkeep::state::ModelRequest;
use turnkeep::{ErrorKind, Message, Run, RunError};

use super::Conversation;
use crate::failure::Outcome;
use crate::output::{Out, text};

/// How often the answer so far is kept while it streams in.
const KEEP_EVERY: Duration = Duration::from_millis(200);

/// What became of a turn.
#[derive(Debug, Serialize)]
pub(crate) struct Turn {
    said: String,
    run: Option<String>,
    state: RunState,
    answer: String,
}

impl Turn {
    pub(crate) fn was_cancelled(&self) -> bool {
        self.state == RunState::Cancelled
    }
}

/// How an answer ended.
enum Answered {
    Whole,
    Cancelled,
    Lost,
}

impl Conversation<'_> {
    /// Says something and shows the answer. The message is durable before the provider is asked; the answer is
    /// complete or not there.
    pub(super) async fn turn(&mut self, said: &str, out: &mut Out) -> Outcome<Turn> {
        // What stands above the answer is seen before the wait for it.
        let mut shown = out.flush();
        let mut turn =
            Turn { said: said.to_owned(), run: None, state: RunState::Cancelled, answer: String::new() };
        let begin = self
            .session
            .begin_run(Message::user(said))
            .source("cli")
            .model(self.provider.name())
            .work_dir(&self.global.workspace);
        let run = tokio::select! {
            biased;
            () = self.interrupts.next() => return Ok(turn),
            run = begin.into_future() => run?,
        };
        turn.run = Some(run.id().to_string());
        let begun = Instant::now();
        let answered = match self.answer(&run, &mut turn.answer, &mut shown, out).await {
            Ok(answered) => answered,
            Err(failure) => {
                // The first failure is what the person must know; if the run cannot be closed, recovery closes it.
                let _ = run.fail(RunError::host("answer")).await;
                return Err(failure);
            }
        };
        // The echo counts no tokens, but a request it was.
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let request = ModelRequest::new(self.provider.name(), Usage { duration_ms, ..Usage::default() });
        match answered {
            Answered::Whole => {
                let answer = Message::assistant(turn.answer.as_str());
                run.complete([answer]).usage(request).await?;
                turn.state = RunState::Completed;
            }
            Answered::Cancelled => {
                run.add_usage(request).await?;
                run.cancel().await?;
            }
            Answered::Lost => {
                return Err(turnkeep::Error::new(
                    ErrorKind::LeaseLost,
                    "another process took the session over or deleted it; the answer was not kept",
                )
                .with("session", self.session.id())
                .into());
            }
        }
        if !out.json && shown.is_ok() {
            shown = out.line("");
        }
        // The turn is kept, whether or not somebody still reads along.
        shown?;
        Ok(turn)
    }

    async fn answer(
        &mut self,
        run: &Run,
        answer: &mut String,
        shown: &mut Outcome<()>,
        out: &mut Out,
    ) -> Outcome<Answered> {
        let replay = self.session.replay().await?;
        run.phase("answering");
        let (pieces, pause) = self.provider.answer(&replay);
        let mut kept_at = Instant::now();
        let mut kept = 0;
        for piece in pieces {
            tokio::select! {
                biased;
                () = self.interrupts.next() => return Ok(Answered::Cancelled),
                () = run.lost() => return Ok(Answered::Lost),
                () = tokio::time::sleep(pause) => {}
            }
            answer.push_str(&piece);
            if !out.json && shown.is_ok() {
                *shown = out.piece(&text::block(&piece));
            }
            if kept_at.elapsed() >= KEEP_EVERY
                && let Some(unkept) = answer.get(kept..)
            {
                run.stream(unkept).await?;
                kept = answer.len();
                kept_at = Instant::now();
            }
        }
        if self.interrupts.pending().await { Ok(Answered::Cancelled) } else { Ok(Answered::Whole) }
    }
}
