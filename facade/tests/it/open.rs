//! Opening workspaces by directory and stores by URL.
#![cfg(feature = "sqlite")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use turnkeep::{ErrorKind, Fate, Message, OpenOptions, Workspace, open_store};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn project(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn options(&self) -> OpenOptions {
        OpenOptions::new().state_root(self.0.path().join("state"))
    }

    async fn open(&self, directory: &Path) -> Workspace {
        self.options().open(directory).await.unwrap()
    }
}

async fn say(ws: &Workspace, text: &str) {
    let session = ws.sessions().create().title(text).await.unwrap();
    let run = session.begin_run(Message::user(text)).await.unwrap();
    run.complete([Message::assistant("noted")]).await.unwrap();
}

async fn titles(ws: &Workspace) -> Vec<String> {
    let rows = ws.sessions().list().await.unwrap().items;
    rows.into_iter().map(|row| row.profile.title.unwrap().text).collect()
}

#[tokio::test]
async fn a_workspace_keeps_its_sessions_outside_of_its_directory() {
    let place = Place::new();
    let project = place.project("p");
    let ws = place.open(&project).await;
    say(&ws, "one").await;
    ws.close().await.unwrap();
    let ws = place.open(&project).await;
    assert_eq!(titles(&ws).await, ["one"]);
    let database = PathBuf::from(&ws.store().info().location);
    assert!(database.is_file() && !database.starts_with(project.canonicalize().unwrap()));
    let inside: Vec<_> = fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(inside, [".turnkeep"]);
}

#[tokio::test]
async fn case_68_no_file_of_the_state_can_be_read_by_others() {
    let place = Place::new();
    let ws = place.open(&place.project("p")).await;
    say(&ws, "secret").await;
    let mut folders = vec![place.0.path().join("state")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        assert_eq!(
            fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
            0o700,
            "{}",
            folder.display()
        );
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files += 1;
                assert_eq!(
                    fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                    0o600,
                    "{}",
                    path.display()
                );
            }
        }
    }
    assert!(files >= 4, "database, write-ahead log, record, locks");
}

#[tokio::test]
async fn a_copy_starts_empty_and_the_original_keeps_its_history() {
    let place = Place::new();
    let original = place.project("a");
    let ws = place.open(&original).await;
    say(&ws, "of the original").await;
    let copy = place.project("b");
    fs::create_dir(copy.join(".turnkeep")).unwrap();
    fs::copy(original.join(".turnkeep/workspace-id"), copy.join(".turnkeep/workspace-id")).unwrap();
    let other = place.open(&copy).await; // both at once
    assert!(titles(&other).await.is_empty());
    say(&other, "of the copy").await;
    assert_eq!(titles(&ws).await, ["of the original"]);
    assert_eq!(titles(&other).await, ["of the copy"]);
    assert_ne!(ws.id(), other.id());
    assert_ne!(ws.store().info().location, other.store().info().location);
}

#[tokio::test]
async fn a_moved_workspace_keeps_its_history() {
    let place = Place::new();
    let project = place.project("a");
    let ws = place.open(&project).await;
    say(&ws, "before the move").await;
    ws.close().await.unwrap();
    fs::rename(&project, place.0.path().join("b")).unwrap();
    let moved = place.0.path().join("b");
    let located = place.options().locate(&moved).await.unwrap();
    assert!(matches!(located.fate(), Fate::Moved { .. }));
    let ws = place.options().open_at(&located).await.unwrap();
    assert_eq!(titles(&ws).await, ["before the move"]);
}

#[tokio::test]
async fn a_workspace_opened_twice_at_once_is_one() {
    let place = Place::new();
    let project = place.project("p");
    let (one, two) = tokio::join!(place.open(&project), place.open(&project));
    assert_eq!(one.id(), two.id());
    say(&one, "one").await;
    say(&two, "two").await;
    assert_eq!(titles(&one).await, ["two", "one"]);
}

#[tokio::test]
async fn an_unsafe_root_is_refused_before_anything_is_made() {
    let place = Place::new();
    let project = place.project("p");
    let options = OpenOptions::new().state_root(project.join("state"));
    let refused = options.open(&project).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::UnsafeRoot);
    assert_eq!(fs::read_dir(&project).unwrap().count(), 0);
}

#[tokio::test]
async fn an_application_keeps_state_under_names_of_its_own() {
    let place = Place::new();
    let project = place.project("p");
    let ws = place.options().app("my-agent").open(&project).await.unwrap();
    say(&ws, "one").await;
    assert!(project.join(".my-agent/workspace-id").is_file());
    assert!(!project.join(".turnkeep").exists());
    assert_eq!(place.options().app("../x").open(&project).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn stores_are_opened_by_url() {
    let place = Place::new();
    let path = place.0.path().join("some.sqlite3");
    let store = open_store(&format!("sqlite:{}", path.display())).await.unwrap();
    assert_eq!(store.info().name, "sqlite");
    assert!(path.is_file());
    for bad in ["", "sqlite:", "sqlite", "memory", "memory:x", "mysql:x", "/some/path", "SQLITE:x"] {
        let refused = open_store(bad).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{bad:?}");
    }
    let refused = open_store(&format!("sqlite:{}", place.0.path().display())).await.unwrap_err();
    assert_ne!(refused.kind(), ErrorKind::NotFound, "a folder is no database: {refused}");
}

#[cfg(feature = "memory")]
#[tokio::test]
async fn memory_stores_are_new_and_empty() {
    let (one, two) = (open_store("memory:").await.unwrap(), open_store("memory:").await.unwrap());
    assert_eq!((one.info().name, two.info().name), ("memory", "memory"));
    let id = || turnkeep::WorkspaceId::new("w").unwrap();
    let ws = turnkeep::Workspace::open(one, id()).await.unwrap();
    ws.sessions().create().await.unwrap();
    let other = turnkeep::Workspace::open(two, id()).await.unwrap();
    assert_eq!(ws.sessions().list().count().await.unwrap(), 1);
    assert_eq!(other.sessions().list().count().await.unwrap(), 0);
}

#[cfg(not(feature = "memory"))]
#[tokio::test]
async fn a_backend_that_was_not_compiled_in_is_unsupported() {
    let refused = open_store("memory:").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("feature"), "{refused}");
}

#[cfg(feature = "blocking")]
#[test]
fn a_workspace_is_opened_without_a_runtime() {
    use turnkeep::blocking::Wait;
    let place = Place::new();
    let ws = place.options().open(place.project("p")).wait().unwrap();
    let session = ws.sessions().create().wait().unwrap();
    let run = session.begin_run(Message::user("q")).wait().unwrap();
    run.complete([Message::assistant("a")]).wait().unwrap();
    assert_eq!(session.replay().wait().unwrap().messages.len(), 2);
}

#[tokio::test]
async fn nothing_is_compacted_or_kept_in_the_workspace_unless_the_host_says_so() {
    let place = Place::new();
    let project = place.project("p");
    fs::write(project.join("MEMORY.md"), "the host's").unwrap();
    let ws = place.open(&project).await;
    let session = ws.sessions().create().await.unwrap();
    for number in 0..50 {
        let run = session.begin_run(Message::user(format!("q{number}"))).await.unwrap();
        run.complete([Message::assistant("a ".repeat(2000))]).await.unwrap();
    }
    assert!(session.latest_compaction().await.unwrap().is_none());
    assert_eq!(session.replay().await.unwrap().messages.len(), 100);
    assert_eq!(fs::read_to_string(project.join("MEMORY.md")).unwrap(), "the host's");
    assert_eq!(fs::read_dir(&project).unwrap().count(), 2);
}
