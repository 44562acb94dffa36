//! Tests of the sessions crate through its public interface.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like the tests themselves")]
mod message;
mod replay;
mod replay_live;
mod replay_property;

mod site;

mod attempts;
mod audit;
mod auditors;
mod bindings;
mod blocking;
mod both;
#[cfg(feature = "mutants")]
mod breaks;
mod capabilities;
mod cases;
mod claims;
mod copy;
mod damaged;
mod entries;
mod fault_store;
mod faults;
mod follow;
mod fork;
mod identity;
mod inbox;
mod large;
mod leases;
mod lineage;
mod projects;
mod recovery;
mod redaction;
mod replay_store;
mod responses;
mod retention;
mod runs;
mod salvage;
mod salvage_numbers;
mod search;
mod sessions;
mod soak;
mod transfer;
mod transfer_bad_input;
mod transfer_pi;
mod transfer_pi_tree;
mod transfer_takeover;
mod usage;
