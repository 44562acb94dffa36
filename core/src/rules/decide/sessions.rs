//! Making, changing and removing sessions.

use crate::commit::{NewSession, Outcome, SessionPatch};
use crate::error::{Error, ErrorKind, Result};
use crate::id::SessionRef;
use crate::model::{LeaseName, PathState, Profile, RestoreState, SessionRow, SessionState, Usage};
use crate::mutant;
use crate::rules::SessionChange;

use super::state::State;

pub(super) fn create(state: &mut State<'_>, new: &NewSession) -> Result<Outcome> {
    if state.facts.sessions.contains_key(&new.id) && !mutant::is("sessions/created-over-another") {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            "a session with this id is there; it was not touched",
        )
        .with("session", &new.id));
    }
    let session = SessionRef { id: new.id.clone(), incarnation: new.incarnation };
    // What was looked up below the one that goes is known under the name of this one.
    if state.deleted_here(&session) && !mutant::is("sessions/deleted-life-made-again") {
        return Err(Error::new(
            ErrorKind::Invalid,
            "a life cannot be made again in the commit that deletes it; draw another incarnation",
        )
        .with("session", &new.id));
    }
    let row = SessionRow {
        workspace: state.workspace.clone(),
        id: new.id.clone(),
        incarnation: new.incarnation,
        state: new.state,
        revision: 1,
        activity: state.stamp.activity,
        created_at: state.stamp.now,
        updated_at: state.stamp.now,
        head: None,
        path: PathState::default(),
        active_run: None,
        runs: 0,
        messages: 0,
        preview: None,
        usage: Usage::default(),
        profile: said_of(new),
        restore: (new.state == SessionState::Restoring).then(RestoreState::default),
    };
    state.insert_session(row);
    Ok(Outcome::Done)
}

fn said_of(new: &NewSession) -> Profile {
    let mut said = new.profile.clone();
    if mutant::is("sessions/directory-not-kept") {
        said.cwd = None;
    }
    if mutant::is("sessions/parent-not-kept") {
        said.parent = None;
    }
    if mutant::is("sessions/fork-not-kept") {
        said.fork = None;
    }
    if mutant::is("sessions/channel-not-kept") {
        said.channel = None;
    }
    said
}

pub(super) fn patch(state: &mut State<'_>, session: &SessionRef, patch: &SessionPatch) -> Result<Outcome> {
    state.active(session)?;
    let profile = &mut state.touch(session, SessionChange::All)?.profile;
    let SessionPatch { title, cwd, channel, project, pinned, archived, meta } = patch;
    set(&mut profile.title, title.as_ref());
    set(&mut profile.cwd, cwd.as_ref());
    set(&mut profile.channel, channel.as_ref());
    set(&mut profile.project, project.as_ref());
    set(&mut profile.pinned, pinned.as_ref());
    set(&mut profile.archived, archived.as_ref());
    set(&mut profile.meta, meta.as_ref());
    Ok(Outcome::Done)
}

fn set<T: Clone>(field: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        field.clone_from(value);
    }
}

/// Gone from every read in this commit. What is being built may be given up only by its builder, or by force.
pub(super) fn delete(state: &mut State<'_>, session: &SessionRef, force: bool) -> Result<Outcome> {
    let row = state.any(session)?;
    let (building, active_run) = (row.state == SessionState::Restoring, row.active_run.clone());
    if state.made_here(session) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "a session cannot be deleted in the commit that makes it",
        )
        .with("session", &session.id));
    }
    if state.copied_from(session) && !mutant::is("fork/source-deleted-meanwhile") {
        return Err(Error::new(
            ErrorKind::Invalid,
            "a session cannot be deleted in the commit that copies from it",
        )
        .with("session", &session.id));
    }
    if !force {
        if building {
            if !mutant::is("restore/anybody-gives-it-up") {
                state.builder(session)?;
            }
        } else if !mutant::is("deletes/held-session") {
            state.exclusive(session)?;
        }
        let fenced = state.held.contains(&LeaseName::Session(session.clone()));
        if let (Some(run), false) = (active_run, fenced)
            && !mutant::is("deletes/active-run")
        {
            return Err(Error::new(
                ErrorKind::ActiveRun,
                "the session has an active run; finish it, or force the delete",
            )
            .with("session", &session.id)
            .with("run", run));
        }
    }
    state.remove_session(session);
    state.touch_workspace();
    Ok(Outcome::Done)
}
