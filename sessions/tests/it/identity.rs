//! Which workspace a directory is: copies, moves, links, mounts, damage.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use turnkeep_core::ErrorKind;
use turnkeep_sessions::{Fate, StateLayout, WorkspaceDir};

/// A place with a directory for projects and a state root.
struct Place {
    folder: tempfile::TempDir,
    layout: StateLayout,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layout = StateLayout::at("turnkeep", folder.path().join("state")).unwrap();
        Self { folder, layout }
    }

    fn project(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn resolve(&self, directory: &Path) -> WorkspaceDir {
        WorkspaceDir::resolve(directory, &self.layout).unwrap()
    }

    fn refuse(&self, directory: &Path) -> turnkeep_core::Error {
        WorkspaceDir::resolve(directory, &self.layout).unwrap_err()
    }
}

fn marker(directory: &Path) -> PathBuf {
    directory.join(".turnkeep/workspace-id")
}

/// As `cp -r` does.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_marker_is_in_the_workspace_and_state_is_private() {
    let place = Place::new();
    let project = place.project("p");
    let found = place.resolve(&project);
    assert_eq!(found.fate(), &Fate::Created);
    let id = found.id().unwrap();
    assert_eq!(fs::read_to_string(marker(&project)).unwrap().trim(), id.as_str());
    let mut names: Vec<OsString> =
        fs::read_dir(project.join(".turnkeep")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".gitignore", "workspace-id"]);
    assert_eq!(fs::read_to_string(project.join(".turnkeep/.gitignore")).unwrap(), "*\n");
    let root = place.path("state");
    assert_eq!(found.database(), root.canonicalize().unwrap().join(format!("workspaces/{id}/state.sqlite3")));
    assert!(found.log_folder().ends_with(format!("logs/{id}")));
    for folder in
        [root.clone(), root.join("workspaces"), found.state_folder().to_owned(), project.join(".turnkeep")]
    {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    for file in [marker(&project), found.state_folder().join("origin.json"), root.join("identity.lock")] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    assert_eq!(place.resolve(&project).fate(), &Fate::Known);
    assert_eq!(place.resolve(&project).id().unwrap(), id);
}

#[test]
fn a_state_folder_that_others_may_enter_is_made_private() {
    let place = Place::new();
    let project = place.project("p");
    let found = place.resolve(&project);
    fs::set_permissions(found.state_folder(), fs::Permissions::from_mode(0o755)).unwrap();
    place.resolve(&project);
    assert_eq!(mode(found.state_folder()), 0o700);
}

#[test]
fn a_copy_whose_original_exists_gets_an_id_of_its_own_once() {
    let place = Place::new();
    let original = place.project("a");
    let first = place.resolve(&original).id().unwrap();
    copy(&original, &place.path("b"));
    let copied = place.resolve(&place.path("b"));
    let Fate::Copied { of, original: from } = copied.fate() else { panic!("{:?}", copied.fate()) };
    assert_eq!((of, from), (&original.canonicalize().unwrap(), &first));
    let second = copied.id().unwrap();
    assert_ne!(first, second);
    for _ in 0..2 {
        assert_eq!(place.resolve(&original).id().unwrap(), first);
        let again = place.resolve(&place.path("b"));
        assert_eq!((again.id().unwrap(), again.fate()), (second.clone(), &Fate::Known));
    }
    copy(&place.path("b"), &place.path("c"));
    assert_ne!(place.resolve(&place.path("c")).id().unwrap(), second, "a copy of a copy is a copy");
}

#[test]
fn a_moved_workspace_keeps_its_id() {
    let place = Place::new();
    let old = place.project("a");
    let id = place.resolve(&old).id().unwrap();
    let from = old.canonicalize().unwrap();
    fs::rename(&old, place.path("b")).unwrap();
    let moved = place.resolve(&place.path("b"));
    assert_eq!((moved.id().unwrap(), moved.fate()), (id.clone(), &Fate::Moved { from }));
    assert_eq!(place.resolve(&place.path("b")).fate(), &Fate::Known);
    // Moved to another file system: copied and removed.
    copy(&place.path("b"), &place.path("c"));
    fs::remove_dir_all(place.path("b")).unwrap();
    assert_eq!(place.resolve(&place.path("c")).id().unwrap(), id);
    // The old path is used by something else by now.
    fs::rename(place.path("c"), place.path("d")).unwrap();
    let other = place.resolve(&place.project("c"));
    assert_eq!(other.fate(), &Fate::Created);
    assert_eq!(place.resolve(&place.path("d")).id().unwrap(), id);
    assert_ne!(other.id().unwrap(), id);
}

#[test]
fn a_moved_workspace_keeps_its_id_though_a_copy_took_its_place() {
    let place = Place::new();
    let project = place.project("a");
    let id = place.resolve(&project).id().unwrap();
    fs::rename(&project, place.path("b")).unwrap();
    copy(&place.path("b"), &project);
    // The directory itself is known by its place on the disk, wherever its path.
    let moved = place.resolve(&place.path("b"));
    assert_eq!(moved.id().unwrap(), id);
    assert!(matches!(moved.fate(), Fate::Moved { .. }));
    let copied = place.resolve(&project);
    assert!(matches!(copied.fate(), Fate::Copied { .. }));
    assert_ne!(copied.id().unwrap(), id);
}

#[test]
fn case_56_a_link_to_a_workspace_or_its_parent_is_the_same_workspace() {
    let place = Place::new();
    let project = place.project("deep/a");
    let id = place.resolve(&project).id().unwrap();
    symlink(&project, place.path("link")).unwrap();
    symlink(place.path("deep"), place.path("deep-link")).unwrap();
    for way in
        [place.path("link"), place.path("deep-link/a"), project.join("."), place.path("deep/../deep/a")]
    {
        let found = place.resolve(&way);
        assert_eq!((found.id().unwrap(), found.fate()), (id.clone(), &Fate::Known), "{}", way.display());
        assert_eq!(found.directory(), project.canonicalize().unwrap());
    }
}

/// A second mount of a directory cannot be made without rights, so the record is made to look like one: the same
/// directory under a path that is no link.
#[cfg(target_os = "linux")]
#[test]
fn a_second_mount_of_a_workspace_is_the_same_workspace() {
    let place = Place::new();
    let project = place.project("a");
    let id = place.resolve(&project).id().unwrap();
    let record = place.resolve(&project).state_folder().join("origin.json");
    let text = fs::read_to_string(&record).unwrap();
    // `/proc/self/root` leads to the same directory by another path, and is not resolved when it is only looked at.
    let real = project.canonicalize().unwrap();
    let other = Path::new("/proc/self/root").join(real.strip_prefix("/").unwrap());
    assert!(other.is_dir(), "/proc must be mounted");
    let changed = text.replace(real.to_str().unwrap(), other.to_str().unwrap());
    assert_ne!(text, changed);
    fs::write(&record, changed).unwrap();
    let found = place.resolve(&project);
    assert_eq!((found.id().unwrap(), found.fate()), (id, &Fate::Known));
}

#[test]
fn a_workspace_opened_by_many_at_once_has_one_id() {
    let place = Place::new();
    for round in 0..20 {
        let project = place.project(&format!("p{round}"));
        let barrier = Barrier::new(8);
        let ids: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        place.resolve(&project).id().unwrap()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    }
}

#[test]
fn an_original_and_its_copy_opened_at_once_differ() {
    let place = Place::new();
    for round in 0..10 {
        let original = place.project(&format!("a{round}"));
        let id = place.resolve(&original).id().unwrap();
        let other = place.path(&format!("b{round}"));
        copy(&original, &other);
        let barrier = Barrier::new(2);
        let (first, second) = std::thread::scope(|scope| {
            let resolve = |path: PathBuf| {
                let (place, barrier) = (&place, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    place.resolve(&path).id().unwrap()
                })
            };
            let (first, second) = (resolve(original.clone()), resolve(other.clone()));
            (first.join().unwrap(), second.join().unwrap())
        });
        assert_eq!(first, id);
        assert_ne!(second, id);
    }
}

#[test]
fn a_garbled_marker_is_a_typed_error_and_stays_as_it_is() {
    let place = Place::new();
    let project = place.project("p");
    place.resolve(&project);
    let long = "x".repeat(10_000);
    for text in [
        "",
        "\n",
        "not an id",
        "../../../etc",
        "/etc/passwd",
        "00000000-0000-0000-0000-000000000000",
        "{67e55044-10b1-426f-9247-bb680e5fe0c8}",
        "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
        "67e5504410b1426f9247bb680e5fe0c8",
        "67e55044-10b1-426f-9247-bb680e5fe0c8\n67e55044-10b1-426f-9247-bb680e5fe0c9",
        "67e55044-10b1-426f-9247-bb680e5fe0c8/../..",
        long.as_str(),
    ] {
        fs::write(marker(&project), text).unwrap();
        let refused = place.refuse(&project);
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{text:?}");
        assert!(refused.to_string().contains("remove the file"), "it says what to do: {refused}");
        assert_eq!(fs::read_to_string(marker(&project)).unwrap(), text);
    }
    fs::write(marker(&project), [0xff, 0xfe]).unwrap();
    assert_eq!(place.refuse(&project).kind(), ErrorKind::Corrupt);
    assert_eq!(fs::read_dir(place.path("state/workspaces")).unwrap().count(), 1, "nothing was made of them");
}

#[test]
fn a_marker_that_is_no_plain_file_is_refused() {
    let place = Place::new();
    let project = place.project("p");
    place.resolve(&project);
    let secret = place.path("secret");
    fs::write(&secret, "67e55044-10b1-426f-9247-bb680e5fe0c8").unwrap();
    fs::remove_file(marker(&project)).unwrap();
    symlink(&secret, marker(&project)).unwrap();
    assert_eq!(place.refuse(&project).kind(), ErrorKind::Corrupt);
    fs::remove_file(marker(&project)).unwrap();
    fs::create_dir(marker(&project)).unwrap();
    assert_eq!(place.refuse(&project).kind(), ErrorKind::Corrupt);
    fs::remove_dir_all(project.join(".turnkeep")).unwrap();
    symlink(place.project("elsewhere"), project.join(".turnkeep")).unwrap();
    assert_eq!(place.refuse(&project).kind(), ErrorKind::Corrupt);
    fs::remove_file(project.join(".turnkeep")).unwrap();
    fs::write(project.join(".turnkeep"), "a file").unwrap();
    assert_eq!(place.refuse(&project).kind(), ErrorKind::Corrupt);
    assert_eq!(
        fs::read_dir(place.path("elsewhere")).unwrap().count(),
        0,
        "nothing was written through the link"
    );
}

#[test]
fn an_unreadable_marker_is_a_typed_error_and_no_new_id() {
    let place = Place::new();
    let project = place.project("p");
    let id = place.resolve(&project).id().unwrap();
    fs::set_permissions(marker(&project), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(marker(&project)).is_ok() {
        // Rights do not bind root: a child process looks as somebody else.
        look_as_nobody(&place, &project);
    } else {
        assert_eq!(place.refuse(&project).kind(), ErrorKind::Io);
    }
    fs::set_permissions(marker(&project), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(place.resolve(&project).id().unwrap(), id);
}

/// Runs [`child_refuses_an_unreadable_marker`] as a user without rights.
fn look_as_nobody(place: &Place, project: &Path) {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    let state = place.project("nobodys");
    std::os::unix::fs::chown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
    [place.folder.path(), project, &project.join(".turnkeep")].into_iter().for_each(open);
    let program = place.path("test-program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    open(&program);
    let child = std::process::Command::new(&program)
        .args(["--exact", "identity::child_refuses_an_unreadable_marker", "--ignored"])
        .env("UNREADABLE_PROJECT", project)
        .env("UNREADABLE_STATE", &state)
        .current_dir(place.folder.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run by an_unreadable_marker_is_a_typed_error_and_no_new_id in a child process"]
fn child_refuses_an_unreadable_marker() {
    let (project, state) = (std::env::var_os("UNREADABLE_PROJECT"), std::env::var_os("UNREADABLE_STATE"));
    let (Some(project), Some(state)) = (project, state) else { return };
    let layout = StateLayout::at("turnkeep", PathBuf::from(state)).unwrap();
    let refused = WorkspaceDir::resolve(PathBuf::from(project), &layout).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
}

#[test]
fn a_copy_is_a_move_if_the_original_has_another_marker_by_now() {
    let place = Place::new();
    let original = place.project("a");
    let id = place.resolve(&original).id().unwrap();
    copy(&original, &place.path("b"));
    fs::remove_dir_all(original.join(".turnkeep")).unwrap();
    let renewed = place.resolve(&original);
    assert_eq!(renewed.fate(), &Fate::Created);
    let kept = place.resolve(&place.path("b"));
    assert_eq!(kept.id().unwrap(), id);
    assert!(matches!(kept.fate(), Fate::Moved { .. }));
}

#[test]
fn a_marker_whose_state_is_unknown_is_adopted() {
    let place = Place::new();
    let project = place.project("p");
    let id = place.resolve(&project).id().unwrap();
    let elsewhere = StateLayout::at("turnkeep", place.path("other-state")).unwrap();
    let found = WorkspaceDir::resolve(&project, &elsewhere).unwrap();
    assert_eq!((found.id().unwrap(), found.fate()), (id, &Fate::Adopted));
    assert_eq!(WorkspaceDir::resolve(&project, &elsewhere).unwrap().fate(), &Fate::Known);
}

#[test]
fn a_damaged_record_is_a_typed_error() {
    let place = Place::new();
    let project = place.project("p");
    let record = place.resolve(&project).state_folder().join("origin.json");
    fs::write(&record, "{").unwrap();
    let refused = place.refuse(&project);
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert_eq!(fs::read_to_string(&record).unwrap(), "{");
}

#[test]
fn a_state_root_inside_the_workspace_is_refused_and_nothing_is_made() {
    let place = Place::new();
    let project = place.project("p");
    let outside = place.project("outside");
    symlink(&project, place.path("link")).unwrap();
    symlink(&outside, project.join("way-out")).unwrap();
    for root in [
        project.clone(),
        project.join("state"),
        project.join("deep/er/state"),
        place.path("link/state"),
        place.path("outside/../p/state"),
    ] {
        let layout = StateLayout::at("turnkeep", &root).unwrap();
        let refused = WorkspaceDir::resolve(&project, &layout).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnsafeRoot, "{}", root.display());
        assert!(refused.to_string().contains("TURNKEEP_STATE_HOME"), "it says what to do: {refused}");
    }
    let names: Vec<_> = fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["way-out"], "nothing was made");
    // A path through the workspace that leads out of it is outside.
    let layout = StateLayout::at("turnkeep", project.join("way-out/state")).unwrap();
    WorkspaceDir::resolve(&project, &layout).unwrap();
    // The other way round: a workspace around or inside of its own state.
    let layout = StateLayout::at("turnkeep", place.path("state")).unwrap();
    let around = WorkspaceDir::resolve(place.folder.path(), &layout).unwrap_err();
    assert_eq!(around.kind(), ErrorKind::UnsafeRoot);
    place.resolve(&project);
    for inner in ["state/workspaces", "state"] {
        assert_eq!(place.refuse(&place.path(inner)).kind(), ErrorKind::UnsafeRoot, "{inner}");
    }
    let own = place.resolve(&project).state_folder().to_owned();
    assert_eq!(place.refuse(&own).kind(), ErrorKind::UnsafeRoot);
    assert!(!own.join(".turnkeep").exists());
}

#[test]
fn the_environment_moves_the_root_and_its_absence_is_a_typed_error() {
    let home = || Some(PathBuf::from("/home/me"));
    let none = |_: &str| None;
    let layout = StateLayout::for_app_in("turnkeep", none, home()).unwrap();
    assert_eq!(layout.root(), Path::new("/home/me/.turnkeep"));
    let moved = |name: &str| (name == "TURNKEEP_STATE_HOME").then(|| OsString::from("/srv/state"));
    let layout = StateLayout::for_app_in("turnkeep", moved, home()).unwrap();
    assert_eq!(layout.root(), Path::new("/srv/state"));
    assert!(StateLayout::for_app_in("turnkeep", moved, None).is_ok());
    let empty = |_: &str| Some(OsString::new());
    let layout = StateLayout::for_app_in("turnkeep", empty, home()).unwrap();
    assert_eq!(layout.root(), Path::new("/home/me/.turnkeep"), "an empty variable says nothing");
    let homeless = StateLayout::for_app_in("turnkeep", none, None).unwrap_err();
    assert_eq!(homeless.kind(), ErrorKind::Invalid);
    assert!(homeless.to_string().contains("TURNKEEP_STATE_HOME"), "{homeless}");
    let relative = StateLayout::at("turnkeep", "state").unwrap();
    assert!(relative.root().is_absolute());
    let own = StateLayout::for_app_in("my-agent", none, home()).unwrap();
    assert_eq!(
        (own.root(), own.variable().as_str()),
        (Path::new("/home/me/.my-agent"), "MY_AGENT_STATE_HOME")
    );
    for bad in ["", "a/b", "..", "a b", "ä", "x\0"] {
        let refused = StateLayout::for_app_in(bad, none, home()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{bad:?}");
    }
}

#[test]
fn an_application_has_its_own_marker() {
    let place = Place::new();
    let project = place.project("p");
    let other = StateLayout::at("my-agent", place.path("state")).unwrap();
    let ours = place.resolve(&project).id().unwrap();
    let theirs = WorkspaceDir::resolve(&project, &other).unwrap();
    assert_ne!(theirs.id().unwrap(), ours);
    assert!(project.join(".my-agent/workspace-id").is_file());
}

#[test]
fn what_is_no_directory_is_refused() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    assert_eq!(place.refuse(&place.path("file")).kind(), ErrorKind::Invalid);
    assert_eq!(place.refuse(&place.path("none")).kind(), ErrorKind::NotFound);
    symlink(place.path("none"), place.path("dangling")).unwrap();
    assert_eq!(place.refuse(&place.path("dangling")).kind(), ErrorKind::NotFound);
    fs::write(place.path("root-file"), "").unwrap();
    let layout = StateLayout::at("turnkeep", place.path("root-file")).unwrap();
    let refused = WorkspaceDir::resolve(place.project("p"), &layout).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io);
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_without_a_utf8_name_is_a_workspace_too() {
    use std::os::unix::ffi::OsStringExt;
    let place = Place::new();
    let name = OsString::from_vec(vec![b'p', 0xff]);
    let project = place.folder.path().join(&name);
    fs::create_dir(&project).unwrap();
    let id = place.resolve(&project).id().unwrap();
    assert_eq!(place.resolve(&project).fate(), &Fate::Known);
    fs::rename(&project, place.path("q")).unwrap();
    let moved = place.resolve(&place.path("q"));
    assert_eq!(moved.id().unwrap(), id);
    assert!(matches!(moved.fate(), Fate::Moved { .. }));
}
