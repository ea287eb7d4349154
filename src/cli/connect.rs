//! Finding the running sidecar, and being let in.

use std::{
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{self, Certificate, ClientTlsConfig, Endpoint, Identity},
};

use super::outcome::{CONFIG, Failed, Outcome, UNAVAILABLE, USAGE};
use crate::config::{default_sockets, host_and_port, is_loopback, process_environment};

/// Which sidecar a command talks to.
#[derive(Args, Clone, Debug, Default)]
pub struct Target {
    /// The sidecar: unix:/run/pannier/pannier.sock or host:port [env: `PANNIER_ADDRESS`, then `PANNIER_SOCKET`; default: the
    /// default sockets]
    #[arg(long, global = true, value_name = "ADDRESS")]
    address: Option<String>,
    /// A file that holds the token to show, where the sidecar asks for one [env: `PANNIER_TOKEN_FILE`]
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// For host:port: use TLS, and trust what these certificates (PEM) have signed [env: `PANNIER_TLS_CA`]
    #[arg(long, global = true, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// A client certificate (PEM), where the sidecar asks for one [env: `PANNIER_TLS_CLIENT_CERT`]
    #[arg(long, global = true, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Its key (PEM) [env: `PANNIER_TLS_CLIENT_KEY`]
    #[arg(long, global = true, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// The name that the sidecar's certificate is for, when it is not the host of the address.
    #[arg(long, global = true, value_name = "NAME")]
    tls_name: Option<String>,
    /// Give up after this many seconds.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// A channel that shows the token with every call.
pub type Channel = InterceptedService<transport::Channel, Bearer>;

/// Adds the token, if there is one.
#[derive(Clone)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// Where a sidecar is.
enum Place {
    Socket(PathBuf),
    Tcp(String, u16),
}

impl Target {
    /// With the defaults for all but the address.
    pub fn at(address: Option<String>) -> Self {
        Self { address, timeout: 10, ..Self::default() }
    }

    /// The deadline of a call.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// A request with the deadline.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeout());
        request
    }

    /// The socket of a sidecar that listens.
    pub fn socket(&self) -> Outcome<PathBuf> {
        match self.place()? {
            Place::Socket(path) => Ok(path),
            Place::Tcp(..) => Err(Failed::new(
                USAGE,
                "this works on the machine of the sidecar, through its socket: give --address unix:/path",
            )),
        }
    }

    fn place(&self) -> Outcome<Place> {
        let given = self
            .address
            .clone()
            .or_else(|| variable("PANNIER_ADDRESS"))
            .or_else(|| variable("PANNIER_SOCKET"))
            .filter(|address| !address.is_empty());
        if let Some(address) = given {
            let place = parse(&address)?;
            if let Place::Socket(path) = &place
                && let Err(error) = UnixStream::connect(path)
            {
                return Err(Failed::new(
                    UNAVAILABLE,
                    format!("no sidecar at {}: {error}. Is `pannier serve` running?", path.display()),
                ));
            }
            return Ok(place);
        }
        let mut tried = Vec::new();
        for path in default_sockets(&process_environment) {
            if UnixStream::connect(&path).is_ok() {
                check_directory(&path)?;
                return Ok(Place::Socket(path));
            }
            tried.push(path.display().to_string());
        }
        Err(Failed::new(
            UNAVAILABLE,
            format!(
                "no sidecar at {}. Is `pannier serve` running? Another place is named with --address",
                tried.join(" nor at ")
            ),
        ))
    }

    /// A channel to it.
    pub fn channel(&self) -> Outcome<Channel> {
        let wrong = |error: transport::Error| Failed::new(USAGE, format!("the address: {error}"));
        let token = self.token()?;
        let endpoint = match self.place()? {
            Place::Socket(path) => {
                Endpoint::from_shared(format!("unix:{}", path.display())).map_err(wrong)?
            }
            Place::Tcp(host, port) => {
                let tls = self.tls()?;
                if tls.is_none() && token.is_some() && !is_loopback(&host) {
                    return Err(Failed::new(
                        USAGE,
                        "the token would go over the network in clear: give --tls-ca (/etc/ssl/certs/ca-certificates.crt for a \
                         public authority)",
                    ));
                }
                let scheme = if tls.is_some() { "https" } else { "http" };
                let host = if host.contains(':') { format!("[{host}]") } else { host };
                let endpoint = Endpoint::from_shared(format!("{scheme}://{host}:{port}"))
                    .map_err(wrong)?
                    .tcp_nodelay(true);
                match tls {
                    Some(tls) => endpoint.tls_config(tls).map_err(|error| {
                        Failed::new(CONFIG, format!("--tls-ca, --tls-cert, --tls-key: {}", cause(&error)))
                    })?,
                    None => endpoint,
                }
            }
        };
        let channel = endpoint
            .connect_timeout(self.timeout())
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .connect_lazy();
        Ok(InterceptedService::new(channel, Bearer(token)))
    }

    fn token(&self) -> Outcome<Option<MetadataValue<Ascii>>> {
        let Some(path) = given(self.token_file.as_ref(), "PANNIER_TOKEN_FILE") else { return Ok(None) };
        let wrong = |what: &str| Failed::new(CONFIG, format!("the token in {}: {what}", path.display()));
        let text = zeroize::Zeroizing::new(read(&path)?);
        let token = text.trim();
        if token.is_empty() {
            return Err(wrong("the file is empty"));
        }
        if token.contains(char::is_whitespace) {
            return Err(wrong(
                "this is more than one word: a file of `serve` with hashes? The token itself is wanted",
            ));
        }
        let mut value: MetadataValue<Ascii> =
            format!("Bearer {token}").parse().map_err(|_| wrong("it has characters that no token has"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    fn tls(&self) -> Outcome<Option<ClientTlsConfig>> {
        let ca = given(self.tls_ca.as_ref(), "PANNIER_TLS_CA");
        let cert = given(self.tls_cert.as_ref(), "PANNIER_TLS_CLIENT_CERT");
        let key = given(self.tls_key.as_ref(), "PANNIER_TLS_CLIENT_KEY");
        let Some(ca) = ca else {
            if cert.is_some() || key.is_some() || self.tls_name.is_some() {
                return Err(Failed::new(
                    USAGE,
                    "TLS needs --tls-ca: what the sidecar's certificate was signed by",
                ));
            }
            return Ok(None);
        };
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&ca)?));
        match (cert, key) {
            (Some(cert), Some(key)) => tls = tls.identity(Identity::from_pem(read(&cert)?, read(&key)?)),
            (None, None) => {}
            _ => return Err(Failed::new(USAGE, "--tls-cert and --tls-key belong together")),
        }
        if let Some(name) = &self.tls_name {
            tls = tls.domain_name(name);
        }
        Ok(Some(tls))
    }
}

fn variable(name: &str) -> Option<String> {
    process_environment(name).filter(|value| !value.is_empty())
}

fn given(flag: Option<&PathBuf>, name: &str) -> Option<PathBuf> {
    flag.cloned().or_else(|| variable(name).map(PathBuf::from))
}

fn read(path: &Path) -> Outcome<String> {
    std::fs::read_to_string(path).map_err(|error| Failed::new(CONFIG, format!("{}: {error}", path.display())))
}

/// What lies under an error of the transport, which says little itself.
fn cause(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

fn parse(address: &str) -> Outcome<Place> {
    let path = address.strip_prefix("unix://").or_else(|| address.strip_prefix("unix:"));
    if let (None, Ok((host, port))) = (path, host_and_port(address)) {
        return Ok(Place::Tcp(host, port));
    }
    let path = path.unwrap_or(address);
    if !path.contains('/') {
        return Err(Failed::new(
            USAGE,
            format!("`{address}` is not an address such as unix:/path/to/pannier.sock or host:port"),
        ));
    }
    Ok(Place::Socket(std::path::absolute(path)?))
}

/// A default place may be in /tmp, where anybody can make a directory of that name and listen for secrets.
fn check_directory(socket: &Path) -> Outcome {
    let dir = socket.parent().unwrap_or_else(|| Path::new("/"));
    let found = std::fs::symlink_metadata(dir)?;
    let own = rustix::process::getuid().as_raw();
    if found.is_dir() && (found.uid() == own || found.uid() == 0) && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(Failed::new(
        CONFIG,
        format!(
            "{} is not a directory that only this user or root can write to: it is not trusted",
            dir.display()
        ),
    ))
}
