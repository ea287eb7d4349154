//! Default places, and what paths and URLs must look like.

use std::{
    ops::Range,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret as _, SecretString};

/// The longest path of a socket. The system's limit is 104 or 108; a name for taking its place is a little longer.
pub const MAX_SOCKET_PATH: usize = 100;

/// Where a sidecar listens, and clients look, when nobody says otherwise, in this order.
pub fn default_sockets(environment: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let runtime = environment("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute());
    let uid = rustix::process::getuid().as_raw();
    runtime
        .map(|dir| PathBuf::from(dir).join("pannier/pannier.sock"))
        .into_iter()
        .chain([PathBuf::from(format!("/tmp/pannier-{uid}/pannier.sock"))])
        .collect()
}

/// The user's data directory for Pannier.
pub fn default_data_dir(environment: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    environment("XDG_DATA_HOME")
        .filter(|dir| Path::new(dir).is_absolute())
        .map(PathBuf::from)
        .or_else(|| {
            let home = environment("HOME").filter(|dir| Path::new(dir).is_absolute())?;
            Some(PathBuf::from(home).join(".local/share"))
        })
        .map(|dir| dir.join("pannier"))
}

/// Whether a socket can be there.
pub(super) fn check_socket_path(path: &Path) -> Result<(), String> {
    let length = path.as_os_str().as_bytes().len();
    if length > MAX_SOCKET_PATH {
        return Err(format!(
            "{} has {length} bytes, a socket's path at most {MAX_SOCKET_PATH}; use a shorter directory",
            path.display()
        ));
    }
    if path.file_name().is_none() || path.parent().is_none_or(|dir| dir == Path::new("/")) {
        return Err(format!("{} must be a file in a directory of its own", path.display()));
    }
    Ok(())
}

const SCHEMES: [&str; 7] = ["valkey", "valkeys", "redis", "rediss", "unix", "valkey+unix", "redis+unix"];

/// Whether a URL has a form that the link takes. The reason repeats nothing of it but the scheme.
pub(super) fn check_url(url: &SecretString) -> Result<(), String> {
    let url = url.expose_secret();
    let wanted = "it must look like valkey://host:6379/0, rediss://host:6380 or unix:///path";
    let Some((scheme, rest)) = url.split_once("://") else { return Err(wanted.to_owned()) };
    if !SCHEMES.contains(&scheme) {
        let hint = super::suggest(scheme, SCHEMES.into_iter())
            .map_or_else(String::new, |scheme| format!(", did you mean `{scheme}://`?"));
        return Err(format!("unknown scheme `{scheme}://`{hint}; {wanted}"));
    }
    if rest.is_empty() || rest.starts_with('?') {
        return Err(format!("no host or path; {wanted}"));
    }
    Ok(())
}

/// Whether a URL holds a password.
pub fn has_password(url: &str) -> bool {
    password_range(url).is_some()
}

/// Where the password is in a URL: after the user's colon, or `pass=` of a unix URL.
pub(super) fn password_range(url: &str) -> Option<Range<usize>> {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let end = url[begin..].find(['/', '?', '#']).map_or(url.len(), |at| begin + at);
    // A password may hold a `/` that somebody forgot to escape: then the `@` comes after it.
    let at = url[begin..end].rfind('@').or_else(|| url[begin..].rfind('@')).map(|at| begin + at);
    if let Some(at) = at {
        let colon = url[begin..at].find(':').map(|colon| begin + colon + 1);
        if let Some(colon) = colon.filter(|colon| *colon < at) {
            return Some(colon..at);
        }
    }
    let query = url.find('?')? + 1;
    let mut from = query;
    for part in url[query..].split('&') {
        for name in ["pass=", "password="] {
            if part.len() > name.len() && part.starts_with(name) {
                return Some(from + name.len()..from + part.len());
            }
        }
        from += part.len() + 1;
    }
    None
}

/// The URL without its password.
pub(super) fn redact(url: &str) -> String {
    let mut url = url.to_owned();
    if let Some(range) = password_range(&url) {
        url.replace_range(range, "***");
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_wherever_a_url_can_hold_one() {
        for (url, redacted) in [
            ("valkey://host:6379/0", "valkey://host:6379/0"),
            ("valkey://user@host", "valkey://user@host"),
            ("valkey://:s3cret@host:6379", "valkey://:***@host:6379"),
            ("rediss://user:s3@cret@host:6379/2", "rediss://user:***@host:6379/2"),
            ("redis://user:s3/cret@host:6379/2", "redis://user:***@host:6379/2"),
            ("unix:///run/v.sock?db=1&pass=s3cret&user=me", "unix:///run/v.sock?db=1&pass=***&user=me"),
            ("unix:///run/v.sock", "unix:///run/v.sock"),
        ] {
            assert_eq!(redact(url), redacted);
        }
    }

    #[test]
    fn a_socket_path_fits_the_systems_limit() {
        assert!(check_socket_path(Path::new("/run/pannier/pannier.sock")).is_ok());
        assert!(check_socket_path(&Path::new("/run").join("x".repeat(100))).is_err());
        assert!(check_socket_path(Path::new("/pannier.sock")).is_err());
    }

    #[test]
    fn defaults_follow_xdg() {
        let xdg = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| "/run/user/7".to_owned());
        let sockets = default_sockets(&xdg);
        assert_eq!(sockets[0], Path::new("/run/user/7/pannier/pannier.sock"));
        assert_eq!(sockets.len(), 2);
        let home = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
        assert_eq!(default_data_dir(&home).unwrap(), Path::new("/home/me/.local/share/pannier"));
        assert_eq!(default_sockets(&home).len(), 1);
    }
}
