//! The pipe: small calls of dedup, conversations, caps and schedule over one stream, by the same handlers as the unary calls.
//!
//! A stream is one task. It polls its calls itself, so that those which wake up together go into the funnel together, and to
//! Valkey in one write; what is answered together goes back in one write, too.

mod rpc;
mod stream;

pub use self::rpc::{Handlers, Pipes, service};
