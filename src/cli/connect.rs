//! Finding the running sidecar.

use std::{
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use tonic::{
    Request,
    transport::{Channel, Endpoint},
};

use super::outcome::{CONFIG, Failed, Outcome, UNAVAILABLE, USAGE};
use crate::config::{default_sockets, process_environment};

/// Which sidecar a command talks to.
#[derive(Args, Clone, Debug, Default)]
pub struct Target {
    /// The sidecar's socket, such as unix:/run/pannier/pannier.sock [env: `PANNIER_ADDRESS`, then `PANNIER_SOCKET`; default:
    /// the default sockets]
    #[arg(long, global = true, value_name = "ADDRESS")]
    address: Option<String>,
    /// Give up after this many seconds.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

impl Target {
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
        let given = self
            .address
            .clone()
            .or_else(|| process_environment("PANNIER_ADDRESS"))
            .or_else(|| process_environment("PANNIER_SOCKET"))
            .filter(|address| !address.is_empty());
        if let Some(address) = given {
            let path = parse(&address)?;
            return match UnixStream::connect(&path) {
                Ok(_) => Ok(path),
                Err(error) => Err(Failed::new(
                    UNAVAILABLE,
                    format!("no sidecar at {}: {error}. Is `pannier serve` running?", path.display()),
                )),
            };
        }
        let mut tried = Vec::new();
        for path in default_sockets(&process_environment) {
            if UnixStream::connect(&path).is_ok() {
                check_directory(&path)?;
                return Ok(path);
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
        let path = self.socket()?;
        let endpoint = Endpoint::from_shared(format!("unix:{}", path.display()))
            .map_err(|error| Failed::new(USAGE, format!("{}: {error}", path.display())))?;
        Ok(endpoint
            .connect_timeout(self.timeout())
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .connect_lazy())
    }
}

fn parse(address: &str) -> Outcome<PathBuf> {
    let path = address.strip_prefix("unix://").or_else(|| address.strip_prefix("unix:")).unwrap_or(address);
    if !path.contains('/') {
        return Err(Failed::new(
            USAGE,
            format!("`{address}` is not an address such as unix:/path/to/pannier.sock"),
        ));
    }
    std::path::absolute(path).map_err(Failed::from)
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
