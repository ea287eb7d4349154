//! What the sidecar says of itself.

mod keys;
mod rpc;

pub use rpc::{About, service};
