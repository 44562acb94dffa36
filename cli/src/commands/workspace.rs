//! `turnkeep workspace show`

use serde::Serialize;
use turnkeep::WorkspaceId;

use crate::args::Global;
use crate::exit;
use crate::failure::Outcome;
use crate::open::{self, APP};
use crate::output::{Out, text};

#[derive(Serialize)]
struct Answer<'a> {
    workspace: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    id: &'a WorkspaceId,
    folder: Option<String>,
    marker: Option<String>,
    state: Option<String>,
    logs: Option<String>,
    store: &'a str,
    sessions: u64,
}

pub(crate) async fn run(global: &Global, out: &mut Out) -> Outcome<u8> {
    let opened = open::open(global).await?;
    let workspace = &opened.workspace;
    let all = turnkeep::query::AudienceFilter::Any;
    let sessions = workspace.sessions().list().audience(all).count().await?;
    let store = &workspace.store().info().location;
    let paths = opened.dir.as_ref().map(|dir| {
        let marker = dir.directory().join(format!(".{APP}")).join("workspace-id");
        [dir.directory().to_owned(), marker, dir.state_folder().to_owned(), dir.log_folder().to_owned()]
            .map(|path| path.display().to_string())
    });
    if out.json {
        let [folder, marker, state, logs] = match paths {
            Some(paths) => paths.map(Some),
            None => [const { None }; 4],
        };
        let id = workspace.id();
        out.json(&Answer { workspace: Data { id, folder, marker, state, logs, store, sessions } })?;
        return Ok(exit::OK);
    }
    let [folder, marker, state, logs] = match paths {
        Some(paths) => paths.map(|path| text::line(&path)),
        None => [const { String::new() }; 4],
    };
    out.pairs(&[
        ("workspace", text::line(workspace.id().as_str())),
        ("folder", folder),
        ("marker", marker),
        ("state", state),
        ("logs", logs),
        ("store", text::line(store)),
        ("sessions", sessions.to_string()),
    ])?;
    Ok(exit::OK)
}
