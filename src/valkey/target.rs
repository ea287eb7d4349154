//! Where Valkey is: the URL, what it is called in logs (never its password), and TLS.

use std::{fmt, path::Path, time::Duration};

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion, TlsCertificates,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};
use secrecy::{ExposeSecret as _, SecretString};

use super::StartError;

/// A Valkey that somebody else runs.
#[derive(Clone)]
pub struct UrlTarget {
    /// `valkey://`, `redis://`, `valkeys://`, `rediss://` with `user:password@host:port/db`, or `unix:///path?db=0`.
    pub url: SecretString,
    /// Replaces the URL's user.
    pub username: Option<String>,
    /// Replaces the URL's password.
    pub password: Option<SecretString>,
    /// PEM of the authorities to trust instead of the built-in ones.
    pub ca: Option<Vec<u8>>,
    /// PEM of our certificate chain and its key, for a server that asks for them.
    pub client_certificate: Option<(Vec<u8>, SecretString)>,
}

impl UrlTarget {
    /// A target with nothing but a URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: SecretString::from(url.into()),
            username: None,
            password: None,
            ca: None,
            client_certificate: None,
        }
    }
}

impl fmt::Debug for UrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlTarget").finish_non_exhaustive()
    }
}

/// A parsed target.
#[derive(Clone)]
pub(super) struct Endpoint {
    client: Client,
    label: String,
}

impl Endpoint {
    /// Reads a URL. An error does not repeat it: it may hold a password.
    pub fn parse(target: &UrlTarget) -> Result<Self, StartError> {
        let url = target.url.expose_secret();
        let bad = |why: &str| StartError::Config(format!("the Valkey URL cannot be used: {why}"));
        if url.contains("#insecure") {
            return Err(bad("#insecure is not supported; give the authority's certificate instead"));
        }
        let info = url.into_connection_info().map_err(|error| {
            bad(&format!(
                "{}; it must look like valkey://user:password@host:6379/0, rediss://host:6380 or unix:///path",
                error.detail().map_or_else(|| error.to_string(), |_| error.category().to_owned())
            ))
        })?;
        let mut redis = info.redis_settings().clone();
        if let Some(username) = &target.username {
            redis = redis.set_username(username);
        }
        if let Some(password) = &target.password {
            redis = redis.set_password(password.expose_secret());
        }
        let info = info.set_redis_settings(redis);
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            if target.ca.is_some() || target.client_certificate.is_some() {
                return Err(bad("certificates are given, but its scheme is not rediss:// or valkeys://"));
            }
            return Self::open(info);
        }
        install_crypto_provider();
        if target.ca.is_none() && target.client_certificate.is_none() {
            return Self::open(info);
        }
        let certificates = TlsCertificates {
            client_tls: target.client_certificate.as_ref().map(|(chain, key)| redis::ClientTlsConfig {
                client_cert: chain.clone(),
                client_key: key.expose_secret().as_bytes().to_vec(),
            }),
            root_cert: target.ca.clone(),
        };
        let label = info.addr().to_string();
        let client = Client::build_with_tls(with_settings(info), certificates)
            .map_err(|_| bad("a certificate or key file is not PEM"))?;
        Ok(Self { client, label })
    }

    /// The server at a unix socket.
    pub fn unix(path: &Path) -> Result<Self, StartError> {
        let info = ConnectionAddr::Unix(path.to_path_buf())
            .into_connection_info()
            .map_err(|error| StartError::Config(error.to_string()))?;
        Self::open(info)
    }

    fn open(info: ConnectionInfo) -> Result<Self, StartError> {
        let label = info.addr().to_string();
        let client =
            Client::open(with_settings(info)).map_err(|error| StartError::Config(error.to_string()))?;
        Ok(Self { client, label })
    }

    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// Host and port, or the path of the socket.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

fn with_settings(info: ConnectionInfo) -> ConnectionInfo {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    // RESP3 tells us at once that a connection was closed, not only with the next call.
    let redis = info
        .redis_settings()
        .clone()
        .set_protocol(ProtocolVersion::RESP3)
        .set_lib_name("pannier", env!("CARGO_PKG_VERSION"));
    info.set_redis_settings(redis)
        .set_tcp_settings(TcpSettings::default().set_nodelay(true).set_keepalive(keepalive))
}

/// Makes *ring* the process's TLS provider. To be called before anything of TLS, in tests too: with two providers compiled
/// in by somebody's feature, rustls panics at the first handshake unless one was chosen.
pub fn install_crypto_provider() {
    // An error means that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_used_is_not_repeated() {
        for url in
            ["http://u:s3cret@host", "redis://u:s3cret@host/notanumber", "redis://u:s3cret@host/0#insecure"]
        {
            let error = Endpoint::parse(&UrlTarget::new(url)).err().unwrap().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn the_label_has_no_password() {
        let endpoint = Endpoint::parse(&UrlTarget::new("valkey://u:s3cret@valkey.example:7000/3")).unwrap();
        assert_eq!(endpoint.to_string(), "valkey.example:7000");
        assert_eq!(endpoint.client().get_connection_info().redis_settings().db(), 3);
        assert!(!format!("{:?}", endpoint.client()).contains("s3cret"));
    }

    #[test]
    fn tls_urls_work_without_a_main() {
        let endpoint = Endpoint::parse(&UrlTarget::new("rediss://valkey.example:6380")).unwrap();
        assert_eq!(endpoint.to_string(), "valkey.example:6380");
    }
}
