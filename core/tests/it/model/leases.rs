//! Leases.

use turnkeep_core::ErrorKind;
use turnkeep_core::commit::{Fence, LeaseGrant, Takeover};
use turnkeep_core::model::{LeaseName, LeaseState, Liveness};

use super::{Check, Done, Lease, Work, World};

impl Lease {
    pub(super) fn proven_by(&self, fence: &Fence) -> bool {
        (self.owner, self.token, self.epoch) == (fence.owner, fence.token, fence.epoch)
    }

    pub(super) fn expired(&self, world: &World) -> bool {
        world.now >= self.expires_at
    }

    pub(super) fn dead(&self, world: &World) -> bool {
        world.alive.get(&self.owner) == Some(&Liveness::Dead)
    }

    fn free_for(&self, takeover: Takeover, world: &World) -> bool {
        if self.state == LeaseState::Released {
            return true;
        }
        match takeover {
            Takeover::IfExpired => self.expired(world),
            Takeover::Force => true,
            Takeover::IfOwnerDead => match world.alive.get(&self.owner) {
                Some(Liveness::Dead) => true,
                Some(Liveness::Alive) => false,
                _ => self.expired(world),
            },
        }
    }
}

impl Work<'_> {
    fn put_lease(&mut self, name: &LeaseName, lease: Lease) -> Check {
        match name {
            LeaseName::Session(session) => self.any(session)?.lease = Some(lease),
            LeaseName::Named(_) => drop(self.model.named.insert(name.clone(), lease)),
        }
        Ok(())
    }

    pub(super) fn acquire(&mut self, grant: &LeaseGrant) -> Check<Done> {
        if let LeaseName::Session(session) = &grant.name {
            self.any(session)?;
        }
        let now = self.world.now;
        let known = self.model.lease(&grant.name);
        let mut epoch = known.map_or(0, |lease| lease.epoch) + 1;
        if let Some(lease) = known {
            let repeat =
                lease.state == LeaseState::Held && (lease.owner, lease.token) == (grant.owner, grant.token);
            if repeat {
                epoch = lease.epoch;
            } else if !lease.free_for(grant.takeover, self.world) {
                return Err(ErrorKind::LeaseHeld);
            }
        }
        let expires_at = now.plus_ms(i64::try_from(grant.ttl_ms).unwrap());
        let lease =
            Lease { state: LeaseState::Held, owner: grant.owner, token: grant.token, epoch, expires_at };
        self.put_lease(&grant.name, lease)?;
        self.held.insert(grant.name.clone());
        Ok(Done::Lease { epoch, expires_at })
    }

    pub(super) fn renew(&mut self, fence: &Fence, ttl_ms: u64) -> Check<Done> {
        self.fence(fence)?;
        let mut lease = self.model.lease(&fence.name).cloned().ok_or(ErrorKind::LeaseLost)?;
        let wanted = self.world.now.plus_ms(i64::try_from(ttl_ms).unwrap());
        lease.expires_at = lease.expires_at.max(wanted);
        let done = Done::Lease { epoch: lease.epoch, expires_at: lease.expires_at };
        self.put_lease(&fence.name, lease)?;
        Ok(done)
    }

    pub(super) fn release(&mut self, fence: &Fence) -> Check<Done> {
        let mut lease = self.model.lease(&fence.name).cloned().ok_or(ErrorKind::LeaseLost)?;
        if !lease.proven_by(fence) {
            return Err(ErrorKind::LeaseLost);
        }
        lease.state = LeaseState::Released;
        self.put_lease(&fence.name, lease)?;
        self.held.remove(&fence.name);
        Ok(Done::Plain)
    }
}
