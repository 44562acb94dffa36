//! The certificate: that every promise was kept, bound to the report that says so.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::data::{Counts, Report, Run};
use super::shortfall::Shortfall;
use crate::backend::Backend;
use crate::catalogue::{self, hex};

/// `certificate.json`. It says what was asked, of whom, and how to ask again.
///
/// It proves that it belongs to its report and that the report deserves it. It does not prove who ran the suite: for
/// that, run the command it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The version of this form, [`FORMAT`](super::FORMAT).
    pub format: u32,
    /// What is certified, in one sentence.
    pub statement: String,
    /// The version of the specification.
    pub spec: String,
    /// The version of the suite.
    pub suite: String,
    /// The digest of all clauses.
    pub catalogue: String,
    /// The backend, its engine, and what they declare.
    pub backend: Backend,
    /// Tier, seed, budget, times, and the command that asks again.
    pub run: Run,
    /// How many clauses got which answer.
    pub counts: Counts,
    /// What the answers rest on.
    pub counted: BTreeMap<String, u64>,
    /// The SHA-256 of the bytes of `report.json`.
    pub report_sha256: String,
}

impl Certificate {
    /// Issues the certificate of a report. `report_json` are the bytes of its `report.json`.
    ///
    /// # Errors
    /// Everything that stands in the way.
    pub fn issue(report: &Report, report_json: &[u8]) -> Result<Self, Vec<Shortfall>> {
        let shortfalls = report.shortfalls();
        if !shortfalls.is_empty() {
            return Err(shortfalls);
        }
        Ok(Self {
            format: super::FORMAT,
            statement: statement(report),
            spec: report.spec.clone(),
            suite: report.suite.clone(),
            catalogue: report.catalogue.clone(),
            backend: report.backend.clone(),
            run: report.run.clone(),
            counts: report.counts(),
            counted: report.counted(),
            report_sha256: hex(&Sha256::digest(report_json)),
        })
    }

    /// `certificate.json`.
    ///
    /// # Errors
    /// Never for a certificate that was issued: every key is text.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        Ok(json)
    }
}

/// What is certified, in one sentence.
fn statement(report: &Report) -> String {
    let store = report.backend.store.as_ref();
    format!(
        "{} {} keeps every promise of the turnkeep specification {} that it makes, with durability {:?}, in the {} \
         tier.",
        report.backend.name,
        store.map_or("", |store| store.version.as_str()),
        report.spec,
        report.backend.durability,
        report.run.tier,
    )
}

/// A certificate that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The certificate.
    pub certificate: Certificate,
    /// Whether the clauses are those of this suite, or an earlier or later one's.
    pub is_current: bool,
}

/// Why a certificate does not hold.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refused {
    /// One of the two files is not what it should be.
    Unreadable {
        /// Which one.
        what: &'static str,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// The report is not the one that the certificate was issued for.
    OtherReport {
        /// The digest that the certificate names.
        named: String,
        /// The digest of the report.
        seen: String,
    },
    /// The report does not deserve a certificate.
    Undeserved(Vec<Shortfall>),
    /// The certificate says something else than its report.
    Contradiction,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { what, error } => write!(f, "the {what} cannot be read: {error}"),
            Self::OtherReport { named, seen } => {
                write!(
                    f,
                    "the certificate was issued for another report: it names {named}, this one is {seen}"
                )
            }
            Self::Undeserved(shortfalls) => {
                let reasons: Vec<String> = shortfalls.iter().map(ToString::to_string).collect();
                write!(f, "the report deserves no certificate: {}", reasons.join("; "))
            }
            Self::Contradiction => f.write_str("the certificate says something else than its report"),
        }
    }
}

impl std::error::Error for Refused {}

/// Recomputes a certificate from its report.
///
/// # Errors
/// When either file was changed, or the report never deserved it.
pub fn verify(certificate_json: &[u8], report_json: &[u8]) -> Result<Verified, Refused> {
    let unreadable = |what| move |error| Refused::Unreadable { what, error };
    let certificate: Certificate =
        serde_json::from_slice(certificate_json).map_err(unreadable("certificate"))?;
    let seen = hex(&Sha256::digest(report_json));
    if seen != certificate.report_sha256 {
        return Err(Refused::OtherReport { named: certificate.report_sha256, seen });
    }
    let report: Report = serde_json::from_slice(report_json).map_err(unreadable("report"))?;
    let issued = Certificate::issue(&report, report_json).map_err(Refused::Undeserved)?;
    if issued != certificate {
        return Err(Refused::Contradiction);
    }
    let is_current = certificate.catalogue == catalogue::catalogue(&catalogue::current());
    Ok(Verified { certificate, is_current })
}
