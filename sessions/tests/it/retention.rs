//! Retention: only when asked, and never what is pinned or at work.

use std::time::Duration;

use turnkeep_core::model::{Audience, LeasePurpose};
use turnkeep_core::query::AudienceFilter;
use turnkeep_core::{ErrorKind, SessionId};
use turnkeep_sessions::{Message, Workspace, session_lease};

use crate::site::{Site, on_each};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

on_each!(
    case_58_sessions_of_400_days_are_never_deleted_by_default,
    pruning_is_a_dry_run_unless_it_is_applied,
    what_is_pinned_or_at_work_is_never_pruned,
    sub_agents_and_what_is_in_use_are_left_alone_unless_named,
);

async fn titled(workspace: &Workspace, title: &str) -> turnkeep_sessions::Session {
    let session =
        workspace.sessions().create().id(SessionId::new(title).unwrap()).title(title).await.unwrap();
    session.append([Message::user("hello")]).await.unwrap();
    session
}

async fn ids(workspace: &Workspace) -> Vec<String> {
    let list = workspace.sessions().list().audience(AudienceFilter::Any).await.unwrap();
    let mut ids: Vec<String> = list.items.into_iter().map(|row| row.id.to_string()).collect();
    ids.sort();
    ids
}

async fn case_58_sessions_of_400_days_are_never_deleted_by_default(site: Site) {
    let (site, clock) = site.with_clock();
    let workspace = site.workspace().await;
    titled(&workspace, "old").await;
    let run = titled(&workspace, "finished").await.begin_run(Message::user("why?")).await.unwrap();
    run.complete([Message::assistant("because")]).await.unwrap();
    workspace.close().await.unwrap();
    clock.advance_ms(400 * DAY_MS);
    // Everything that a host does by itself: open, recover, list, write, purge, verify, close.
    for _ in 0..3 {
        let workspace = site.workspace().await;
        workspace.recover().await.unwrap();
        titled(&workspace, &format!("new {}", ids(&workspace).await.len())).await;
        let chores = workspace.store().maintenance().unwrap();
        chores.purge().await.unwrap();
        chores.verify().await.unwrap();
        workspace.close().await.unwrap();
        clock.advance_ms(400 * DAY_MS);
    }
    let workspace = site.workspace().await;
    assert_eq!(ids(&workspace).await, ["finished", "new 2", "new 3", "new 4", "old"]);
    // Also somebody who asks is only told.
    let report = workspace.retention().older_than(DAY * 90).await.unwrap();
    assert_eq!((report.applied, report.sessions.len()), (false, 5));
    assert_eq!(ids(&workspace).await.len(), 5);
    let report = workspace.retention().older_than(DAY * 99_999).apply().await.unwrap();
    assert!(report.applied && report.sessions.is_empty(), "{report:?}");
    assert_eq!(ids(&workspace).await.len(), 5);
}

async fn pruning_is_a_dry_run_unless_it_is_applied(site: Site) {
    let (site, clock) = site.with_clock();
    let workspace = site.workspace().await;
    let old = titled(&workspace, "old").await;
    clock.advance_ms(91 * DAY_MS);
    titled(&workspace, "young").await;
    let prune = workspace.retention().older_than(DAY * 90);
    let told = prune.clone().await.unwrap();
    assert!(!told.applied);
    let [gone] = told.sessions.as_slice() else { panic!("{told:?}") };
    assert_eq!((gone.session.as_str(), gone.title.as_deref(), gone.messages), ("old", Some("old"), 1));
    assert_eq!(ids(&workspace).await, ["old", "young"]);
    let done = prune.apply().await.unwrap();
    assert!(done.applied);
    assert_eq!(done.sessions, told.sessions);
    assert_eq!(ids(&workspace).await, ["young"]);
    assert_eq!(old.info().await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn what_is_pinned_or_at_work_is_never_pruned(site: Site) {
    let (site, clock) = site.with_clock();
    let workspace = site.workspace().await;
    titled(&workspace, "pinned").await.pin(true).await.unwrap();
    let run = titled(&workspace, "running").await.begin_run(Message::user("go")).await.unwrap();
    let held = titled(&workspace, "held").await;
    let name = session_lease(held.session_ref());
    let lease = workspace.leases().try_acquire([name], LeasePurpose::Mutation).await.unwrap();
    titled(&workspace, "old").await;
    clock.advance_ms(400 * DAY_MS);
    let prune = workspace.retention().older_than(DAY);
    let told = prune.clone().await.unwrap();
    assert_eq!((told.kept_pinned, told.kept_active), (1, 2), "whoever holds a session is at work on it");
    let done = prune.apply().await.unwrap();
    assert_eq!((done.kept_pinned, done.kept_active), (1, 2));
    assert_eq!(done.sessions, told.sessions);
    assert_eq!(done.sessions.len(), 1);
    assert_eq!(ids(&workspace).await, ["held", "pinned", "running"]);
    lease.release().await.unwrap();
    run.complete([Message::assistant("done")]).await.unwrap();
}

async fn sub_agents_and_what_is_in_use_are_left_alone_unless_named(site: Site) {
    let (site, clock) = site.with_clock();
    let workspace = site.workspace().await;
    let helper = workspace
        .sessions()
        .create()
        .id(SessionId::new("helper").unwrap())
        .audience(Audience::SubAgent)
        .await
        .unwrap();
    helper.append([Message::user("help")]).await.unwrap();
    titled(&workspace, "away").await.archive(true).await.unwrap();
    titled(&workspace, "open").await;
    clock.advance_ms(10 * DAY_MS);
    let prune = workspace.retention().older_than(DAY);
    let names = |report: turnkeep_sessions::PruneReport| -> Vec<String> {
        report.sessions.into_iter().map(|one| one.session.to_string()).collect()
    };
    assert_eq!(names(prune.clone().only_archived().await.unwrap()), ["away"]);
    assert_eq!(names(prune.clone().await.unwrap()), ["away", "open"]);
    assert_eq!(names(prune.clone().audience(AudienceFilter::Any).await.unwrap()), ["away", "helper", "open"]);
    assert_eq!(names(prune.only_archived().apply().await.unwrap()), ["away"]);
    assert_eq!(ids(&workspace).await, ["helper", "open"]);
}
