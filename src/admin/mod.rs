//! What the sidecar says of itself.

mod doctor;
mod rpc;

pub use rpc::{About, service};
