//! Which `valkey-server` is run, and whether it can read what an earlier one wrote.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{process::Command, time::timeout};

use super::data_dir::Engine;

/// The oldest that can run our scripts.
const OLDEST: (u32, u32) = (7, 0);
/// From here on Redis writes files that Valkey does not read.
const REDIS_PARTED: (u32, u32) = (7, 4);
const NAMES: [&str; 2] = ["valkey-server", "redis-server"];

/// A server that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerBinary {
    pub path: PathBuf,
    /// `valkey` or `redis`.
    pub engine: String,
    pub version: String,
}

impl ServerBinary {
    fn numbers(&self) -> (u32, u32) {
        numbers(&self.version)
    }
}

fn numbers(version: &str) -> (u32, u32) {
    crate::valkey::preflight::parse_version(version).unwrap_or_default()
}

/// The one that was asked for, or the one used before, or the first good one on PATH or in the cache directory (where
/// `scripts/valkey` puts it).
pub(super) async fn find(asked: Option<&Path>, before: Option<&Engine>) -> Result<ServerBinary, String> {
    if let Some(path) = asked {
        let found = look(path).await.ok_or_else(|| {
            format!(
                "{} is not a server that can be run: --valkey-server must name a valkey-server",
                path.display()
            )
        })?;
        if found.numbers() < OLDEST {
            return Err(format!(
                "{} is {} {}: 7.0 or later is needed",
                path.display(),
                found.engine,
                found.version
            ));
        }
        return Ok(found);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path =
        |name: &'static str| env::split_paths(&path).map(move |dir| dir.join(name)).collect::<Vec<_>>();
    let candidates = before
        .map(|engine| engine.binary.clone())
        .into_iter()
        .chain(on_path(NAMES[0]))
        .chain(on_path(NAMES[1]))
        .chain(cache_dir().into_iter().flat_map(|dir| NAMES.map(|name| dir.join(name))));
    for candidate in candidates {
        if candidate.is_file()
            && let Some(found) = look(&candidate).await
            && found.numbers() >= OLDEST
        {
            return Ok(found);
        }
    }
    Err("no valkey-server was found: install Valkey (or Redis 7.0 or later), name one with --valkey-server, or use a \
         running one with --valkey-url"
        .into())
}

/// Whether `now` can read what `before` wrote.
pub(super) fn check_compatible(before: &Engine, now: &ServerBinary) -> Result<(), String> {
    let older = before.engine == now.engine && now.numbers() < numbers(&before.version);
    let foreign = match (before.engine.as_str(), now.engine.as_str()) {
        ("valkey", "redis") => true,
        ("redis", "valkey") => numbers(&before.version) >= REDIS_PARTED,
        _ => false,
    };
    if !older && !foreign {
        return Ok(());
    }
    Err(format!(
        "the data was written by {} {} ({}), which {} {} ({}) may not be able to read: name the former, or a later one, with \
         --valkey-server",
        before.engine,
        before.version,
        before.binary.display(),
        now.engine,
        now.version,
        now.path.display()
    ))
}

async fn look(path: &Path) -> Option<ServerBinary> {
    let asked = Command::new(path).arg("--version").stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(Duration::from_secs(5), asked).await.ok()?.ok()?;
    let (engine, version) = parse(&String::from_utf8_lossy(&output.stdout))?;
    Some(ServerBinary { path: path.to_path_buf(), engine, version })
}

/// Reads `Valkey server v=8.0.1 sha=…`.
fn parse(line: &str) -> Option<(String, String)> {
    let engine = line.split_whitespace().next()?.to_ascii_lowercase();
    let version = line.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    matches!(engine.as_str(), "valkey" | "redis").then(|| (engine, version.to_owned()))
}

fn cache_dir() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))?;
    Some(cache.join("pannier/bin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(engine: &str, version: &str) -> Engine {
        Engine { engine: engine.into(), version: version.into(), binary: "/old".into() }
    }

    fn binary(engine: &str, version: &str) -> ServerBinary {
        ServerBinary { path: "/new".into(), engine: engine.into(), version: version.into() }
    }

    #[test]
    fn the_version_line_is_read() {
        let line =
            "Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=d3a0e1e4f2c9f6f1";
        assert_eq!(parse(line), Some(("valkey".into(), "8.0.1".into())));
        assert_eq!(parse("Redis server v=7.0.15 sha=0"), Some(("redis".into(), "7.0.15".into())));
        assert_eq!(parse("something else"), None);
    }

    #[test]
    fn data_is_not_given_to_a_server_that_may_not_read_it() {
        for (before, now, good) in [
            (engine("valkey", "8.0.1"), binary("valkey", "8.0.3"), true),
            (engine("valkey", "8.0.1"), binary("valkey", "9.1.0"), true),
            (engine("valkey", "9.1.0"), binary("valkey", "8.0.1"), false),
            (engine("valkey", "8.0.1"), binary("redis", "7.4.0"), false),
            (engine("redis", "7.0.15"), binary("valkey", "8.0.1"), true),
            (engine("redis", "7.4.0"), binary("valkey", "8.0.1"), false),
        ] {
            let checked = check_compatible(&before, &now);
            assert_eq!(checked.is_ok(), good, "{before:?} {now:?}");
            if let Err(text) = checked {
                assert!(text.contains("/old") && text.contains("/new"), "{text}");
            }
        }
    }
}
