//! TLS of the TCP listener: certificates from files, read again at SIGHUP; what cannot be read leaves the old ones in use.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, sync::Arc};

use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::signal::unix::{SignalKind, signal};
use x509_cert::{Certificate, der::Decode as _};

use crate::config::{ConfigError, Tls};

/// What new connections are shown.
pub struct Certificates {
    files: Tls,
    current: ArcSwap<ServerConfig>,
}

impl Certificates {
    /// From these files.
    pub fn new(files: Tls) -> Result<Arc<Self>, ConfigError> {
        let current = ArcSwap::from(load(&files)?);
        let certificates = Self { files, current };
        certificates.warn();
        Ok(Arc::new(certificates))
    }

    /// For the next connection.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Reads the files again at every SIGHUP. Connections that are open keep what they have.
    pub async fn reload_on_hangup(self: Arc<Self>) {
        let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
        while hangup.recv().await.is_some() {
            match load(&self.files) {
                Ok(new) => {
                    self.current.store(new);
                    tracing::info!("the certificates were read again");
                    self.warn();
                }
                Err(error) => {
                    tracing::error!(%error, "the certificates were not taken; the old ones stay in use");
                }
            }
        }
    }

    fn warn(&self) {
        let key = &self.files.key;
        if fs::metadata(key).is_ok_and(|found| found.mode() & 0o007 != 0) {
            tracing::warn!("others may read the private key of TLS: chmod 600 {}", key.display());
        }
    }
}

/// Reads and checks the files.
///
/// # Errors
/// Name the file and what is wrong with it.
pub fn load(files: &Tls) -> Result<Arc<ServerConfig>, ConfigError> {
    let provider = Arc::new(ring::default_provider());
    let wrong =
        |flag: &str, path: &Path, what: String| ConfigError(format!("{flag} {}: {what}", path.display()));
    let chain = certificates(&files.cert).map_err(|what| wrong("--tls-cert", &files.cert, what))?;
    let key = private_key(&files.key).map_err(|what| wrong("--tls-key", &files.key, what))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| ConfigError(format!("TLS: {error}")))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier =
                client_verifier(path, &provider).map_err(|what| wrong("--tls-client-ca", path, what))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            wrong("--tls-key", &files.key, format!("it is not the key of {}", files.cert.display()))
        }
        error => wrong("--tls-cert", &files.cert, error.to_string()),
    })?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    if files.client_ca.is_some() {
        // A resumed session is not asked for its certificate again, which may have expired meanwhile.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

/// When the first of a file's certificates ends that ends first.
///
/// # Errors
/// The file cannot be read, or holds none.
pub fn expiry(path: &Path) -> Result<jiff::Timestamp, String> {
    let ends = |certificate: &CertificateDer| {
        let read = Certificate::from_der(certificate).map_err(|error| format!("no certificate: {error}"))?;
        let ends = read.tbs_certificate().validity().not_after.to_unix_duration();
        let seconds = i64::try_from(ends.as_secs()).unwrap_or(i64::MAX);
        Ok(jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX))
    };
    let all: Result<Vec<_>, String> = certificates(path)?.iter().map(ends).collect();
    all?.into_iter().min().ok_or_else(|| "there is no certificate in it".to_owned())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = fs::read(path).map_err(|error| error.to_string())?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = read.map_err(|error| format!("it is not PEM: {error}"))?;
    if found.is_empty() { Err("there is no certificate in it (PEM is wanted)".into()) } else { Ok(found) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = zeroize::Zeroizing::new(fs::read(path).map_err(|error| error.to_string())?);
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        rustls_pki_types::pem::Error::NoItemsFound => {
            "there is no private key in it (PEM, without a passphrase, is wanted)".to_owned()
        }
        error => format!("it is not PEM: {error}"),
    })
}

fn client_verifier(
    path: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for root in certificates(path)? {
        roots.add(root).map_err(|error| error.to_string())?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| error.to_string())
}
