//! Where Valkey is: the URL, what it is called in logs (never its password), and TLS.

use std::{fmt, net::SocketAddr, path::Path, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion,
    RedisFuture, TlsCertificates,
    io::{
        AsyncDNSResolver,
        tcp::{TcpSettings, socket2::TcpKeepalive},
    },
};
use secrecy::{ExposeSecret as _, SecretString};

use super::StartError;

/// A Valkey that somebody else runs.
#[derive(Clone)]
pub struct UrlTarget {
    /// `valkey://`, `redis://`, `valkeys://`, `rediss://` with `user:password@host:port/db`, or `unix:///path?db=0`. With
    /// Sentinel or Cluster several hosts may be given: `valkey://host-1:7000,host-2:7000`.
    pub url: SecretString,
    /// Replaces the URL's user.
    pub username: Option<String>,
    /// Replaces the URL's password.
    pub password: Option<SecretString>,
    /// PEM of the authorities to trust instead of the built-in ones.
    pub ca: Option<Vec<u8>>,
    /// PEM of our certificate chain and its key, for a server that asks for them.
    pub client_certificate: Option<(Vec<u8>, SecretString)>,
    /// What is behind the URL.
    pub topology: Topology,
}

/// What is behind a URL.
#[derive(Clone, Debug)]
pub enum Topology {
    /// The primary itself.
    Standalone,
    /// Sentinels, which know where the primary is.
    Sentinel {
        /// The name they watch it under, such as `mymaster`.
        primary: String,
        /// The password of the Sentinels themselves; the URL's user and password are the primary's.
        password: Option<SecretString>,
    },
    /// Nodes of a cluster, which know all others.
    Cluster,
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
            topology: Topology::Standalone,
        }
    }
}

impl fmt::Debug for UrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlTarget").finish_non_exhaustive()
    }
}

/// A server's place in the network, as a cluster or a Sentinel tells it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub host: String,
    pub port: u16,
}

impl Place {
    /// Reads `host:port`. A node that does not know its own host leaves it out, or says `?`: then it is `own`.
    pub fn parse(text: &str, own: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_matches(['[', ']']);
        let host = if host.is_empty() || host == "?" { own } else { host };
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The URL for each of the hosts that a URL names, separated by commas.
pub fn each_host(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| !scheme.ends_with("unix")) else {
        return vec![url.to_owned()];
    };
    let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
    let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let user = if user.is_empty() { String::new() } else { format!("{user}@") };
    hosts.split(',').map(|host| format!("{scheme}://{user}{}{path}", host.trim())).collect()
}

/// One server, and how to get in.
#[derive(Clone)]
pub(super) struct Endpoint {
    client: Client,
    certificates: Option<TlsCertificates>,
    label: String,
    /// Where to dial, if that is not what the certificate must be for.
    dial: Option<Place>,
}

impl Endpoint {
    /// Reads a URL. An error does not repeat it: it may hold a password.
    pub fn parse(target: &UrlTarget) -> Result<Self, StartError> {
        Self::parse_one(target, target.url.expose_secret())
    }

    /// Reads a URL that may name several hosts.
    pub fn parse_all(target: &UrlTarget) -> Result<Vec<Self>, StartError> {
        each_host(target.url.expose_secret()).iter().map(|url| Self::parse_one(target, url)).collect()
    }

    fn parse_one(target: &UrlTarget, url: &str) -> Result<Self, StartError> {
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
        let given = target.ca.is_some() || target.client_certificate.is_some();
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            if given {
                return Err(bad("certificates are given, but its scheme is not rediss:// or valkeys://"));
            }
            return Self::open(info, None);
        }
        let certificates = given.then(|| TlsCertificates {
            client_tls: target.client_certificate.as_ref().map(|(chain, key)| redis::ClientTlsConfig {
                client_cert: chain.clone(),
                client_key: key.expose_secret().as_bytes().to_vec(),
            }),
            root_cert: target.ca.clone(),
        });
        Self::open(info, certificates)
    }

    /// The server at a unix socket.
    pub fn unix(path: &Path) -> Result<Self, StartError> {
        let info = ConnectionAddr::Unix(path.to_path_buf())
            .into_connection_info()
            .map_err(|error| StartError::Config(error.to_string()))?;
        Self::open(info, None)
    }

    fn open(info: ConnectionInfo, certificates: Option<TlsCertificates>) -> Result<Self, StartError> {
        let label = info.addr().to_string();
        let info = with_settings(info);
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            install_crypto_provider();
        }
        let client = match &certificates {
            Some(certificates) => Client::build_with_tls(info, certificates.clone())
                .map_err(|_| bad("a certificate or key file is not PEM"))?,
            None => Client::open(info).map_err(|error| StartError::Config(error.to_string()))?,
        };
        Ok(Self { client, certificates, label, dial: None })
    }

    /// The same user, password and TLS at another place. Its certificate must be for `name`.
    pub fn at(&self, place: &Place, name: &str) -> Result<Self, StartError> {
        let info = self.client.get_connection_info().clone();
        let (info, dial) = match info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                let addr =
                    ConnectionAddr::TcpTls { host: name.to_owned(), port: place.port, insecure, tls_params };
                (info.set_addr(addr), (name != place.host).then(|| place.clone()))
            }
            _ => (info.set_addr(ConnectionAddr::Tcp(place.host.clone(), place.port)), None),
        };
        Ok(Self { dial, label: place.to_string(), ..Self::open(info, self.certificates.clone())? })
    }

    /// For the Sentinels themselves: without the primary's user, password and database.
    pub fn for_sentinel(&self, password: Option<&SecretString>) -> Result<Self, StartError> {
        let info = self.client.get_connection_info().clone();
        let mut redis = redis::RedisConnectionInfo::default();
        if let Some(password) = password {
            redis = redis.set_password(password.expose_secret());
        }
        Self::open(info.set_redis_settings(redis), self.certificates.clone())
    }

    /// The names that its certificate may be for when a cluster or a Sentinel calls it `place`, the likeliest first: they
    /// often tell addresses, while certificates are for names.
    pub fn names_at(&self, place: &Place, hostname: Option<&str>) -> Vec<String> {
        let own = match self.client.get_connection_info().addr() {
            ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => return vec![place.host.clone()],
        };
        let mut names: Vec<String> = hostname.map(str::to_owned).into_iter().collect();
        let is_address = place.host.parse::<std::net::IpAddr>().is_ok();
        if is_address {
            names.extend([own, place.host.clone()]);
        } else {
            names.extend([place.host.clone(), own]);
        }
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// The host that the URL names, for nodes that do not know their own.
    pub fn host(&self) -> Option<String> {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => Some(host.clone()),
            _ => None,
        }
    }

    /// The number of the database.
    pub fn database(&self) -> i64 {
        self.client.get_connection_info().redis_settings().db()
    }

    pub fn is_unix(&self) -> bool {
        matches!(self.client.get_connection_info().addr(), ConnectionAddr::Unix(_))
    }

    /// A connection with `config`, however long it takes.
    pub async fn connect(
        &self,
        config: AsyncConnectionConfig,
    ) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
        let config = match &self.dial {
            Some(place) => config.set_dns_resolver(Dial(place.clone())),
            None => config,
        };
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    #[cfg(test)]
    fn client(&self) -> &Client {
        &self.client
    }
}

/// Dials one place, whatever the name.
struct Dial(Place);

impl AsyncDNSResolver for Dial {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _host: &'b str,
        _port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async {
            let found = tokio::net::lookup_host((self.0.host.as_str(), self.0.port)).await?;
            let found: Vec<SocketAddr> = found.collect();
            Ok(Box::new(found.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}

fn bad(why: &str) -> StartError {
    StartError::Config(format!("the Valkey URL cannot be used: {why}"))
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
    fn a_url_may_name_several_hosts() {
        let all = Endpoint::parse_all(&UrlTarget::new("valkey://u:p,w@one.example:7000, two.example:7001/0"))
            .unwrap();
        let labels: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(labels, ["one.example:7000", "two.example:7001"]);
        let info = all[1].client().get_connection_info().redis_settings();
        assert_eq!((info.username(), info.password()), (Some("u"), Some("p,w")));
        assert_eq!(Endpoint::parse_all(&UrlTarget::new("unix:///a,b/c.sock")).unwrap().len(), 1);
    }

    #[test]
    fn a_node_that_tells_its_address_is_dialled_there_under_the_name_of_the_url() {
        let seed = Endpoint::parse(&UrlTarget::new("valkeys://cluster.example:7000")).unwrap();
        let place = Place { host: "10.0.0.7".into(), port: 7001 };
        assert_eq!(seed.names_at(&place, None), ["cluster.example", "10.0.0.7"]);
        assert_eq!(seed.names_at(&place, Some("node-1.example"))[0], "node-1.example");
        let node = seed.at(&place, "cluster.example").unwrap();
        assert_eq!(node.to_string(), "10.0.0.7:7001");
        assert_eq!(node.host().as_deref(), Some("cluster.example"));
        assert_eq!(node.dial, Some(place));
    }

    #[test]
    fn a_place_is_read_back() {
        for (text, host) in
            [("10.0.0.7:7001", "10.0.0.7"), ("[::1]:7001", "::1"), ("?:7001", "own"), (":7001", "own")]
        {
            let place = Place::parse(text, "own").unwrap();
            assert_eq!((place.host.as_str(), place.port), (host, 7001));
        }
        assert_eq!(Place::parse("[::1]:7001", "").unwrap().to_string(), "[::1]:7001");
        assert_eq!(Place::parse("nowhere", ""), None);
    }

    #[test]
    fn tls_urls_work_without_a_main() {
        let endpoint = Endpoint::parse(&UrlTarget::new("rediss://valkey.example:6380")).unwrap();
        assert_eq!(endpoint.to_string(), "valkey.example:6380");
    }
}
