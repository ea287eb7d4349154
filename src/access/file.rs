//! The file of tokens: names, scopes and hashes, never a token. Replaced whole, so that a crash leaves the old or the new one.

use std::{
    collections::HashSet,
    fs::{self, File, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown},
    path::Path,
    thread::sleep,
    time::Duration,
};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::scope::Scopes;
use crate::config::ConfigError;

/// More than a thousand tokens.
const MAX_LEN: u64 = 1 << 20;

/// What the file holds.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenFile {
    /// In the file's order.
    #[serde(default, rename = "token")]
    pub entries: Vec<Entry>,
}

/// One token.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// For people and logs; unique.
    pub name: String,
    /// Of the token, in hex.
    pub sha256: String,
    /// See [`Scopes::parse`].
    pub scopes: Vec<String>,
    /// When it was made, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// From then on it is not valid, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

impl Entry {
    /// The hash's bytes.
    pub fn digest(&self) -> Option<[u8; 32]> {
        let mut digest = [0; 32];
        let hex = self.sha256.as_bytes();
        if hex.len() != 64 {
            return None;
        }
        for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(digest)
    }

    /// When it ends, if it does.
    pub fn expiry(&self) -> Result<Option<Timestamp>, String> {
        let read = |text: &String| {
            text.parse()
                .map_err(|_| format!("expires: `{text}` is not an instant such as 2027-01-31T12:00:00Z"))
        };
        self.expires.as_ref().map(read).transpose()
    }
}

impl TokenFile {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// Name the file and the entry, and repeat nothing else of it: it may be a token that was given by mistake.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let failed = |what: String| ConfigError(format!("the token file {}: {what}", path.display()));
        let mut text = String::new();
        File::open(path).and_then(|file| file.take(MAX_LEN + 1).read_to_string(&mut text)).map_err(
            |error| match error.kind() {
                io::ErrorKind::NotFound => failed(format!(
                    "there is no such file; make it with `pannier tokens add NAME --scope … --token-file {}`",
                    path.display()
                )),
                _ => failed(error.to_string()),
            },
        )?;
        if text.len() as u64 > MAX_LEN {
            return Err(failed("it has more than 1 MiB".into()));
        }
        Self::parse(&text).map_err(failed)
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("it is empty; `pannier tokens add` writes to it".into());
        }
        let file: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.get(..at).unwrap_or_default().split('\n').count();
            format!(
                "line {line} is not as `pannier tokens` writes it: [[token]] with name, sha256, scopes and perhaps created and \
                 expires. A token itself does not belong here, only its hash"
            )
        })?;
        let (mut names, mut digests) = (HashSet::new(), HashSet::new());
        for (n, entry) in file.entries.iter().enumerate() {
            let of = |what: String| format!("token {} (`{}`): {what}", n + 1, entry.name);
            check_name(&entry.name).map_err(|what| format!("token {}: {what}", n + 1))?;
            if !names.insert(&entry.name) {
                return Err(of("the name is there twice".into()));
            }
            let digest = entry.digest().ok_or_else(|| of("sha256 is not 64 hex digits".into()))?;
            if !digests.insert(digest) {
                return Err(of("the same token is there twice".into()));
            }
            Scopes::parse(&entry.scopes).map_err(of)?;
            entry.expiry().map_err(of)?;
        }
        Ok(file)
    }

    /// Whether others than its owner and group may read or change it.
    pub fn is_open_to_others(path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| found.mode() & 0o027 != 0)
    }

    /// Replaces the file by what `change` makes of it, unless that says there is nothing to do; one that is not there is empty, and made with mode 0600. Two edits at once
    /// come one after the other. Comments are not kept.
    ///
    /// # Errors
    /// When it cannot be read or replaced, or `change` refuses; the file is then as it was.
    pub fn edit(
        path: &Path,
        change: impl FnOnce(&mut Self) -> Result<bool, ConfigError>,
    ) -> Result<(), ConfigError> {
        let failed = |error: io::Error| ConfigError(format!("the token file {}: {error}", path.display()));
        // A link must go on pointing to the file.
        let target = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).map_err(failed)?;
        let dir = target.parent().unwrap_or_else(|| Path::new("/"));
        let lock = File::open(dir).map_err(|error| ConfigError(format!("{}: {error}", dir.display())))?;
        for attempt in 0.. {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(_) if attempt < 100 => sleep(Duration::from_millis(20)),
                Err(error) => return Err(failed(error.into())),
            }
        }
        let old = fs::metadata(&target).ok();
        let mut file = if old.as_ref().is_some_and(|old| old.len() > 0) {
            Self::read(&target)?
        } else {
            Self::default()
        };
        if !change(&mut file)? {
            return Ok(());
        }
        let text = toml::to_string(&file).map_err(|error| failed(io::Error::other(error)))?;
        let replace = || {
            let mut new = tempfile::Builder::new().prefix(".tokens-").tempfile_in(dir)?;
            new.write_all(HEADER.as_bytes())?;
            new.write_all(text.as_bytes())?;
            if let Some(old) = &old {
                // Only root can give files away; whoever else could replace it owns it.
                let _ = fchown(new.as_file(), Some(old.uid()), Some(old.gid()));
                new.as_file().set_permissions(Permissions::from_mode(old.mode() & 0o640 | 0o600))?;
            }
            new.as_file().sync_all()?;
            new.persist(&target).map_err(|refused| refused.error)?;
            lock.sync_all()
        };
        replace().map_err(failed)
    }
}

const HEADER: &str = "# Who may call pannier: hashes of tokens. Changed with `pannier tokens`; read again within a second.\n\n";

/// What a token may be called.
pub fn check_name(name: &str) -> Result<(), String> {
    let valid = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    valid.then_some(()).ok_or_else(|| "a name has 1..64 letters, digits, `-`, `_` and `.`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_entry_and_repeats_no_secret() {
        let secret = "pannier_Sup3rSecretSup3rSecretSup3rSecretSup3rSec";
        let hash = "a".repeat(64);
        let wrong = |text: &str| TokenFile::parse(text).unwrap_err();
        for text in [
            secret.to_owned(),
            format!("\n[[token]]\nname = 'a'\nsha256 = ['{secret}']\nscopes = []"),
            format!("[[token]]\n{secret} = 1"),
            format!("[[token]]\nname = 'a'\nsha256 = '{secret}'\nscopes = ['all']"),
        ] {
            assert!(!wrong(&text).contains("Sup3r"), "{}", wrong(&text));
        }
        assert!(wrong(secret).contains("only its hash"));
        let entry = |name: &str, hash: &str, rest: &str| {
            format!("[[token]]\nname = '{name}'\nsha256 = '{hash}'\n{rest}\n")
        };
        let all = "scopes = ['all']";
        for (text, what) in [
            (entry("a", &hash, "scopes = ['shedule']"), "did you mean `schedule`?"),
            (entry("a", &hash, "scopes = ['all']\nexpires = 'tomorrow'"), "not an instant"),
            (entry("a b", &hash, all), "a name has"),
            (entry("a", "abc", all), "64 hex digits"),
            (entry("a", &hash, all) + &entry("b", &hash.to_uppercase(), all), "the same token"),
            (entry("a", &hash, all) + &entry("a", &"b".repeat(64), all), "the name is there twice"),
        ] {
            assert!(wrong(&text).contains(what), "{}", wrong(&text));
        }
        assert!(TokenFile::parse(HEADER).unwrap().entries.is_empty());
        assert!(
            TokenFile::parse(" \n").unwrap_err().contains("it is empty"),
            "as a file is while it is written in place"
        );
    }
}
