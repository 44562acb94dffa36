//! Leases.

use turnkeep_core::ErrorKind;

use super::{Check, Lease, Made, Model, Work};
use crate::tape::ops::{Hold, Taking};

impl Model {
    pub(super) fn expired(&self, lease: &Lease) -> bool {
        self.now >= lease.expires_at
    }

    pub(super) fn dead_owner(&self, lease: &Lease) -> bool {
        self.world.liveness && self.dead.contains(&lease.handle)
    }

    fn takeable(&self, lease: &Lease, takeover: Taking) -> bool {
        !lease.held
            || match takeover {
                Taking::Force => true,
                Taking::Expired => self.expired(lease),
                Taking::Dead if self.world.liveness => self.dead_owner(lease),
                Taking::Dead => self.expired(lease),
            }
    }
}

impl Work {
    /// Whether what the client knows proves that it took the lease last.
    pub(super) fn proves(&self, hold: &Hold) -> bool {
        let proof = self.model.mind(self.handle.0).proof(self.handle.0, hold);
        self.model.lease(hold).is_some_and(|lease| {
            lease.handle == proof.handle && lease.token == proof.token && lease.epoch == proof.epoch
        })
    }

    fn put_lease(&mut self, hold: &Hold, lease: Lease) -> Check {
        match hold {
            Hold::Session(life) => self.any(life)?.lease = Some(lease),
            Hold::Named(name) => drop(self.model.named.insert(name.clone(), lease)),
        }
        Ok(())
    }

    pub(super) fn acquire(
        &mut self,
        hold: &Hold,
        token: u32,
        ttl_ms: u64,
        takeover: Taking,
    ) -> Check<Made<u64>> {
        if let Hold::Session(life) = hold {
            self.any(life)?;
        }
        let known = self.model.lease(hold).cloned();
        let epoch = match &known {
            None => 1,
            Some(lease) if lease.held && lease.handle == self.handle && lease.token == token => lease.epoch,
            Some(lease) if self.model.takeable(lease, takeover) => lease.epoch + 1,
            Some(_) => return Err(ErrorKind::LeaseHeld),
        };
        let now = self.model.now;
        let expires_at = later(now, ttl_ms);
        let handle = self.handle;
        self.put_lease(hold, Lease { held: true, handle, token, epoch, acquired_at: now, expires_at })?;
        self.held.insert(hold.clone());
        Ok(Made::Lease { epoch, expires_at })
    }

    pub(super) fn renew(&mut self, hold: &Hold, ttl_ms: u64) -> Check<Made<u64>> {
        let known = self.model.lease(hold).cloned().filter(|lease| lease.held);
        let Some(mut lease) = known.filter(|_| self.proves(hold)) else { return Err(ErrorKind::LeaseLost) };
        lease.expires_at = lease.expires_at.max(later(self.model.now, ttl_ms));
        let made = Made::Lease { epoch: lease.epoch, expires_at: lease.expires_at };
        self.put_lease(hold, lease)?;
        self.held.insert(hold.clone());
        Ok(made)
    }

    pub(super) fn release(&mut self, hold: &Hold) -> Check<Made<u64>> {
        let known = self.model.lease(hold).cloned();
        let Some(mut lease) = known.filter(|_| self.proves(hold)) else { return Err(ErrorKind::LeaseLost) };
        lease.held = false;
        self.put_lease(hold, lease)?;
        self.held.remove(hold);
        Ok(Made::Plain)
    }
}

fn later(now: i64, ttl_ms: u64) -> i64 {
    now.saturating_add(i64::try_from(ttl_ms).unwrap_or(i64::MAX))
}
