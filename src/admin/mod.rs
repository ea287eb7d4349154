//! What the sidecar says of itself.

mod doctor;
mod keys;
mod rpc;

pub use rpc::{About, service};
