//! Who is at the other end of a connection: on the socket, as the kernel says.

use std::sync::Arc;

use tokio::net::UnixStream;

use crate::{
    access::{Grant, Tokens},
    config::SocketAuth,
};

/// How the calls of one connection are let in.
#[derive(Clone, Debug)]
pub enum Entrance {
    /// Not at all: this user may not use the socket.
    Closed(u32),
    /// All alike.
    As(Grant),
    /// Each by its token.
    ByToken(Arc<Tokens>),
}

/// Which users may connect, and what else they need.
#[derive(Clone, Debug)]
pub struct PeerPolicy {
    own: u32,
    allowed: Vec<u32>,
    auth: SocketAuth,
    tokens: Option<Arc<Tokens>>,
}

impl PeerPolicy {
    /// Our own user, and these; by token if `auth` says so.
    pub fn new(allowed: Vec<u32>, auth: SocketAuth, tokens: Option<Arc<Tokens>>) -> Self {
        Self { own: rustix::process::geteuid().as_raw(), allowed, auth, tokens }
    }

    /// Judges a new connection. Without an answer of the kernel nobody is let in.
    pub fn judge(&self, stream: &UnixStream) -> Entrance {
        let uid = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
        let own = uid == self.own && uid != u32::MAX;
        let allowed = own || (self.allowed.contains(&uid) && uid != u32::MAX);
        match (self.auth, &self.tokens) {
            (SocketAuth::Peer | SocketAuth::Both, _) if !allowed => Entrance::Closed(uid),
            (SocketAuth::Peer, _) => Entrance::As(if own { Grant::Own } else { Grant::Guest }),
            (_, Some(tokens)) => Entrance::ByToken(Arc::clone(tokens)),
            (_, None) => Entrance::Closed(uid),
        }
    }
}
