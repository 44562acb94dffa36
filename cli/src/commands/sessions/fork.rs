//! `turnkeep sessions fork`

use turnkeep::core::ForkReason;
use turnkeep::core::digest::to_hex;
use turnkeep::{Entropy, EntryNo, ErrorKind, ForkTitle, SessionId, SystemEntropy};

use super::refuse_empty_title;
use crate::args::{Fork, Global};
use crate::failure::{Failure, Outcome};
use crate::output::session::OneSession;
use crate::output::words::count_of;
use crate::output::{Out, text};
use crate::{exit, open, pick};

pub(crate) async fn run(global: &Global, fork: Fork, out: &mut Out) -> Outcome<u8> {
    if let Some(title) = &fork.title {
        refuse_empty_title(title)?;
    }
    let new_id = fork.new_id.map(SessionId::new).transpose()?;
    let workspace = open::workspace(global).await?;
    let source = pick::session(&workspace, &fork.pick).await?;
    let request = match fork.request {
        Some(request) => request,
        None => once()?,
    };
    let mut wish = source.fork(request).title(fork.title.map_or(ForkTitle::Marked, ForkTitle::Given));
    if let Some(at) = fork.at.and_then(EntryNo::new) {
        wish = wish.at(at);
    }
    if let Some(id) = new_id {
        wish = wish.id(id);
    }
    let forked = wish.await.map_err(|error| {
        let hint = hint(error.kind());
        let failure = Failure::from(error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    if out.json {
        let row = forked.session.info().await?;
        out.json(&OneSession::from(&row))?;
    } else {
        let taken = count_of(forked.origin.seed_length.into(), "entry", "entries");
        let (child, parent) = (forked.session.id().as_str(), forked.parent.as_str());
        let before = if forked.repeated { ", as before" } else { "" };
        let up_to = forked.origin.boundary;
        out.line(format!(
            "{} is a fork of {}: {taken}, up to #{up_to}{before}",
            text::line(child),
            text::line(parent)
        ))?;
    }
    Ok(exit::OK)
}

/// A request of this call alone: the next call is another fork.
fn once() -> Outcome<String> {
    let mut random = [0; 16];
    SystemEntropy.fill(&mut random)?;
    Ok(format!("cli/{}", to_hex(&random)))
}

fn hint(kind: ErrorKind) -> Option<&'static str> {
    let ErrorKind::ForkRefused(reason) = kind else { return None };
    Some(match reason {
        ForkReason::SourceActive => "wait until its run is over, or cancel it",
        ForkReason::InvalidBoundary => {
            "`turnkeep sessions show ID` numbers the words of each turn; take the last of one"
        }
        ForkReason::NoCompletedTurn => "a fork needs at least one answer that was completed",
        _ => return None,
    })
}
