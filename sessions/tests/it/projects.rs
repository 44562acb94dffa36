//! Projects, and what sessions say of them.

use turnkeep_core::commit::SessionPatch;
use turnkeep_core::{ErrorKind, Page, ProjectId};
use turnkeep_sessions::Message;

use crate::site::{Site, on_each};

on_each!(
    projects_are_made_listed_renamed_and_deleted,
    a_stale_rename_or_delete_is_refused,
    of_many_renames_of_one_state_one_lands,
    a_deleted_project_reads_as_none_at_once_in_lists_filters_and_sessions,
    project_and_pin_change_in_one_commit_while_somebody_runs,
    a_project_that_is_not_there_is_refused,
);

async fn projects_are_made_listed_renamed_and_deleted(site: Site) {
    let ws = site.workspace().await;
    let mut made = Vec::new();
    for name in ["work", "home", "work"] {
        made.push(ws.projects().create(name).await.unwrap());
    }
    let names = |page: Page<turnkeep_sessions::state::Project>| -> Vec<String> {
        page.items.into_iter().map(|project| project.name).collect()
    };
    let first = ws.projects().list(2, None).await.unwrap();
    let rest = ws.projects().list(2, first.next.clone()).await.unwrap();
    assert_eq!((names(first), names(rest)), (vec!["work".into(), "home".into()], vec!["work".into()]));
    let renamed = ws.projects().rename(&made[1], "garden").await.unwrap();
    assert_eq!((renamed.name.as_str(), &renamed.id), ("garden", &made[1].id));
    assert_eq!(renamed.created_at, made[1].created_at);
    let other = site.workspace().await;
    assert_eq!(other.projects().get(&renamed.id).await.unwrap(), Some(renamed.clone()));
    other.projects().delete(&renamed).await.unwrap();
    assert_eq!(ws.projects().get(&renamed.id).await.unwrap(), None);
    assert_eq!(ws.projects().list(10, None).await.unwrap().items.len(), 2);
    let empty = ws.projects().create(" \t").await.unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::Invalid);
    let elsewhere = site.workspace_named("other").await;
    assert!(elsewhere.projects().list(10, None).await.unwrap().items.is_empty());
}

async fn a_stale_rename_or_delete_is_refused(site: Site) {
    let ws = site.workspace().await;
    let read = ws.projects().create("a").await.unwrap();
    let newer = site.workspace().await.projects().rename(&read, "b").await.unwrap();
    let stale = ws.projects().rename(&read, "c").await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::VersionConflict);
    let stale = ws.projects().delete(&read).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::VersionConflict);
    assert_eq!(ws.projects().get(&read.id).await.unwrap().unwrap().name, "b");
    ws.projects().delete(&newer).await.unwrap();
    let gone = ws.projects().rename(&newer, "d").await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::VersionConflict, "nothing brings a deleted project back");
}

async fn of_many_renames_of_one_state_one_lands(site: Site) {
    let ws = site.workspace().await;
    let read = ws.projects().create("a").await.unwrap();
    let mut tries = Vec::new();
    for number in 0..6 {
        let (other, read) = (site.workspace().await, read.clone());
        tries.push(tokio::spawn(
            async move { other.projects().rename(&read, format!("name {number}")).await },
        ));
    }
    let mut landed = Vec::new();
    for one in tries {
        match one.await.unwrap() {
            Ok(project) => landed.push(project),
            Err(error) => assert_eq!(error.kind(), ErrorKind::VersionConflict),
        }
    }
    assert_eq!(landed.len(), 1);
    assert_eq!(ws.projects().get(&read.id).await.unwrap(), landed.pop());
}

async fn a_deleted_project_reads_as_none_at_once_in_lists_filters_and_sessions(site: Site) {
    let ws = site.workspace().await;
    let kept = ws.projects().create("kept").await.unwrap();
    let doomed = ws.projects().create("doomed").await.unwrap();
    let mut sessions = Vec::new();
    for project in [&kept, &doomed, &doomed] {
        let session = ws.sessions().create().project(project.id.as_str()).await.unwrap();
        session.append([Message::user("hello")]).await.unwrap();
        sessions.push(session);
    }
    let order: Vec<_> = ws.sessions().list().await.unwrap().items.into_iter().map(|row| row.id).collect();
    let in_doomed = ws.sessions().list().project(doomed.id.as_str()).count().await.unwrap();
    assert_eq!(in_doomed, 2);
    let other = site.workspace().await;
    other.projects().delete(&doomed).await.unwrap();
    assert_eq!(sessions[1].info().await.unwrap().profile.project, None);
    assert_eq!(sessions[1].reload().await.unwrap().profile.project, None);
    let rows = ws.sessions().list().await.unwrap().items;
    let projects: Vec<_> = rows.iter().map(|row| row.profile.project.clone()).collect();
    assert_eq!(projects, [None, None, Some(kept.id.to_string())]);
    assert_eq!(rows.into_iter().map(|row| row.id).collect::<Vec<_>>(), order, "no session moved in the list");
    let page = ws.sessions().list().project(doomed.id.as_str()).total().await.unwrap();
    assert_eq!((page.items.len(), page.total), (0, Some(0)));
    assert_eq!(ws.sessions().list().project(doomed.id.as_str()).count().await.unwrap(), 0);
    assert_eq!(ws.sessions().list().project(kept.id.as_str()).count().await.unwrap(), 1);
    assert_eq!(sessions[2].messages().await.unwrap().items.len(), 1, "its sessions keep their history");
    // However many projects a page of sessions names.
    let mut more = Vec::new();
    for number in 0..5 {
        let project = ws.projects().create(format!("{number}")).await.unwrap();
        ws.sessions().create().project(project.id.as_str()).await.unwrap();
        more.push(project);
    }
    for project in more.iter().step_by(2) {
        other.projects().delete(project).await.unwrap();
    }
    let rows = ws.sessions().list().limit(5).await.unwrap().items;
    let projects: Vec<_> = rows.into_iter().map(|row| row.profile.project).collect();
    let left = |at: usize| Some(more[at].id.to_string());
    assert_eq!(projects, [None, left(3), None, left(1), None]);
}

async fn project_and_pin_change_in_one_commit_while_somebody_runs(site: Site) {
    let ws = site.workspace().await;
    let project = ws.projects().create("p").await.unwrap();
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("work")).await.unwrap();
    let person = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let before = person.info().await.unwrap().revision;
    let patch = SessionPatch {
        project: Some(Some(project.id.to_string())),
        pinned: Some(true),
        ..SessionPatch::default()
    };
    person.patch(patch).await.unwrap();
    let row = session.info().await.unwrap();
    assert_eq!((row.profile.project, row.profile.pinned), (Some(project.id.to_string()), true));
    assert_eq!(row.revision, before + 1);
    let found = ws.sessions().list().project(project.id.as_str()).pinned(true).await.unwrap().items;
    assert_eq!(found.len(), 1);
    person.patch(SessionPatch { project: Some(None), ..SessionPatch::default() }).await.unwrap();
    assert_eq!(session.info().await.unwrap().profile.project, None);
    run.complete([Message::assistant("done")]).await.unwrap();
}

async fn a_project_that_is_not_there_is_refused(site: Site) {
    let ws = site.workspace().await;
    let unknown = ProjectId::new("nothing").unwrap();
    let made = ws.sessions().create().project(unknown.as_str()).await.unwrap_err();
    assert_eq!(made.kind(), ErrorKind::NotFound);
    let session = ws.sessions().create().await.unwrap();
    for text in ["nothing", "", "no\tid"] {
        let patch = SessionPatch { project: Some(Some(text.into())), ..SessionPatch::default() };
        assert_eq!(session.patch(patch).await.unwrap_err().kind(), ErrorKind::NotFound, "{text:?}");
    }
    assert_eq!(ws.sessions().list().count().await.unwrap(), 1);
}
