//! Caps: how much may be sent. A denial writes nothing, a send that is tried again counts once, and several policies are counted
//! all or none.
//!
//! Policies stand in Valkey, and the script that counts reads them there: a change holds at once for every sidecar.
//!
//! `rpc` is the door, `store` the floor.

mod file;
mod names;
mod policies;
mod policy;
mod rpc;
mod scripts;
mod settle;
mod store;
mod window;

pub use self::{
    file::{Configured, parse_preset, parse_scope, parse_span, read as read_policies},
    rpc::{Handler, service},
    scripts::ALL as SCRIPTS,
    window::TZDB,
};
