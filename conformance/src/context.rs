//! What a clause works with: its site, its clock, its clients.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use turnkeep_core::digest::FieldDigest;
use turnkeep_core::{Clock, Error, ManualClock, Result, Store};

use crate::backend::StoreFacts;
use crate::crash::Deadly;
use crate::disk::Disk;
use crate::harness::{Harness, Manifest, OpenWith, Site};
use crate::kit::Kit;
use crate::runner::Settings;
use crate::tier::Tier;
use crate::verdict::{Outcome, Stop};

/// What a clause works with.
#[derive(Debug)]
pub struct Context {
    pub(crate) harness: Arc<dyn Harness>,
    pub(crate) manifest: Manifest,
    pub(crate) site: Site,
    pub(crate) settings: Settings,
    clock: Option<ManualClock>,
    opened: Mutex<Vec<Weak<dyn Store>>>,
    drawn: Arc<AtomicU64>,
    counted: Mutex<BTreeMap<String, u64>>,
    pub(crate) deadly: Deadly,
    facts: OnceLock<StoreFacts>,
}

impl Context {
    pub(crate) fn new(harness: Arc<dyn Harness>, site: Site, settings: Settings) -> Self {
        let manifest = harness.manifest();
        let clock = manifest.policies.clock.then(ManualClock::default);
        Self {
            harness,
            manifest,
            site,
            settings,
            clock,
            opened: Mutex::new(Vec::new()),
            drawn: Arc::new(AtomicU64::new(0)),
            counted: Mutex::default(),
            deadly: Deadly::default(),
            facts: OnceLock::new(),
        }
    }

    /// How much work this run may be.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.settings.tier
    }

    /// What everything that is drawn follows from.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.settings.seed
    }

    /// A number of samples for the tier.
    #[must_use]
    pub fn scaled<T>(&self, smoke: T, full: T, soak: T) -> T {
        match self.tier() {
            Tier::Smoke => smoke,
            Tier::Full => full,
            Tier::Soak => soak,
        }
    }

    /// Notes what the verdict rests on, such as so many images looked at.
    pub fn count(&self, what: &str, more: u64) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        *counted.entry(what.to_owned()).or_default() += more;
    }

    /// What was counted so far.
    pub(crate) fn counted(&self) -> BTreeMap<String, u64> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the first store that was opened said of itself.
    pub(crate) fn facts(&self) -> Option<StoreFacts> {
        self.facts.get().cloned()
    }

    /// The manual clock, if the backend takes one.
    pub(crate) fn clock(&self) -> Option<&ManualClock> {
        self.clock.as_ref()
    }

    /// The clock as `open` takes it.
    pub(crate) fn shared_clock(&self) -> Option<Arc<dyn Clock>> {
        self.clock.clone().map(|clock| Arc::new(clock) as Arc<dyn Clock>)
    }

    /// Opens the site once more, as a client of its own. What `open` answers, unjudged.
    pub(crate) async fn try_open(&self) -> Result<Arc<dyn Store>> {
        self.try_open_at(&self.site).await
    }

    /// Opens another site with the clock of this context.
    pub(crate) async fn try_open_at(&self, site: &Site) -> Result<Arc<dyn Store>> {
        let with = OpenWith { clock: self.shared_clock() };
        let store = match self.doomed() {
            None => self.harness.open(site, with).await?,
            Some(disk) => {
                let opened = self.harness.open_on(site, disk, with).await?;
                opened.ok_or_else(|| Error::unsupported("opening on a disk"))?
            }
        };
        self.facts.get_or_init(|| StoreFacts::of(store.info(), site));
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&store));
        Ok(store)
    }

    /// A client with the tools of the suite. Its declarations must be those of the manifest.
    pub(crate) async fn kit(&self) -> Outcome<Kit> {
        let store =
            self.try_open().await.map_err(|error| Stop::fail(format!("the store does not open: {error}")))?;
        self.check_declarations(&store)?;
        Ok(Kit::new(store, self))
    }

    fn check_declarations(&self, store: &Arc<dyn Store>) -> Outcome {
        let info = store.info();
        let (declared, seen) = (&self.manifest, info);
        ensure_eq!(seen.name, declared.name, "StoreInfo and manifest disagree on the name");
        ensure_eq!(
            seen.capabilities,
            declared.capabilities,
            "StoreInfo and manifest disagree on capabilities"
        );
        ensure_eq!(seen.limits, declared.limits, "StoreInfo and manifest disagree on limits");
        ensure_eq!(seen.durability, declared.durability, "StoreInfo and manifest disagree on durability");
        Ok(())
    }

    /// A client whose files lie on a disk that remembers and fails.
    pub(crate) async fn kit_on(&self, disk: &Disk) -> Outcome<Kit> {
        let with = OpenWith { clock: self.shared_clock() };
        let opened = self.harness.open_on(&self.site, disk, with).await;
        match opened.map_err(|error| Stop::fail(format!("the store does not open: {error}")))? {
            Some(store) => {
                self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&store));
                self.check_declarations(&store)?;
                Ok(Kit::new(store, self))
            }
            None => Err(Stop::not_run("the harness puts no disk under the store")),
        }
    }

    /// Several clients of the same site.
    pub(crate) async fn kits(&self, count: usize) -> Outcome<Vec<Kit>> {
        let mut kits = Vec::with_capacity(count);
        for _ in 0..count {
            kits.push(self.kit().await?);
        }
        Ok(kits)
    }

    /// Closes a client and opens a new one, with nothing of the process in between.
    pub(crate) async fn reopen(&self, kit: Kit) -> Outcome<Kit> {
        kit.store.close().await?;
        drop(kit);
        self.kit().await
    }

    /// A client goes away in order: its owner is dead from here on.
    pub(crate) async fn leave(&self, kit: Kit) -> Outcome {
        kit.store.close().await?;
        Ok(())
    }

    /// A lease time that is comfortable to wait for: long with a manual clock, short with a real one.
    pub(crate) fn lease_ms(&self) -> u64 {
        if self.clock.is_some() { 60_000 } else { 1_000 }
    }

    /// Lets store time pass.
    pub(crate) async fn pass_ms(&self, ms: u64) {
        match &self.clock {
            Some(clock) => clock.advance_ms(i64::try_from(ms).unwrap_or(i64::MAX)),
            None => tokio::time::sleep(Duration::from_millis(ms)).await,
        }
    }

    /// Lets a lease that was just taken or renewed expire, to the millisecond where the clock can be set.
    pub(crate) async fn expire(&self, ttl_ms: u64) {
        self.pass_ms(if self.clock.is_some() { ttl_ms } else { ttl_ms + 1 }).await;
    }

    /// A name that no other draw of this site gives, for a folder of the clause's own.
    pub(crate) fn drawn_name(&self) -> String {
        turnkeep_core::Incarnation::from_bytes(self.drawer().next()).to_string()
    }

    /// Draws bytes that no other draw of this site gives, in any process.
    pub(crate) fn drawer(&self) -> Draw {
        Draw { site: self.site.clone(), drawn: Arc::clone(&self.drawn) }
    }

    /// Closes what is still open.
    pub(crate) async fn close_all(&self) {
        let opened = std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner));
        for store in opened.iter().filter_map(Weak::upgrade) {
            // A handle that the clause closed or broke on purpose answers an error here; nothing depends on it.
            let _: std::result::Result<(), Error> = store.close().await;
        }
    }
}

/// Draws distinct bytes.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    site: Site,
    drawn: Arc<AtomicU64>,
}

impl Draw {
    pub(crate) fn next(&self) -> [u8; 16] {
        let count = self.drawn.fetch_add(1, Ordering::Relaxed);
        let digest = FieldDigest::new("conformance/draw")
            .text(self.site.as_str())
            .number(u64::from(std::process::id()))
            .number(count)
            .finish();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        bytes
    }
}
