//! The one table of everything that can be set: flags, environment, file keys, help and the reference all come from it.

/// One thing that can be set. Its name is the flag (`--name`) and the key in the TOML file.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Such as `drain-delay`.
    pub name: &'static str,
    /// What stands for the value in help: `URL`. Empty for a switch.
    pub value: &'static str,
    /// The default as a person reads it.
    pub default: &'static str,
    /// One or two sentences.
    pub help: &'static str,
    /// Which places it can be given in.
    pub from: From,
    /// With which kind of Valkey it means something. Elsewhere it is refused: no setting is silently without effect.
    pub with: With,
}

/// Where a setting can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Flag, `PANNIER_*` and TOML.
    Everywhere,
    /// Flag and `PANNIER_*`.
    NotFile,
    /// Only as a flag.
    FlagOnly,
}

/// With which Valkey a setting means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// Either.
    Any,
    /// Only with the embedded one.
    Embedded,
    /// Only with `--valkey-url` or its file.
    Url,
}

impl Setting {
    /// Its environment variable.
    pub fn env(&self) -> Option<String> {
        (self.from != From::FlagOnly)
            .then(|| format!("PANNIER_{}", self.name.replace('-', "_").to_ascii_uppercase()))
    }

    /// Whether it is a switch: given or not.
    pub fn is_switch(&self) -> bool {
        self.value.is_empty()
    }
}

const fn setting(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, value, default, help, from: From::Everywhere, with: With::Any }
}

impl Setting {
    const fn from(mut self, from: From) -> Self {
        self.from = from;
        self
    }

    const fn with(mut self, with: With) -> Self {
        self.with = with;
        self
    }
}

/// All of them, in the order of help and reference.
pub const SETTINGS: &[Setting] = &[
    setting("config", "FILE", "none", "TOML file with the settings below, under the same names as the flags.")
        .from(From::NotFile),
    setting(
        "env",
        "NAME",
        "dev when embedded; must be given with a URL",
        "The environment, `[a-z0-9-]{1,32}`: part of every key name, so that dev, staging and prod never mix.",
    ),
    setting(
        "init",
        "",
        "off",
        "Take an empty database into use: an external one at first, or any instead of one that is lost. Once: with a database \
         that is in use already it is refused, so that it cannot stay in a unit file and hide a lost database.",
    )
    .from(From::FlagOnly),
    setting(
        "valkey-url",
        "URL",
        "none: an embedded Valkey",
        "Valkey or Redis >= 7: `valkey://`, `redis://`, `rediss://` or `valkeys://` (TLS) with host, port and database, \
         or `unix:///path`. A password in the flag is refused, since every user of the machine can read it: use \
         PANNIER_VALKEY_URL or one of the two files.",
    ),
    setting("valkey-url-file", "FILE", "none", "A file that holds the URL, password and all."),
    setting("valkey-password-file", "FILE", "none", "A file that holds the password for the URL.")
        .with(With::Url),
    setting(
        "sentinel",
        "NAME",
        "off",
        "The URL names Sentinels, separated by commas, that watch the primary under this name, such as \
         `valkey://one:26379,two:26379,three:26379`. User, password and database are the primary's. They are asked at every \
         connection, and every second whether the primary is still the same.",
    )
    .with(With::Url),
    setting("sentinel-password-file", "FILE", "none", "A file that holds the password of the Sentinels themselves.")
        .with(With::Url),
    setting(
        "cluster",
        "",
        "off",
        "The URL names one or more nodes of a cluster, separated by commas; the others are found by them. Only database 0.",
    )
    .with(With::Url),
    setting(
        "valkey-ca",
        "FILE",
        "the built-in ones",
        "Authorities (PEM) that sign the server's certificate, instead of the built-in ones. For rediss:// and valkeys://.",
    )
    .with(With::Url),
    setting(
        "valkey-cert",
        "FILE",
        "none",
        "Our own certificate (PEM, with those that signed it), for a server that asks for one. With --valkey-key.",
    )
    .with(With::Url),
    setting("valkey-key", "FILE", "none", "The private key of --valkey-cert, PEM.").with(With::Url),
    setting(
        "connections",
        "standard|minimal",
        "standard",
        "Connections to each Valkey node: three, or two for hosted plans that count them. With two, large transfers hold up \
         small calls.",
    ),
    setting(
        "wake-timeout",
        "DURATION",
        "5s",
        "What one attempt to connect to Valkey may take, 100ms to 60s. A hibernating database needs seconds; calls that come \
         meanwhile wait until their own deadline.",
    )
    .with(With::Url),
    setting(
        "idle-disconnect",
        "DURATION",
        "0",
        "Disconnect from Valkey once there has been no call, no attached session and no worker for this long, 1s to 24h, so that a \
         hosted database may hibernate; the next call connects again. Until then no delayed job becomes due and no cron fires. \
         0: never. Not with --cluster.",
    )
    .with(With::Url),
    setting(
        "allow-eviction",
        "",
        "off",
        "Use a server whose maxmemory-policy evicts keys (`allkeys-*`). It may throw away credentials.",
    )
    .with(With::Url),
    setting(
        "data-dir",
        "DIR",
        "`$XDG_DATA_HOME/pannier`, else `~/.local/share/pannier`",
        "The embedded Valkey's data, and the keyring unless --keyring says otherwise. Made with mode 0700.",
    ),
    setting(
        "valkey-server",
        "PATH",
        "valkey-server, else redis-server >= 7, on PATH or in the cache directory",
        "The server binary that is embedded.",
    )
    .with(With::Embedded),
    setting(
        "embedded-fsync",
        "always|everysec",
        "always",
        "When the embedded Valkey flushes its append-only file: before each reply, or once a second (faster; a crash \
         of Valkey or of the machine may lose the last two seconds).",
    )
    .with(With::Embedded),
    setting(
        "embedded-maxmemory",
        "SIZE",
        "60 % of the memory or of the cgroup's limit",
        "Above it the embedded Valkey refuses writes; nothing is evicted.",
    )
    .with(With::Embedded),
    setting(
        "keyring",
        "FILE",
        "`<data-dir>/keyring.toml`",
        "The keys that everything is sealed with. Made at the first start when embedded; with a URL it must exist \
         (`pannier keys init`). Without it the data cannot be read by anybody: back it up.",
    ),
    setting(
        "durability",
        "memory|aof|fsync",
        "the best the server gives without waiting",
        "What an acknowledged write must be worth. A level that the server cannot give is refused at start; where the \
         ACL hides its settings, this asserts them.",
    ),
    setting(
        "worker-threads",
        "N",
        "half of the cores, at least 1",
        "Threads that serve calls, 1 to 256. More serve more sessions at once; fewer answer a single one sooner, since no \
         second thread has to be woken. Large commits are sealed by threads of their own.",
    ),
    setting(
        "busy-poll",
        "DURATION",
        "100us; 0 on a single core",
        "How long a thread that serves calls looks for what comes next before it sleeps, after a call to Valkey was sent or \
         answered, while no more than two are on their way: 0 to 1ms. Calls that come one by one are answered in about \
         two thirds of the time, since no core has to be woken; each takes up to twice this of the processor.",
    ),
    setting(
        "commit-buffer",
        "SIZE",
        "128MiB",
        "Memory for the parts of unfinished multi-part commits, of all sessions together; beyond it a new part gets \
         RESOURCE_EXHAUSTED.",
    ),
    setting(
        "max-in-flight",
        "N",
        "4096",
        "Unary calls in progress at once, of all clients together; one more is refused at once with RESOURCE_EXHAUSTED and when to try \
         again. At most 1000000.",
    ),
    setting(
        "max-streams",
        "N",
        "16384",
        "Streams open at once: an attached session, a pipe, a worker, a watch and a transfer are one each. At most 1000000.",
    ),
    setting(
        "session-in-flight",
        "N",
        "512",
        "Unary calls in progress on one session, so that one bot does not take the room of all. A stream has its own bound: 64 commits \
         and 1024 requests. At most 1000000.",
    ),
    setting(
        "memory-budget",
        "SIZE",
        "256MiB",
        "Memory for what calls carry, beside --commit-buffer: each request counts four times its size while it is in progress, each large \
         reply until it has gone out. A call beyond it is refused at once with RESOURCE_EXHAUSTED. At least 32MiB.",
    ),
    setting("max-blob", "SIZE", "2GiB", "The largest blob that is taken; at most 16GiB."),
    setting(
        "max-blob-history",
        "SIZE",
        "1GiB",
        "What the older generations of one blob, beside its current one, may take in Valkey. At most two are kept; beyond \
         this size fewer.",
    ),
    setting(
        "bulk-rate",
        "SIZE",
        "32MiB",
        "Bytes a second that all saves of blobs together write to Valkey, and all fetches together read, at least 1MiB: \
         large values without a pause make everybody else's calls wait. 0 sets no limit.",
    ),
    setting(
        "cap-policies",
        "FILE",
        "none",
        "TOML file of cap policies, `[[policy]]` each: `name`, `namespace`, `scope` (namespace, sender, recipient or pair), \
         `fail_open`, and one of `fixed = { limit, window | time_zone }`, `rolling = { limit, window }`, `gcra = { period, burst \
         }`, `unique = { limit | unlimited, window }`, `preset`. They are set at start; one that was changed at run time stays.",
    ),
    setting(
        "socket",
        "PATH",
        "`$XDG_RUNTIME_DIR/pannier/pannier.sock`, else `/tmp/pannier-<uid>/pannier.sock`",
        "The unix socket, at most 100 bytes. Its directory must be a real one with mode 0700, of this user or root; it \
         is made when missing.",
    ),
    setting(
        "socket-mode",
        "OCTAL",
        "0600",
        "Mode of the socket, whatever the umask. A mode that lets others in also accepts a directory that others may \
         enter (but not write to).",
    ),
    setting("socket-group", "GROUP", "this process's", "Group of the socket (and of its directory, when made), by name or number."),
    setting(
        "allow-uid",
        "UID,...",
        "own uid",
        "Further users, by number, that may connect. Others get PERMISSION_DENIED whatever the socket's mode.",
    ),
    setting(
        "socket-auth",
        "peer|token|both",
        "peer",
        "Who may call on the socket: `peer`, users by --allow-uid; `token`, whoever has a token of --token-file; `both`, those users \
         with a token.",
    ),
    setting(
        "listen",
        "HOST:PORT",
        "off",
        "A TCP port beside the socket. It needs --token-file or --tls-client-ca, and beyond loopback TLS as well.",
    ),
    setting(
        "token-file",
        "FILE",
        "none",
        "The tokens that are valid, as hashes with scopes; made by `pannier tokens add`. Read again within a second of a change, and \
         at SIGHUP; one that cannot be read leaves the old tokens in use.",
    ),
    setting(
        "tls-cert",
        "FILE",
        "none",
        "The certificate of --listen, PEM, with those that signed it. With --tls-key it turns TLS on. Read again at SIGHUP.",
    ),
    setting("tls-key", "FILE", "none", "The private key of --tls-cert, PEM, for nobody else to read. Read again at SIGHUP."),
    setting(
        "tls-client-ca",
        "FILE",
        "none",
        "Only clients with a certificate that one of these (PEM) has signed may connect to --listen. Without --token-file such a \
         client may do everything but admin calls. Read again at SIGHUP.",
    ),
    setting(
        "drain-delay",
        "DURATION",
        "0s",
        "After SIGTERM: how long new calls are still served while health says NOT_SERVING, so that whoever routes to \
         this process sees it. At most 15s.",
    ),
    setting(
        "reflection",
        "on|off",
        "on",
        "gRPC reflection (v1 and v1alpha), for grpcurl and the like. It shows the API, no data.",
    ),
    setting(
        "admin",
        "HOST:PORT",
        "off",
        "A port for those who watch: `/metrics` (Prometheus), `/livez`, `/readyz`, over plain HTTP. It tells no names and no secrets, \
         and nobody is asked who they are: 127.0.0.1:9464, or an address that only your own network reaches.",
    ),
    setting(
        "otlp-endpoint",
        "URL",
        "off",
        "Where traces go, over OTLP with gRPC: `http://host:4317`, or `https://`. One span a call, with method, code and the time at \
         Valkey; `traceparent` of the caller is continued.",
    ),
    setting("otlp-ratio", "SHARE", "1", "Of the calls whose caller does not say whether they are traced: the share that is, 0 to 1."),
    setting("log-format", "pretty|json", "pretty on a terminal, else json", "How stderr is written."),
    setting(
        "log-level",
        "LEVEL",
        "info",
        "error, warn, info, debug or trace, for Pannier itself. What its libraries log stays at warn: below it they \
         print what passes through them.",
    ),
];

/// The setting of a name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// The name that was probably meant.
pub fn suggest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.replace('_', "-").to_ascii_lowercase();
    names
        .map(|name| (strsim::jaro_winkler(&wrong, name), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
