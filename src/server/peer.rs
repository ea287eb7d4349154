//! Who is at the other end of a connection, as the kernel says.

use tokio::net::UnixStream;

/// The other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// It may call.
    pub allowed: bool,
    /// It may use the admin calls.
    pub admin: bool,
}

/// Which users may connect.
#[derive(Clone, Debug)]
pub struct PeerPolicy {
    own: u32,
    allowed: Vec<u32>,
}

impl PeerPolicy {
    /// Our own user, and these.
    pub fn new(allowed: Vec<u32>) -> Self {
        Self { own: rustix::process::geteuid().as_raw(), allowed }
    }

    /// Judges a new connection. Without an answer of the kernel nobody is let in.
    pub fn judge(&self, stream: &UnixStream) -> Peer {
        stream.peer_cred().map_or(Peer { uid: u32::MAX, allowed: false, admin: false }, |peer| {
            let own = peer.uid() == self.own;
            Peer { uid: peer.uid(), allowed: own || self.allowed.contains(&peer.uid()), admin: own }
        })
    }
}
