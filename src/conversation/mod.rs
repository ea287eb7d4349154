//! Conversations: where each chat is. A sliding time to live, a hard ceiling if wanted, and compare-and-set.
//!
//! The sidecar merges and seals, beginning with what it knows or has read; one script compares and writes, so that of two changes at
//! once none is lost. A version
//! is never used twice, so that a late writer cannot take the next conversation for the one it knew.
//!
//! `rpc` is the door, `store` the floor.

mod guess;
mod listing;
mod rpc;
mod scripts;
mod state;
mod store;

pub use self::{
    rpc::{Handler, service},
    scripts::ALL as SCRIPTS,
};
