//! Who may take, keep and give back a lease.

use turnkeep_core::commit::{Fence, LeaseGrant, Op, Outcome, Takeover};
use turnkeep_core::id::OwnerId;
use turnkeep_core::model::{LeaseName, LeasePurpose, LeaseState, Liveness, SessionState};
use turnkeep_core::rules::Stamp;
use turnkeep_core::{ErrorKind, LeaseToken, Receipt, Timestamp};

use crate::kit::{
    acquire, append, at, commit, create, fence, lease_of, message, name, owner, session, stamp, token,
};
use crate::naive::Naive;

fn named() -> LeaseName {
    LeaseName::Named(name("line"))
}

fn later(ms: i64) -> Stamp {
    Stamp { now: at(ms), ..stamp(50) }
}

fn lease(receipt: &Receipt, op: usize) -> (u64, Timestamp) {
    match receipt.outcomes[op] {
        Outcome::Lease { epoch, expires_at } => (epoch, expires_at),
        ref other => panic!("{other:?}"),
    }
}

/// Client 1 took the lease of a session and a named one for a minute.
fn taken() -> (Naive, [LeaseName; 2]) {
    let (mut store, s) = (Naive::default(), session("s", 1));
    let names = [lease_of(&s), named()];
    let ops = commit().op(create(&s, SessionState::Active));
    let ops = names.iter().fold(ops, |ops, name| ops.op(acquire(name.clone(), 1)));
    store.commit(&ops, &stamp(1)).unwrap();
    (store, names)
}

#[test]
fn a_takeover_needs_expiry_release_proven_death_or_force() {
    let (held, names) = taken();
    for lease_name in &names {
        for released in [false, true] {
            let mut store = held.clone();
            if released {
                let release = Op::ReleaseLease { fence: fence(lease_name.clone(), 1, 1) };
                store.commit(&commit().op(release), &stamp(2)).unwrap();
            }
            for expired in [false, true] {
                for liveness in [Liveness::Alive, Liveness::Dead, Liveness::Unknown] {
                    for takeover in [Takeover::IfExpired, Takeover::IfOwnerDead, Takeover::Force] {
                        let Op::AcquireLease(grant) = acquire(lease_name.clone(), 2) else { unreachable!() };
                        let take = commit().op(Op::AcquireLease(LeaseGrant { takeover, ..grant }));
                        let now = later(if expired { 60_000 } else { 59_999 });
                        let mut store = store.clone();
                        let answer = store.commit_with(&take, &now, |_: OwnerId| liveness);
                        let allowed = released
                            || match takeover {
                                Takeover::Force => true,
                                Takeover::IfExpired => expired,
                                Takeover::IfOwnerDead => {
                                    liveness == Liveness::Dead || (liveness == Liveness::Unknown && expired)
                                }
                            };
                        let case =
                            format!("released {released}, expired {expired}, {liveness:?}, {takeover:?}");
                        match answer {
                            Ok(receipt) => {
                                assert!(allowed, "{case}");
                                assert_eq!(lease(&receipt, 0).0, 2, "{case}");
                                let late = commit().fence(fence(lease_name.clone(), 1, 1));
                                let error = store.commit(&late, &now).unwrap_err();
                                assert_eq!(error.kind(), ErrorKind::LeaseLost, "{case}");
                            }
                            Err(error) => {
                                assert!(!allowed, "{case}: {error}");
                                assert_eq!(error.kind(), ErrorKind::LeaseHeld);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Every way to be wrong about a lease that is held with epoch 1 by client 1.
fn wrong(right: &Fence) -> Vec<(&'static str, Fence)> {
    let mut wrong = vec![
        ("owner", Fence { owner: owner(2), ..right.clone() }),
        ("token", Fence { token: token(2), ..right.clone() }),
        ("later epoch", Fence { epoch: 2, ..right.clone() }),
        ("earlier epoch", Fence { epoch: 0, ..right.clone() }),
        ("name", Fence { name: LeaseName::Named(name("other line")), ..right.clone() }),
    ];
    if let LeaseName::Session(_) = right.name {
        wrong.push(("life", Fence { name: lease_of(&session("s", 2)), ..right.clone() }));
        wrong.push(("session", Fence { name: lease_of(&session("t", 1)), ..right.clone() }));
    }
    wrong
}

#[test]
fn only_the_right_owner_token_and_epoch_fence_renew_and_release_and_expiry_does_not_matter() {
    let (store, names) = taken();
    for lease_name in names {
        let right = fence(lease_name, 1, 1);
        let uses = |fence: &Fence| {
            [
                commit().fence(fence.clone()),
                commit().op(Op::RenewLease { fence: fence.clone(), ttl_ms: 1 }),
                commit().op(Op::ReleaseLease { fence: fence.clone() }),
            ]
        };
        for (what, fence) in wrong(&right) {
            for commit in uses(&fence) {
                let mut store = store.clone();
                let error = store.commit(&commit, &later(1)).expect_err(what);
                assert_eq!(error.kind(), ErrorKind::LeaseLost, "{what}");
                assert!(!format!("{error:?} {error}").contains("0202"), "a token is never told");
            }
        }
        for now in [1, 60_000, 86_400_000] {
            for commit in uses(&right) {
                store.clone().commit(&commit, &later(now)).unwrap();
            }
        }
    }
}

#[test]
fn a_released_lease_is_a_tombstone_that_keeps_its_epoch_and_fences_nobody() {
    let (mut store, names) = taken();
    for lease_name in &names {
        let right = fence(lease_name.clone(), 1, 1);
        let release = commit().op(Op::ReleaseLease { fence: right.clone() });
        store.commit(&release, &stamp(2)).unwrap();
        let row = &store.leases[lease_name];
        assert_eq!((row.state, row.epoch), (LeaseState::Released, 1));
        store.commit(&release, &stamp(3)).expect("releasing again is harmless");
        for late in [commit().fence(right.clone()), commit().op(Op::RenewLease { fence: right, ttl_ms: 1 })] {
            assert_eq!(store.commit(&late, &stamp(4)).unwrap_err().kind(), ErrorKind::LeaseLost);
        }
        store.commit(&commit().op(acquire(lease_name.clone(), 2)), &stamp(5)).unwrap();
        let error = store.commit(&release, &stamp(6)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LeaseLost, "not after somebody else took it");
    }
}

#[test]
fn a_renewal_moves_the_expiry_only_forward_and_nothing_else() {
    let (mut store, names) = taken();
    for lease_name in names {
        let fence = fence(lease_name, 1, 1);
        let before = store.sessions.clone();
        let mut renew = |now: i64, ttl_ms| {
            let renew = commit().op(Op::RenewLease { fence: fence.clone(), ttl_ms });
            lease(&store.commit(&renew, &later(now)).unwrap(), 0)
        };
        assert_eq!(renew(1000, 10), (1, at(60_000)));
        assert_eq!(renew(1000, 60_000), (1, at(61_000)));
        assert_eq!(renew(-5000, 60_000), (1, at(61_000)), "a clock that goes back shortens nothing");
        assert_eq!(renew(200_000, 1), (1, at(200_001)), "late, but nobody took over");
        assert_eq!(store.sessions, before, "no revision and no activity moves");
    }
}

#[test]
fn taking_again_what_one_holds_keeps_the_epoch_and_a_new_token_does_not() {
    let (mut store, names) = taken();
    for lease_name in names {
        let again = store.commit(&commit().op(acquire(lease_name.clone(), 1)), &stamp(2)).unwrap();
        assert_eq!(lease(&again, 0).0, 1);
        let Op::AcquireLease(grant) = acquire(lease_name, 1) else { unreachable!() };
        let other = LeaseGrant { token: LeaseToken::from_bytes([9; 16]), ..grant };
        let answer = store.commit(&commit().op(Op::AcquireLease(other.clone())), &stamp(3));
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::LeaseHeld);
        let forced = LeaseGrant { takeover: Takeover::Force, ..other };
        let answer = store.commit(&commit().op(Op::AcquireLease(forced)), &stamp(4)).unwrap();
        assert_eq!(lease(&answer, 0).0, 2);
    }
}

#[test]
fn several_leases_in_one_commit_are_taken_all_or_none() {
    let (mut store, _) = taken();
    let (free, also_free) = (LeaseName::Named(name("a")), LeaseName::Named(name("z")));
    let all =
        |third| commit().op(acquire(free.clone(), 2)).op(acquire(also_free.clone(), 2)).op(acquire(third, 2));
    let before = store.clone();
    let error = store.commit(&all(named()), &stamp(2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeaseHeld);
    let told: Vec<(&str, &str)> = error.context().collect();
    assert_eq!(told, [("lease", "line"), ("purpose", "mutation"), ("remaining_ms", "60000"), ("op", "2")]);
    assert_eq!(store, before);
    store.commit(&all(LeaseName::Named(name("b"))), &stamp(3)).unwrap();
    // A commit with several fences needs all of them.
    let fences = commit().fence(fence(free.clone(), 2, 1)).fence(fence(also_free.clone(), 2, 1));
    store.commit(&fences, &stamp(4)).unwrap();
    let error = store.commit(&fences.fence(fence(named(), 2, 1)), &stamp(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeaseLost);
    assert!(error.context().any(|pair| pair == ("fence", "2")));
}

#[test]
fn a_lease_keeps_what_its_holder_does_and_shows_it_without_the_token() {
    let (mut store, names) = taken();
    let Op::AcquireLease(grant) = acquire(names[0].clone(), 1) else { unreachable!() };
    let recovery = LeaseGrant { purpose: LeasePurpose::Recovery, ttl_ms: 5, ..grant };
    store.commit(&commit().op(Op::AcquireLease(recovery)), &later(7)).unwrap();
    let row = &store.leases[&names[0]];
    assert_eq!(row.token, token(1).digest());
    let view = row.view(at(12), Liveness::Unknown);
    assert_eq!((view.purpose, view.acquired_at, view.expires_at), (LeasePurpose::Recovery, at(7), at(12)));
    assert!(view.expired && !row.view(at(11), Liveness::Unknown).expired);
}

#[test]
fn nothing_of_a_deleted_session_s_lease_reaches_the_next_life() {
    let (mut store, names) = taken();
    let (old, new) = (session("s", 1), session("s", 2));
    let swap =
        commit().op(Op::DeleteSession { session: old, force: true }).op(create(&new, SessionState::Active));
    store.commit(&swap, &stamp(2)).unwrap();
    let error = store.commit(&commit().op(acquire(names[0].clone(), 1)), &stamp(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let answer = store.commit(&commit().op(acquire(lease_of(&new), 1)), &stamp(4)).unwrap();
    assert_eq!(lease(&answer, 0).0, 1);
    let late = commit().fence(fence(names[0].clone(), 1, 1)).op(append(&new, vec![message("late")]));
    assert_eq!(store.commit(&late, &stamp(5)).unwrap_err().kind(), ErrorKind::LeaseLost);
}

/// Another handle that has the proof may renew, but that does not bring the owner back to life.
#[test]
fn a_lease_renewed_for_a_dead_owner_can_be_taken_over_in_the_same_commit() {
    let (mut store, [lease_name, _]) = taken();
    let Op::AcquireLease(grant) = acquire(lease_name.clone(), 2) else { unreachable!() };
    let take = Op::AcquireLease(LeaseGrant { takeover: Takeover::IfOwnerDead, ..grant });
    let renew = Op::RenewLease { fence: fence(lease_name, 1, 1), ttl_ms: 60_000 };
    let both = commit().op(renew).op(take);
    let living = store.commit_with(&both, &later(1), |_: OwnerId| Liveness::Alive).unwrap_err();
    assert_eq!(living.kind(), ErrorKind::LeaseHeld);
    let receipt = store.commit_with(&both, &later(1), |_: OwnerId| Liveness::Dead).unwrap();
    assert_eq!((lease(&receipt, 0).0, lease(&receipt, 1).0), (1, 2));
}
