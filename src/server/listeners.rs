//! Where calls come in, and who may call there: the socket, and a TCP port if one is asked for.

use std::{net::SocketAddr, sync::Arc};

use futures_util::future::OptionFuture;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::task::TaskTracker;

use super::{
    Failure,
    accept::{Steps, accept, accept_tcp},
    calls::Calls,
    peer::{Entrance, PeerPolicy},
    socket::{self, Bound, SocketFile},
    tcp::Tcp,
};
use crate::{
    access::{Grant, Tokens},
    config::Config,
};

/// All of them, bound and not yet served.
pub struct Listeners {
    socket: Bound,
    tcp: Option<Tcp>,
    tokens: Option<Arc<Tokens>>,
}

impl Listeners {
    /// Reads the tokens and binds; the socket last, for whoever sees it may come at once.
    pub async fn bind(config: &Config) -> Result<Self, Failure> {
        let tokens = config.access.token_file.as_deref().map(Tokens::load).transpose()?;
        let tcp = match &config.access.listen {
            Some(listen) => Some(Tcp::bind(listen).await?),
            None => None,
        };
        let socket = socket::bind(&config.socket).await?;
        Ok(Self { socket, tcp, tokens })
    }

    /// What to remove at the end.
    pub fn file(&self) -> SocketFile {
        self.socket.file.clone()
    }

    /// The TCP port.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(Tcp::address)
    }

    /// Serves them until `steps.finish`. What is to be read again from files is read by tasks of `reloading`.
    pub fn serve(
        self,
        config: &Config,
        calls: Calls,
        steps: &Steps,
        connections: &TaskTracker,
        reloading: &mut JoinSet<()>,
    ) -> JoinHandle<()> {
        let (allowed, auth) = (config.socket.allow_uids.clone(), config.access.socket_auth);
        let policy = PeerPolicy::new(allowed, auth, self.tokens.clone());
        // Without tokens the certificate of the client has been asked for.
        let entrance = self.tokens.clone().map_or(Entrance::As(Grant::Guest), Entrance::ByToken);
        if let Some(tokens) = self.tokens {
            tokens.warn();
            reloading.spawn(tokens.follow());
        }
        if let Some(certificates) = self.tcp.as_ref().and_then(Tcp::certificates) {
            reloading.spawn(certificates.reload_on_hangup());
        }
        let on_socket =
            accept(self.socket.listener, calls.clone(), policy, steps.clone(), connections.clone());
        let on_tcp = self.tcp.map(|tcp| accept_tcp(tcp, calls, entrance, steps.clone(), connections.clone()));
        tokio::spawn(async {
            tokio::join!(on_socket, OptionFuture::from(on_tcp));
        })
    }
}
