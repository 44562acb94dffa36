//! How much work a run of the suite may be.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Names the tier for generated tests.
const TIER: &str = "TURNKEEP_CONFORMANCE_TIER";
/// Names the seed for generated tests.
const SEED: &str = "TURNKEEP_CONFORMANCE_SEED";
/// Names the longest time of a clause, in milliseconds, for the process that asks it.
#[cfg(feature = "certify")]
const LONGEST: &str = "TURNKEEP_CONFORMANCE_LONGEST_MS";

/// How much work a run may be. Every clause runs in every tier; those that draw samples draw more of them in a higher
/// one, and say how many in what they count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// All clauses of one backend in about ten seconds: for every change.
    #[default]
    Smoke,
    /// All clauses of one backend in under two minutes: what a certificate needs.
    Full,
    /// As long as it is let.
    Soak,
}

impl Tier {
    /// Every tier, the smallest first.
    pub const ALL: [Self; 3] = [Self::Smoke, Self::Full, Self::Soak];

    /// As a person types it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Full => "full",
            Self::Soak => "soak",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Tier {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|tier| tier.as_str() == text)
            .ok_or_else(|| format!("there is no tier {text:?}: write smoke, full or soak"))
    }
}

/// What the environment asks of generated tests: the tier and the seed.
///
/// # Errors
/// When a variable says something else than a tier or a number: a run must not be smaller than somebody believes.
pub(crate) fn asked() -> Result<(Tier, u64), String> {
    let read = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let tier = read(TIER)
        .map_or(Ok(Tier::default()), |text| text.parse().map_err(|error| format!("{TIER}: {error}")))?;
    let seed = read(SEED).map_or(Ok(0), |text| {
        text.parse().map_err(|_| format!("{SEED}: {text:?} is no number from 0 to {}", u64::MAX))
    })?;
    Ok((tier, seed))
}

/// The variables that ask a process for what these settings say.
#[cfg(feature = "certify")]
pub(crate) fn asking(settings: &crate::runner::Settings) -> [(&'static str, String); 3] {
    [
        (TIER, settings.tier.to_string()),
        (SEED, settings.seed.to_string()),
        (LONGEST, settings.longest.as_millis().to_string()),
    ]
}

/// The longest time that the environment gives the clause of this process.
///
/// # Errors
/// When it is no number.
#[cfg(feature = "certify")]
pub(crate) fn longest() -> Result<Option<std::time::Duration>, String> {
    let Ok(text) = std::env::var(LONGEST) else { return Ok(None) };
    let ms = text.parse().map_err(|_| format!("{LONGEST}: {text:?} is no number of milliseconds"))?;
    Ok(Some(std::time::Duration::from_millis(ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_read_as_it_is_written() {
        for tier in Tier::ALL {
            assert_eq!(tier.to_string().parse(), Ok(tier));
        }
        assert!("fast".parse::<Tier>().unwrap_err().contains("smoke, full or soak"));
    }
}
