//! From what was given to a checked [`Config`]: each value read, and what they mean together.

use std::{num::NonZero, path::PathBuf, time::Duration};

use secrecy::SecretString;

use super::{
    Config, ConfigError, Given, Limits, Log, Origin, SETTINGS, Setting, Shown, Socket, Valkey,
    default_data_dir, default_sockets, limits, places, table, values,
};
use crate::{proto::v1::Durability, valkey::Connections};

/// Turns what was given into a [`Config`].
pub struct Reader(pub Given);

impl Reader {
    /// Checks everything that can be checked without starting.
    pub fn config(&self, environment: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        let url = self.url()?;
        self.refuse_settings_without_effect(url.is_some())?;
        let data_dir = match self.0.get("data-dir") {
            Some(dir) => absolute(dir)?,
            None => default_data_dir(environment).ok_or_else(|| {
                ConfigError("no HOME and no XDG_DATA_HOME: say where data goes with --data-dir".into())
            })?,
        };
        let keyring = match self.0.get("keyring") {
            Some(file) => absolute(file)?,
            None => data_dir.join("keyring.toml"),
        };
        let config = Config {
            env: self.env(url.is_some())?,
            durability: self.parse("durability", durability)?,
            worker_threads: self.parse("worker-threads", worker_threads)?.unwrap_or_else(half_of_the_cores),
            busy_poll: self.parse("busy-poll", busy_poll)?.unwrap_or_else(unless_alone),
            commit_buffer: self.parse("commit-buffer", commit_buffer)?.unwrap_or(128 << 20),
            limits: self.limits()?,
            init: self.parse("init", values::switch)?.unwrap_or(false),
            blobs: crate::blob::Limits {
                max_blob: self.parse("max-blob", max_blob)?.unwrap_or(2 << 30),
                max_history: self.parse("max-blob-history", values::size)?.unwrap_or(1 << 30),
                bulk_rate: self.parse("bulk-rate", bulk_rate)?.unwrap_or(32 << 20),
            },
            cap_policies: match self.0.get("cap-policies") {
                Some(file) => crate::cap::read_policies(&absolute(file)?)?,
                None => Vec::new(),
            },
            socket: self.socket(environment)?,
            access: self.access()?,
            observe: self.observe()?,
            drain_delay: self.parse("drain-delay", drain_delay)?.unwrap_or_default(),
            reflection: self.parse("reflection", values::switch)?.unwrap_or(true),
            log: Log {
                json: self.parse("log-format", log_format)?,
                level: self.parse("log-level", log_level)?.unwrap_or(tracing::Level::INFO),
            },
            valkey: match url {
                None => self.embedded()?,
                Some(url) => self.external(url)?,
            },
            connections: self.parse("connections", connections)?.unwrap_or_default(),
            data_dir,
            keyring,
            shown: Vec::new(),
        };
        check_durability(&config)?;
        let shown = SETTINGS.iter().map(|setting| self.shown(setting, &config)).collect();
        Ok(Config { shown, ..config })
    }

    pub(super) fn parse<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let wrong = |why: String| ConfigError(format!("{}: {why}", self.cite(name)));
        self.0.get(name).map(|text| read(text).map_err(wrong)).transpose()
    }

    /// How a person finds the value: `--drain-delay`, `PANNIER_DRAIN_DELAY`, `drain-delay (in the file)`.
    pub(super) fn cite(&self, name: &str) -> String {
        match self.0.origin(name) {
            Origin::Environment => format!("PANNIER_{}", name.replace('-', "_").to_ascii_uppercase()),
            Origin::File => format!("{name} (in the --config file)"),
            Origin::Flag | Origin::Default => format!("--{name}"),
        }
    }

    /// An environment may be shared with other uses; a flag, or a key in the file, is meant for this process.
    fn refuse_settings_without_effect(&self, has_url: bool) -> Result<(), ConfigError> {
        for setting in SETTINGS {
            let given =
                self.0.get(setting.name).is_some_and(|value| !(setting.is_switch() && value == "false"));
            if let Some(why) = no_effect(setting, has_url)
                && given
                && self.0.origin(setting.name) != Origin::Environment
            {
                return Err(ConfigError(format!("{} {why}", self.cite(setting.name))));
            }
        }
        Ok(())
    }

    fn url(&self) -> Result<Option<SecretString>, ConfigError> {
        let (direct, file) = (self.0.get("valkey-url"), self.0.get("valkey-url-file"));
        let (from_direct, from_file) = (self.0.origin("valkey-url"), self.0.origin("valkey-url-file"));
        let url = match (direct, file) {
            (Some(_), Some(_)) if from_direct == from_file => {
                return Err(ConfigError(format!(
                    "{} and {} are both given; keep one",
                    self.cite("valkey-url"),
                    self.cite("valkey-url-file")
                )));
            }
            (Some(url), other) if other.is_none() || from_direct > from_file => {
                if from_direct == Origin::Flag && places::has_password(url) {
                    return Err(ConfigError(
                        "--valkey-url holds a password, which every user of this machine can read in the process list; \
                         give the URL in PANNIER_VALKEY_URL or --valkey-url-file, or the password in \
                         --valkey-password-file"
                            .into(),
                    ));
                }
                if from_direct == Origin::File && places::has_password(url) {
                    self.refuse_readable_by_others("config")?;
                }
                Some(SecretString::from(url))
            }
            (_, Some(_)) => self.secret_file("valkey-url-file")?,
            (_, None) => None,
        };
        if let Some(url) = &url {
            places::check_url(url).map_err(|why| {
                let name = if direct.is_some() && from_direct > from_file {
                    "valkey-url"
                } else {
                    "valkey-url-file"
                };
                ConfigError(format!("{}: {why}", self.cite(if file.is_none() { "valkey-url" } else { name })))
            })?;
        }
        Ok(url)
    }

    pub(super) fn secret_file(&self, name: &str) -> Result<Option<SecretString>, ConfigError> {
        let Some(path) = self.0.get(name) else { return Ok(None) };
        let secret =
            values::secret(path).map_err(|why| ConfigError(format!("{} {path}: {why}", self.cite(name))))?;
        Ok(Some(secret))
    }

    fn refuse_readable_by_others(&self, name: &str) -> Result<(), ConfigError> {
        use std::os::unix::fs::PermissionsExt as _;
        let Some(path) = self.0.get(name) else { return Ok(()) };
        let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
        if mode & 0o077 == 0 {
            return Ok(());
        }
        Err(ConfigError(format!("--{name} {path} holds a password and others can read it: chmod 600 {path}")))
    }

    fn env(&self, has_url: bool) -> Result<String, ConfigError> {
        let Some(env) = self.parse("env", env_name)? else {
            return if has_url {
                Err(ConfigError(
                    "with a URL the environment must be given, such as --env prod: it is part of every key name, so \
                     that two environments on one database never mix"
                        .into(),
                ))
            } else {
                Ok("dev".into())
            };
        };
        Ok(env)
    }

    fn embedded(&self) -> Result<Valkey, ConfigError> {
        let server = match self.0.get("valkey-server") {
            Some(path) => {
                let server = absolute(path)?;
                if !server.is_file() {
                    let cited = self.cite("valkey-server");
                    return Err(ConfigError(format!("{cited}: there is no file {}", server.display())));
                }
                Some(server)
            }
            None => None,
        };
        Ok(Valkey::Embedded {
            server,
            fsync_always: self.parse("embedded-fsync", fsync)?.unwrap_or(true),
            max_memory: self.parse("embedded-maxmemory", max_memory)?,
        })
    }

    fn socket(&self, environment: &dyn Fn(&str) -> Option<String>) -> Result<Socket, ConfigError> {
        let path = match self.0.get("socket") {
            Some(path) => absolute(path.strip_prefix("unix:").unwrap_or(path))?,
            None => default_sockets(environment)
                .into_iter()
                .next()
                .ok_or_else(|| ConfigError("no default socket here: give --socket".into()))?,
        };
        places::check_socket_path(&path)
            .map_err(|why| ConfigError(format!("{}: {why}", self.cite("socket"))))?;
        let socket = Socket {
            path,
            mode: self.parse("socket-mode", values::mode)?.unwrap_or(0o600),
            group: self.parse("socket-group", values::group)?,
            allow_uids: self.parse("allow-uid", values::uids)?.unwrap_or_default(),
        };
        // To connect one must be able to write to the socket.
        if socket.group.is_some() && socket.mode & 0o020 == 0 {
            let group = self.cite("socket-group");
            return Err(ConfigError(format!("{group} has no effect without --socket-mode 0660")));
        }
        // Root goes where it likes.
        if socket.allow_uids.iter().any(|uid| *uid != 0) && socket.mode & 0o022 == 0 {
            let allow = self.cite("allow-uid");
            return Err(ConfigError(format!(
                "{allow} has no effect while the socket's mode keeps others out: add --socket-mode 0660 with \
                 --socket-group, or --socket-mode 0666"
            )));
        }
        Ok(socket)
    }

    fn shown(&self, setting: &Setting, config: &Config) -> Shown {
        let given = self.0.get(setting.name).map(ToOwned::to_owned);
        let value = match (setting.name, given) {
            ("valkey-url", Some(url)) => places::redact(&url),
            (_, Some(value)) => value,
            ("env", None) => config.env.clone(),
            ("data-dir", None) => config.data_dir.display().to_string(),
            ("keyring", None) => config.keyring.display().to_string(),
            ("socket", None) => config.socket.path.display().to_string(),
            (_, None) => setting.default.replace('`', ""),
        };
        let origin = match self.0.origin(setting.name) {
            Origin::Environment => {
                let has_url = matches!(config.valkey, Valkey::Url(_));
                let note = if no_effect(setting, has_url).is_some() { ", without effect here" } else { "" };
                format!("{}{note}", setting.env().unwrap_or_default())
            }
            Origin::File => format!("file {}", self.0.get("config").unwrap_or_default()),
            origin => origin.to_string(),
        };
        Shown { name: setting.name, value, origin }
    }
}

/// What the configuration alone can tell; the rest is checked when the link is up.
fn check_durability(config: &Config) -> Result<(), ConfigError> {
    let Valkey::Embedded { fsync_always, .. } = &config.valkey else { return Ok(()) };
    match config.durability {
        Some(Durability::Fsync) if !fsync_always => {
            Err(ConfigError("--durability fsync needs --embedded-fsync always".into()))
        }
        _ => Ok(()),
    }
}

fn no_effect(setting: &Setting, has_url: bool) -> Option<&'static str> {
    match setting.with {
        table::With::Embedded if has_url => Some("is for the embedded Valkey, but a URL is given too"),
        table::With::Url if !has_url => Some("is for an external Valkey: give --valkey-url as well"),
        _ => None,
    }
}

fn env_name(text: &str) -> Result<String, String> {
    let valid = (1..=32).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    valid.then(|| text.to_owned()).ok_or_else(|| format!("`{text}` does not match [a-z0-9-]{{1,32}}"))
}

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "memory" => Ok(Durability::Memory),
        "aof" => Ok(Durability::Aof),
        "fsync" => Ok(Durability::Fsync),
        // A level that is asked for must be true of every reply, and only commits wait for replicas.
        "replicas" => {
            Err("`replicas` is asked for by each commit (min_durability); memory, aof and fsync are for all"
                .to_owned())
        }
        _ => Err(format!("`{text}` is none of memory, aof, fsync")),
    }
}

fn fsync(text: &str) -> Result<bool, String> {
    match text {
        "always" => Ok(true),
        "everysec" => Ok(false),
        _ => Err(format!("`{text}` is neither always nor everysec")),
    }
}

fn log_format(text: &str) -> Result<bool, String> {
    match text {
        "json" => Ok(true),
        "pretty" => Ok(false),
        _ => Err(format!("`{text}` is neither pretty nor json")),
    }
}

fn log_level(text: &str) -> Result<tracing::Level, String> {
    text.parse().map_err(|_| format!("`{text}` is none of error, warn, info, debug, trace"))
}

fn drain_delay(text: &str) -> Result<Duration, String> {
    let delay = values::duration(text)?;
    (delay <= Duration::from_secs(15))
        .then_some(delay)
        .ok_or_else(|| "at most 15s: everything must be over 25 s after SIGTERM".to_owned())
}

fn connections(text: &str) -> Result<Connections, String> {
    match text {
        "standard" => Ok(Connections::Standard),
        "minimal" => Ok(Connections::Minimal),
        _ => Err(format!("`{text}` is neither standard nor minimal")),
    }
}

fn worker_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse::<usize>().map_err(|_| "a whole number".to_owned())?;
    (1..=256).contains(&threads).then_some(threads).ok_or_else(|| "1 to 256".to_owned())
}

/// A sidecar shares its machine with a bot and Valkey, and a call that stays on one thread is answered sooner: waking a second
/// one costs more than most calls do.
fn half_of_the_cores() -> usize {
    (cores() / 2).max(1)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

fn busy_poll(text: &str) -> Result<Duration, String> {
    let time = values::duration(text)?;
    (time <= Duration::from_millis(1)).then_some(time).ok_or_else(|| "at most 1ms".to_owned())
}

/// On a single core it would keep Valkey and the bot from what is waited for.
fn unless_alone() -> Duration {
    if cores() > 1 { Duration::from_micros(100) } else { Duration::ZERO }
}

impl Reader {
    fn limits(&self) -> Result<Limits, ConfigError> {
        let default = Limits::default();
        Ok(Limits {
            in_flight: self.parse("max-in-flight", limits::calls)?.unwrap_or(default.in_flight),
            streams: self.parse("max-streams", limits::calls)?.unwrap_or(default.streams),
            session_in_flight: self
                .parse("session-in-flight", limits::calls)?
                .unwrap_or(default.session_in_flight),
            memory: self.parse("memory-budget", limits::memory)?.unwrap_or(default.memory),
        })
    }
}

fn commit_buffer(text: &str) -> Result<u64, String> {
    // One commit may be 32 MiB: less could never take it.
    values::size(text)?
        .checked_sub(32 << 20)
        .map(|rest| rest + (32 << 20))
        .ok_or_else(|| "at least 32MiB, the size of the largest commit".to_owned())
}

fn max_blob(text: &str) -> Result<u64, String> {
    // 65 536 parts: their count and their segments stay far below what the format can number.
    let size = values::size(text)?;
    (1..=16 << 30).contains(&size).then_some(size).ok_or_else(|| "from 1 byte to 16GiB".to_owned())
}

fn bulk_rate(text: &str) -> Result<u64, String> {
    // A part of 256 KiB must get through long before its upload is given up for lost.
    let rate = values::size(text)?;
    (rate == 0 || rate >= 1 << 20)
        .then_some(rate)
        .ok_or_else(|| "at least 1MiB, or 0 for no limit".to_owned())
}

fn max_memory(text: &str) -> Result<u64, String> {
    let size = values::size(text)?;
    (size >= 16 << 20).then_some(size).ok_or_else(|| "at least 16MiB".to_owned())
}

pub(super) fn absolute(path: &str) -> Result<PathBuf, ConfigError> {
    std::path::absolute(path).map_err(|error| ConfigError(format!("{path}: {error}")))
}
