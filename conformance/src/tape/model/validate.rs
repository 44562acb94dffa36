//! What is refused for its form, before anything is looked at.

use turnkeep_core::ErrorKind;

use super::Check;
use crate::tape::ops::{Do, Follows, Line};
use crate::tape::script::Change;

/// The longest lease: a day.
const LONGEST_MS: u64 = 24 * 60 * 60 * 1000;

/// The most entries that one slice of a copy has.
const SLICE: u32 = 1_000;

pub(super) fn validate(change: &Change) -> Check {
    let within = change.request.as_ref().and_then(|asked| asked.within.as_ref());
    for op in &change.ops {
        let inner = if let Do::WhenKey { then, .. } = op { then } else { op };
        let well_formed = match inner {
            Do::WhenKey { .. } => false,
            Do::Create { session, .. } | Do::Delete { session, .. } => within != Some(session),
            Do::Append { lines, .. } => {
                !lines.is_empty() && lines.iter().enumerate().all(line_is_well_formed)
            }
            Do::Restore { lines, .. } => lines.iter().all(|line| !line.text.contains('\0')),
            Do::Start { intent, after, .. } => intent.is_some() || after.is_none(),
            Do::Events { values, .. } => !values.is_empty(),
            Do::Acquire { ttl_ms, .. } | Do::Renew { ttl_ms, .. } => (1..=LONGEST_MS).contains(ttl_ms),
            Do::Copy { from, to, after, through } => {
                let (first, last) = (after.unwrap_or(0), *through);
                if from != to && last > first && last - first > SLICE {
                    return Err(ErrorKind::TooLarge);
                }
                from != to && last > first
            }
            _ => true,
        };
        if !well_formed {
            return Err(ErrorKind::Invalid);
        }
    }
    Ok(())
}

fn line_is_well_formed((at, line): (usize, &Line)) -> bool {
    let earlier = !matches!(line.follows, Follows::Place(place) if place >= at);
    earlier && !line.text.contains('\0')
}
