//! What a run of the suite found, for people and programs.
//!
//! A [`Report`] is the source: `report.json`. The page, the junit file and the certificate are made from it and from
//! nothing else. A [`Certificate`] exists only where [`Report::shortfalls`] is empty.

mod certificate;
mod data;
mod folder;
mod junit;
mod merge;
mod page;
mod shortfall;
mod steps;
mod time;

pub use crate::backend::{Backend, StoreFacts};
pub use crate::catalogue::{Promise, catalogue};
pub use certificate::{Certificate, Refused, Verified, verify};
pub(crate) use data::millis;
pub use data::{Counts, Entry, Report, Run};
pub use folder::{Files, read, read_certificate, write};
pub(crate) use folder::{holds_report, tape_path};
pub use junit::junit;
pub use merge::{MergeError, merge};
pub use page::page;
pub(crate) use page::words;
pub use shortfall::Shortfall;
pub(crate) use shortfall::is_asked;
pub(crate) use steps::steps;

/// The version of the form of `report.json` and `certificate.json`.
pub const FORMAT: u32 = 1;
