//! Who may call: the TCP listener, TLS, tokens. Refused here is what would open the sidecar wider than meant.

use std::{net::IpAddr, path::PathBuf};

use super::{
    ConfigError, Origin,
    reader::{Reader, absolute},
};
use crate::{access::TokenFile, server::tls};

/// Who may call, and where else than on the socket.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Hashes of the tokens.
    pub token_file: Option<PathBuf>,
    /// On the socket.
    pub socket_auth: SocketAuth,
    /// The TCP port.
    pub listen: Option<Listen>,
}

/// Who may call on the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocketAuth {
    /// By user.
    #[default]
    Peer,
    /// By token, whichever user.
    Token,
    /// By user and token.
    Both,
}

/// A TCP port.
#[derive(Clone, Debug)]
pub struct Listen {
    /// An address or a name.
    pub host: String,
    /// 0: any that is free.
    pub port: u16,
    /// Without it only on loopback.
    pub tls: Option<Tls>,
}

/// Files of certificates.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Our chain.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who signs the clients' certificates; None: they need none.
    pub client_ca: Option<PathBuf>,
}

impl Reader {
    pub(super) fn access(&self) -> Result<Access, ConfigError> {
        let file = |name: &str| self.0.get(name).map(absolute).transpose();
        let socket_auth = self.parse("socket-auth", socket_auth)?.unwrap_or_default();
        let listen = self.parse("listen", host_and_port)?;
        let tokens_used = listen.is_some() || socket_auth != SocketAuth::Peer;
        self.refuse_idle("token-file", tokens_used, "--listen or --socket-auth token")?;
        for name in ["tls-cert", "tls-key", "tls-client-ca"] {
            self.refuse_idle(name, listen.is_some(), "--listen")?;
        }
        if socket_auth == SocketAuth::Token && self.0.origin("allow-uid") > Origin::Environment {
            let allow = self.cite("allow-uid");
            return Err(ConfigError(format!(
                "{allow} has no effect with --socket-auth token; `both` asks for both"
            )));
        }
        let token_file = if tokens_used { file("token-file")? } else { None };
        if let Some(path) = &token_file {
            TokenFile::read(path)?;
        } else if socket_auth != SocketAuth::Peer {
            let cited = self.cite("socket-auth");
            return Err(ConfigError(format!("{cited}: give the tokens with --token-file; {MAKE_TOKENS}")));
        }
        let listen = match listen {
            None => None,
            Some((host, port)) => {
                let tls = tls_of(file("tls-cert")?, file("tls-key")?, file("tls-client-ca")?)?;
                self.check_listen(&host, tls.as_ref(), token_file.is_some())?;
                Some(Listen { host, port, tls })
            }
        };
        Ok(Access { token_file, socket_auth, listen })
    }

    /// As everywhere: a flag or key without effect is an error, a variable may be meant for another process.
    pub(super) fn refuse_idle(&self, name: &str, used: bool, needs: &str) -> Result<(), ConfigError> {
        if used || self.0.get(name).is_none() || self.0.origin(name) == Origin::Environment {
            return Ok(());
        }
        Err(ConfigError(format!("{} has no effect without {needs}", self.cite(name))))
    }

    fn check_listen(&self, host: &str, tls: Option<&Tls>, tokens: bool) -> Result<(), ConfigError> {
        let cited = self.cite("listen");
        if !tokens && tls.is_none_or(|tls| tls.client_ca.is_none()) {
            return Err(ConfigError(format!(
                "{cited}: whoever reaches the port could do everything: give --token-file ({MAKE_TOKENS}), or ask for client \
                 certificates with --tls-client-ca"
            )));
        }
        if tls.is_none() && !is_loopback(host) {
            return Err(ConfigError(format!(
                "{cited}: beyond loopback tokens and keys would go over the network in clear: give --tls-cert and --tls-key, or \
                 listen on 127.0.0.1, [::1] or localhost"
            )));
        }
        Ok(())
    }
}

/// TLS of these files, if it is asked for.
fn tls_of(
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
) -> Result<Option<Tls>, ConfigError> {
    let tls = match (cert, key) {
        (Some(cert), Some(key)) => Tls { cert, key, client_ca },
        (None, None) if client_ca.is_none() => return Ok(None),
        (None, _) => return Err(ConfigError("TLS needs --tls-cert, beside what is given".into())),
        (_, None) => return Err(ConfigError("--tls-cert needs its key: give --tls-key".into())),
    };
    tls::load(&tls)?;
    Ok(Some(tls))
}

const MAKE_TOKENS: &str = "`pannier tokens add NAME --scope … --token-file FILE` makes one";

fn socket_auth(text: &str) -> Result<SocketAuth, String> {
    match text {
        "peer" => Ok(SocketAuth::Peer),
        "token" => Ok(SocketAuth::Token),
        "both" => Ok(SocketAuth::Both),
        _ => Err(format!("`{text}` is none of peer, token, both")),
    }
}

/// `127.0.0.1:7600`, `[::1]:7600`, `localhost:7600`.
pub fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("`{text}` is not HOST:PORT, such as 127.0.0.1:7600 or [::]:7600");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let valid = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains([':', '/', '[', ']', ' ']),
    };
    if valid { Ok((bracketed.unwrap_or(host).to_owned(), port)) } else { Err(wrong()) }
}

/// Whether only this machine can reach it. Of the names only `localhost` is believed.
pub fn is_loopback(host: &str) -> bool {
    host.parse::<IpAddr>().map_or(host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read_with_and_without_brackets() {
        let read = |text: &str| host_and_port(text).unwrap();
        assert_eq!(read("127.0.0.1:7600"), ("127.0.0.1".into(), 7600));
        assert_eq!(read("[::1]:7600"), ("::1".into(), 7600));
        assert_eq!(read("bot.example:0"), ("bot.example".into(), 0));
        for wrong in
            ["", "7600", ":7600", "host:", "host:70000", "::1:7600", "[host]:7600", "unix:/x", "http://h:1"]
        {
            assert!(host_and_port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn loopback_is_only_what_cannot_be_reached_from_outside() {
        for inside in ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"] {
            assert!(is_loopback(inside), "{inside}");
        }
        for outside in ["0.0.0.0", "::", "192.168.1.2", "localhost.example", "bot", "::ffff:10.0.0.1"] {
            assert!(!is_loopback(outside), "{outside}");
        }
    }
}
