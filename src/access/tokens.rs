//! The tokens in use. The file is read again when it changes and at SIGHUP; one that cannot be read changes nothing.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderMap;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::{file::TokenFile, grant::Grant, scope::Scopes};
use crate::{
    config::ConfigError,
    error::{Error, Reason, Result},
};

/// A change of the file has effect at the second look, when nobody writes to it any more; the end of a token at the first.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// A new token: what it is, and 32 random bytes, so that a plain hash of it is enough.
const PREFIX: &str = "pannier_";
/// Longer is no token.
const LONGEST: usize = 512;

/// A token as it is in use. Its text is not kept.
#[derive(Debug)]
pub struct Token {
    /// For logs.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// Fires when it was removed, changed or has expired.
    pub revoked: CancellationToken,
    digest: [u8; 32],
    expires: Option<Timestamp>,
}

impl Token {
    fn has_expired(&self) -> bool {
        self.expires.is_some_and(|at| at <= Timestamp::now())
    }
}

/// All tokens in use.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    current: ArcSwap<Vec<Arc<Token>>>,
}

impl Tokens {
    /// Reads the file.
    pub fn load(path: &Path) -> std::result::Result<Arc<Self>, ConfigError> {
        let current = ArcSwap::from_pointee(read(path, &[])?);
        Ok(Arc::new(Self { path: path.to_owned(), current }))
    }

    /// What the caller of a request may do, by its `authorization`.
    ///
    /// # Errors
    /// A token is given and is not valid.
    pub fn grant(&self, headers: &HeaderMap) -> Result<Grant> {
        let Some(value) = headers.get(http::header::AUTHORIZATION) else { return Ok(Grant::Nobody) };
        let token = value
            .to_str()
            .ok()
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && token.len() <= LONGEST)
            .ok_or_else(|| refused("`authorization` is not `Bearer` and a token"))?
            .1;
        let digest = Sha256::digest(token.trim().as_bytes());
        let mut found = None;
        // All of them are looked at, each in the same time: how long it takes tells nothing of any.
        for token in self.current.load().iter() {
            if bool::from(token.digest.ct_eq(digest.as_slice())) {
                found = Some(Arc::clone(token));
            }
        }
        match found {
            Some(token) if token.has_expired() => {
                Err(refused("the token has expired: make a new one with `pannier tokens add`"))
            }
            Some(token) => Ok(Grant::Token(token)),
            None => Err(refused(
                "the token is not known here: it was removed, or is another sidecar's (`pannier tokens list` names those \
                 there are)",
            )),
        }
    }

    fn reload(&self) {
        let old = self.current.load_full();
        match read(&self.path, &old) {
            Ok(new) => {
                let gone = old.iter().filter(|old| !new.iter().any(|new| same(new, old))).collect::<Vec<_>>();
                let (count, removed) = (new.len(), gone.len());
                // First the table, then the streams: none of those ended could come back with the same token.
                self.current.store(Arc::new(new));
                for token in gone {
                    token.revoked.cancel();
                }
                tracing::info!(tokens = count, removed, "the token file was read again");
                self.warn();
            }
            Err(error) => {
                tracing::error!(%error, "the token file was not taken; the old tokens stay in use");
            }
        }
    }

    /// Says what is not as it should be with the file.
    pub fn warn(&self) {
        let path = self.path.display();
        if TokenFile::is_open_to_others(&self.path) {
            tracing::warn!("others may read or change the token file: chmod 600 {path}");
        }
        if self.current.load().is_empty() {
            tracing::warn!("the token file {path} holds no token: nobody can come in by one");
        }
    }

    /// Ends the streams of tokens that have expired.
    fn expire(&self) {
        for token in self.current.load().iter() {
            if token.has_expired() && !token.revoked.is_cancelled() {
                tracing::warn!(token = token.name, "a token has expired");
                token.revoked.cancel();
            }
        }
    }

    /// Follows the file for as long as it is polled.
    pub async fn follow(self: Arc<Self>) {
        let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
        let mut clock = interval(LOOK_EVERY);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut taken = stamp(&self.path).ok();
        let mut seen = taken;
        loop {
            let asked = tokio::select! {
                hung_up = hangup.recv() => hung_up.is_some(),
                _ = clock.tick() => false,
            };
            let now = stamp(&self.path).ok();
            // An editor that writes in place passes through files that are whole and hold less.
            if asked || (now != taken && now == seen) {
                taken = now;
                self.reload();
            }
            seen = now;
            self.expire();
        }
    }
}

/// What changes whenever a file is written or replaced.
fn stamp(path: &Path) -> io::Result<(u64, u64, u64, i64, i64)> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

/// Two with the same rights; a stream may go on when only the end was moved.
fn same(a: &Token, b: &Token) -> bool {
    a.digest == b.digest && a.scopes == b.scopes
}

fn read(path: &Path, old: &[Arc<Token>]) -> std::result::Result<Vec<Arc<Token>>, ConfigError> {
    let wrong = |what| ConfigError(format!("the token file {}: {what}", path.display()));
    let file = TokenFile::read(path)?;
    let token = |entry: &super::file::Entry| {
        let mut token = Token {
            name: entry.name.clone(),
            scopes: Scopes::parse(&entry.scopes).map_err(wrong)?,
            revoked: CancellationToken::new(),
            digest: entry.digest().ok_or_else(|| wrong("sha256 is not 64 hex digits".into()))?,
            expires: entry.expiry().map_err(wrong)?,
        };
        // One that had expired is a new one when its end is moved.
        let before = old.iter().find(|old| same(&token, old) && !old.revoked.is_cancelled());
        if let Some(before) = before {
            token.revoked = before.revoked.clone();
        }
        Ok(Arc::new(token))
    };
    file.entries.iter().map(token).collect()
}

fn refused(what: &str) -> Error {
    Error::new(Reason::Unauthenticated, what)
}

/// A new token and its hash in hex.
///
/// # Errors
/// The system gives no random bytes.
pub fn new_token() -> io::Result<(Zeroizing<String>, String)> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut()).map_err(io::Error::other)?;
    let token = Zeroizing::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes.as_ref())));
    let hash = Sha256::digest(token.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        use std::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    Ok((token, hash))
}
