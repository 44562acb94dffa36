//! What a session, or the records that nobody owns, come to: counts and a digest, the same in every store that holds
//! the same.

use serde::Serialize;
use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::SessionId;
use turnkeep_core::model::Row;
use turnkeep_core::store::Store;

use super::content::{ContentDigest, portable, unsound};
use super::moment::Moment;

/// Counts and a digest of everything in a session but leases and receipts, or of the records that nobody owns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// Entries.
    pub entries: u64,
    /// Runs.
    pub runs: u64,
    /// Event streams.
    pub streams: u64,
    /// Events.
    pub events: u64,
    /// Records.
    pub records: u64,
    /// SHA-256 over all rows in their order, in hexadecimal digits. Incarnations and versions of records, which each
    /// store gives anew, are no part of it; a run that is not over counts as interrupted, as it arrives elsewhere.
    pub digest: String,
}

/// Adds rows up.
pub(super) struct Summing {
    sum: Sum,
    digest: ContentDigest,
    image: [u8; 32],
}

impl Summing {
    pub(super) fn new(id: SessionId) -> Self {
        Self { sum: Sum::default(), digest: ContentDigest::new(id), image: [0; 32] }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// `Corrupt` for content that is no JSON any more: what a copy must not carry on.
    pub(super) fn add(&mut self, row: &Row) -> Result<()> {
        if let Some(place) = unsound(row) {
            let message = "stored content is no valid JSON any more; verify the store, and repair it";
            return Err(Error::new(ErrorKind::Corrupt, message).with("place", place));
        }
        match row {
            Row::Session(image) => {
                let image = serde_json::to_vec(image).unwrap_or_default();
                self.image = FieldDigest::new("session-image/1").bytes(&image).finish();
            }
            Row::Entry(_) => self.sum.entries += 1,
            Row::Run(_) => self.sum.runs += 1,
            Row::Stream(_) => self.sum.streams += 1,
            Row::Event { .. } => self.sum.events += 1,
            Row::Record(_) => self.sum.records += 1,
        }
        self.digest.fold(row);
        Ok(())
    }

    pub(super) fn finish(self) -> Sum {
        let digest = FieldDigest::new("sum/1").bytes(&self.image).bytes(&self.digest.finish()).finish();
        Sum { digest: to_hex(&digest), ..self.sum }
    }
}

/// Adds up a session as it is at a moment. `each` is told the entries of each page, and may end it.
pub(super) async fn sum_of(
    store: &dyn Store,
    moment: &Moment,
    each: &mut (dyn FnMut(u64) -> Result<()> + Send),
) -> Result<Sum> {
    let mut summing = Summing::new(moment.row.id.clone());
    let mut walk = moment.walk(store);
    while let Some(rows) = walk.next().await? {
        let mut entries = 0;
        for row in &rows {
            entries += u64::from(matches!(row, Row::Entry(_)));
            summing.add(row).map_err(|error| error.with("session", &moment.row.id))?;
        }
        each(entries)?;
    }
    Ok(summing.finish())
}

/// The digest of one record, whatever store it is in.
pub(super) fn record_digest(row: &Row) -> [u8; 32] {
    let nobody = SessionId::new("session").ok();
    let row = nobody.map_or_else(|| row.clone(), |id| portable(row.clone(), &id));
    FieldDigest::new("record/1").bytes(&serde_json::to_vec(&row).unwrap_or_default()).finish()
}
