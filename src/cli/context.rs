//! What the commands on a running sidecar's data begin with: where the sidecar is, the namespace, a client.

use std::io;

use clap::Args;

use super::{
    connect::{Channel, Target},
    outcome::Outcome,
    output,
};

/// Replies are at most 4 MiB and what wraps them.
const MAX_REPLY: usize = 5 << 20;

/// Which sidecar and namespace.
#[derive(Args, Debug)]
pub struct Place {
    #[command(flatten)]
    target: Target,
    /// The namespace.
    #[arg(long, short, global = true, default_value = "default", value_name = "NAMESPACE")]
    namespace: String,
}

/// What every subcommand works with.
pub struct Context<C> {
    pub client: C,
    pub target: Target,
    pub namespace: String,
}

impl Place {
    /// `client` makes the client of a channel, for messages of at most so many bytes either way.
    pub fn context<C>(self, client: impl FnOnce(Channel, usize) -> C) -> Outcome<Context<C>> {
        let client = client(self.target.channel()?, MAX_REPLY);
        Ok(Context { client, target: self.target, namespace: self.namespace })
    }
}

/// An id for one call and its retries: 32 hex digits.
pub fn request_id() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(output::hex(&bytes))
}
