//! Dedup: a message is handled once, and never lost between the claim and the work.
//!
//! A claim that is not completed is taken over when its time has run out, so a worker that dies loses nothing; its fence
//! tells a worker that was too slow that the claim is another's.
//!
//! `rpc` is the door, `store` the floor.

mod rpc;
mod scripts;
mod store;

pub use self::{
    rpc::{Handler, service},
    scripts::ALL as SCRIPTS,
};
