//! Pannier: a sidecar that carries all the state of a WhatsApp bot in Valkey, encrypted, behind gRPC.
//!
//! Data flows one way: `server` → a capability's `rpc` → its `store` → `crypto` and `valkey`. A capability's `rpc` knows no
//! key name, its `store` no proto type, and `crypto` neither.
//!
//! What never breaks: credentials and Signal keys have no TTL; nothing secret or personal is in Valkey in clear; *missing*,
//! *unavailable*, *corrupt*, *wrong key* and *fenced off* are five different answers; one item is atomic, and so is a commit;
//! every mutation can be sent again; every wait has a deadline and every queue a bound.

mod access;
pub mod admin;
pub mod blob;
pub mod cap;
pub mod cli;
pub mod config;
pub mod conversation;
pub mod crypto;
pub mod dedup;
pub mod doctor;
pub mod error;
pub mod memory;
mod owner;
pub mod pipe;
pub mod proto;
pub mod relocation;
pub mod rotation;
mod rpc;
pub mod schedule;
pub mod server;
pub mod session;
pub mod telemetry;
pub mod valkey;
