//! Imports that die: the next try takes over, and nothing half done is ever seen.

use std::io::Cursor;
use std::sync::Arc;

use turnkeep_core::commit::{Commit, Fence, LeaseGrant, Op, Outcome, Takeover};
use turnkeep_core::model::{LeaseName, LeasePurpose, Row, SessionImage, SessionState};
use turnkeep_core::{ErrorKind, LeaseToken, Store, Timestamp};
use turnkeep_sessions::transfer::{ImportOptions, import, quietly};

use crate::both::{Scene, Watched, all_sessions, on_each, row, workspace};
use crate::transfer::{exported, rich_session};
use crate::transfer_pi::{FIXTURE, FIXTURE_ID, entries, take_in};

/// A file whose import takes several slices.
fn long_fixture() -> String {
    let mut text = FIXTURE.to_owned();
    let last = FIXTURE.lines().last().unwrap();
    for _ in 0..1_100 {
        text.push_str(last);
        text.push('\n');
    }
    text
}

on_each! {
    async fn an_import_that_dies_at_any_commit_is_taken_up_by_the_next(backend: Backend) {
        let text = long_fixture();
        let whole = {
            let other = backend.another();
            let other = other.open().await;
            let report = take_in(&*other, &text).await;
            entries(&*other, &report.session).await
        };
        let mut died = 0;
        for n in 0..20 {
            let place = backend.another();
            let first: Arc<dyn Store> = place.open().await;
            let dying = Watched::dying_at(Arc::clone(&first), n);
            let mut file = Cursor::new(&text);
            let done = import(&dying, &workspace(), &mut file, &ImportOptions::default(), &mut quietly()).await;
            let Err(error) = done else { break };
            died += 1;
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(row(&*first, FIXTURE_ID).await.is_none(), "what is half done is not seen");
            // The process is gone: its handle is closed, and another opens the store.
            drop(dying);
            first.close().await.unwrap();
            drop(first);
            let second = place.open().await;
            let left = all_sessions(&*second).await;
            assert!(left.len() <= 1 && left.iter().all(|row| row.state == SessionState::Restoring));
            let watched = Watched::new(second);
            let report = take_in(&watched, &text).await;
            assert_eq!((report.added, report.already_there), (1_117, 0), "died at commit {n}");
            assert_eq!(all_sessions(&watched).await.len(), 1);
            assert!(entries(&watched, &report.session).await == whole, "died at commit {n}");
            assert_eq!(take_in(&watched, &text).await.added, 0);
        }
        assert!(died >= 4, "one commit to begin, two slices, one to seal: {died}");
    }

    async fn an_import_goes_on_where_the_dead_one_stopped(backend: Backend) {
        let text = long_fixture();
        let first = backend.open().await;
        let dying = Watched::dying_at(Arc::clone(&first), 2);
        let mut file = Cursor::new(&text);
        import(&dying, &workspace(), &mut file, &ImportOptions::default(), &mut quietly()).await.unwrap_err();
        drop(dying);
        first.close().await.unwrap();
        drop(first);
        let before = backend.open().await;
        let left = all_sessions(&*before).await.remove(0);
        assert_eq!(left.restore.unwrap().rows, 1_000);
        let restored = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = Arc::clone(&restored);
        let watched = Watched::at_commit(before, move |_, commit| {
            for op in &commit.ops {
                if let Op::Restore { rows, .. } = op {
                    counter.fetch_add(rows.len(), std::sync::atomic::Ordering::SeqCst);
                }
            }
            Ok(())
        });
        let report = take_in(&watched, &text).await;
        assert_eq!(report.session, left.session_ref());
        assert_eq!(restored.load(std::sync::atomic::Ordering::SeqCst), 119, "1,118 entries and the image in all");
    }

    async fn what_a_former_builder_wrote_otherwise_is_built_again(backend: Backend) {
        let first = backend.open().await;
        let dying = Watched::dying_at(Arc::clone(&first), 1);
        let mut file = Cursor::new(FIXTURE);
        import(&dying, &workspace(), &mut file, &ImportOptions::default(), &mut quietly()).await.unwrap_err();
        let session = all_sessions(&*first).await.remove(0).session_ref();
        drop(dying);
        first.close().await.unwrap();
        drop(first);
        // Under the same request, but not what this version makes of the file.
        let second = backend.open().await;
        let scene = Scene { store: Arc::clone(&second), session: session.clone() };
        let name = LeaseName::Session(session.clone());
        let token = LeaseToken::from_bytes([9; 16]);
        let owner = second.info().owner;
        let receipt = scene.commit(vec![Op::AcquireLease(LeaseGrant {
            name: name.clone(), owner, token, purpose: LeasePurpose::Fork, ttl_ms: 1_000, takeover: Takeover::IfOwnerDead,
        })]).await;
        let Outcome::Lease { epoch, .. } = receipt.outcomes[0] else { panic!("no lease") };
        let fence = Fence { name, owner, token, epoch };
        let image = SessionImage {
            created_at: Timestamp::from_millis(1),
            updated_at: Timestamp::from_millis(1),
            activity: 1,
            leaf: None,
            usage: turnkeep_core::model::Usage::default(),
            profile: turnkeep_core::model::Profile::default(),
        };
        let commit = Commit::new(workspace())
            .fence(fence.clone())
            .op(Op::Restore { session: session.clone(), rows: vec![Row::Session(image)] })
            .op(Op::ReleaseLease { fence });
        second.commit(commit).await.unwrap();
        let report = take_in(&*second, FIXTURE).await;
        assert_eq!(report.added, 17);
        assert_ne!(report.session, session, "it was begun again");
        let row = row(&*second, FIXTURE_ID).await.unwrap();
        assert_eq!(row.created_at.as_millis(), 1_764_576_000_250);
        assert_eq!(all_sessions(&*second).await.len(), 1);
    }

    async fn what_a_dead_import_of_another_file_left_does_not_block_the_id(backend: Backend) {
        let first = backend.open().await;
        let dying = Watched::dying_at(Arc::clone(&first), 2);
        let text = long_fixture();
        let mut file = Cursor::new(&text);
        import(&dying, &workspace(), &mut file, &ImportOptions::default(), &mut quietly()).await.unwrap_err();
        drop(dying);
        first.close().await.unwrap();
        drop(first);
        // The file of the same session, as it was earlier.
        let second = backend.open().await;
        let report = take_in(&*second, FIXTURE).await;
        assert_eq!((report.added, report.session.id.as_str()), (17, FIXTURE_ID));
        assert_eq!(all_sessions(&*second).await.len(), 1);
    }

    async fn an_import_at_work_is_not_taken_over(backend: Backend) {
        let first = backend.open().await;
        let dying = Watched::dying_at(Arc::clone(&first), 2);
        let text = long_fixture();
        let mut file = Cursor::new(&text);
        import(&dying, &workspace(), &mut file, &ImportOptions::default(), &mut quietly()).await.unwrap_err();
        // The first handle lives, so whoever imports through it may be at work.
        let second = backend.open().await;
        let error = import(&*second, &workspace(), &mut file, &ImportOptions::default(), &mut quietly()).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::LeaseHeld);
        assert_eq!(all_sessions(&*first).await.len(), 1, "the other one's work is untouched");
    }

    async fn an_export_that_the_writer_refuses_is_an_error(backend: Backend) {
        struct Full(usize);
        impl std::io::Write for Full {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                if self.0 < bytes.len() {
                    return Err(std::io::Error::new(std::io::ErrorKind::StorageFull, "full"));
                }
                self.0 -= bytes.len();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let store = backend.open().await;
        let session = rich_session(&store).await;
        let whole = exported(&*store, &session).await.len();
        for room in [0, 10, whole / 2, whole - 1] {
            let done = turnkeep_sessions::transfer::export(
                &*store, &workspace(), &session, &mut Full(room), &mut quietly(),
            ).await;
            assert_eq!(done.unwrap_err().kind(), ErrorKind::Full);
        }
    }
}
