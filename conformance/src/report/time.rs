//! Times of a report: RFC 3339 in UTC.

use jiff::Timestamp as Moment;
use serde::{Deserialize, Deserializer, Serializer};
use turnkeep_core::Timestamp;

/// A time as a report writes it. One that no calendar has is written as its milliseconds.
pub(super) fn show(time: Timestamp) -> String {
    Moment::from_millisecond(time.as_millis())
        .map_or_else(|_| time.as_millis().to_string(), |moment| moment.to_string())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(super) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&show(*time))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.parse::<Moment>() {
        Ok(moment) => Ok(Timestamp::from_millis(moment.as_millisecond())),
        Err(error) => text.parse().map(Timestamp::from_millis).map_err(|_| serde::de::Error::custom(error)),
    }
}
