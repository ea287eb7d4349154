//! What the sidecar says of itself.

mod rpc;

pub use rpc::{About, service};
