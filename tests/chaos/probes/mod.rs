//! Every unary RPC, each on an owner of its own that is named after it, in a namespace of the test's.

use std::{future::Future, pin::Pin};

use tonic::Status;

use super::{setup::Facts, state::Kind, support::wire::Wire};

/// Pushes one RPC with a request that can be sent again: client, method, name, what it changes, request.
macro_rules! probe {
    ($all:ident, $client:ident, $method:ident, $rpc:literal, $writes:expr, $request:expr) => {{
        let request = $request;
        let call = move |wire: $crate::support::wire::Wire| -> $crate::probes::Calling {
            let request = request.clone();
            Box::pin(async move { $client::new(wire).$method(request).await.map(drop) })
        };
        $all.push($crate::probes::Probe { rpc: $rpc, writes: $writes, call: Box::new(call) });
    }};
}

mod admin;
mod blobs;
mod caps;
mod conversations;
mod dedup;
mod jobs;
mod queues;
mod sessions;

pub type Calling = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

/// One RPC with a request that can be sent again.
pub struct Probe {
    pub rpc: &'static str,
    /// What it changes; None: nothing.
    pub writes: Option<Kind>,
    pub call: Box<dyn Fn(Wire) -> Calling + Send + Sync>,
}

/// All of them, after [`super::setup::prepare`].
pub fn all(namespace: &str, facts: &Facts) -> Vec<Probe> {
    let services = [
        sessions::probes(namespace),
        blobs::probes(namespace, facts),
        admin::probes(),
        dedup::probes(namespace, facts),
        conversations::probes(namespace),
        caps::probes(namespace),
        jobs::probes(namespace, facts),
        queues::probes(namespace),
    ];
    services.into_iter().flatten().collect()
}
