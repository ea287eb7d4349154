//! What is looked at before a server is trusted: role, version, eviction, persistence, memory, clock. What the ACL hides is
//! *unknown*, never a failure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Value, aio::MultiplexedConnection};

use super::{
    error::ServerError,
    lanes::{ask, one},
    report::{DurabilityLevel, Level, Report},
    server_info::{Info, text},
};

/// The oldest server that can run our scripts.
const OLDEST: (u32, u32) = (7, 0);
/// Memory in use above this share of `maxmemory` is worth a warning.
const HEADROOM: f64 = 0.9;
/// More than this between our clock and Valkey's is worth a warning. (Nothing depends on it: scripts use Valkey's.)
const CLOCK: Duration = Duration::from_secs(5);

/// What the operator has allowed or asserted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowances {
    pub eviction: bool,
    pub durability: Option<DurabilityLevel>,
}

/// Looks at the server behind `connection`.
///
/// # Errors
/// When it does not answer, or is not a primary that serves: to be tried again.
pub(super) async fn inspect(connection: &MultiplexedConnection, allow: Allowances) -> Result<Report, String> {
    let mut report = Report::default();
    let info = Info::read(connection).await?;
    role(connection, &info, &mut report).await?;
    version(&info, &mut report);
    let eviction = eviction(connection, &info, allow, &mut report).await?;
    persistence(connection, &info, allow, &mut report).await?;
    memory(&info, eviction.as_deref(), &mut report);
    clock(connection, &mut report).await?;
    Ok(report)
}

async fn role(connection: &MultiplexedConnection, info: &Info, report: &mut Report) -> Result<(), String> {
    let role = match ask(connection.clone(), &one(redis::cmd("ROLE"))).await? {
        Ok(Value::Array(parts)) => parts.first().and_then(text),
        Err(ServerError::NoPermission) => info.get("role").map(str::to_owned),
        Err(error) => return Err(error.to_string()),
        Ok(_) => None,
    };
    match role.as_deref() {
        Some("master" | "primary") => report.add(Level::Ok, "role", "primary", ""),
        None => report.add(Level::Unknown, "role", "unknown", "allow ROLE or INFO to the Valkey user"),
        Some(role) => return Err(format!("the server's role is {role}, not primary")),
    }
    report.facts.replicas = info.number("connected_slaves").unwrap_or(0).try_into().unwrap_or(u32::MAX);
    report.add(Level::Ok, "replicas", format!("{} connected", report.facts.replicas), "");
    Ok(())
}

fn version(info: &Info, report: &mut Report) {
    let facts = &mut report.facts;
    (facts.engine, facts.version) = match (info.get("valkey_version"), info.get("redis_version")) {
        (Some(version), _) => ("valkey".to_owned(), version.to_owned()),
        (None, Some(version)) => ("redis".to_owned(), version.to_owned()),
        (None, None) => ("unknown".to_owned(), String::new()),
    };
    info.get("redis_mode")
        .or_else(|| info.get("server_mode"))
        .unwrap_or("unknown")
        .clone_into(&mut facts.topology);
    facts.uptime = Duration::from_secs(info.number("uptime_in_seconds").unwrap_or(0));
    info.get("run_id").unwrap_or_default().clone_into(&mut facts.run_id);
    let found = format!("{} {}", facts.engine, facts.version);
    match parse_version(&facts.version) {
        None => report.add(Level::Unknown, "version", "unknown", "allow INFO or HELLO to the Valkey user"),
        Some(version) if version < OLDEST => {
            report.add(Level::Fail, "version", found, "use Valkey, or Redis 7.0 or later");
        }
        Some(_) => report.add(Level::Ok, "version", found, ""),
    }
}

/// Major and minor.
pub(super) fn parse_version(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

async fn eviction(
    connection: &MultiplexedConnection,
    info: &Info,
    allow: Allowances,
    report: &mut Report,
) -> Result<Option<String>, String> {
    let policy = match config(connection, "maxmemory-policy").await? {
        Some(policy) => Some(policy),
        None => info.get("maxmemory_policy").map(str::to_owned),
    };
    match policy.as_deref() {
        Some("noeviction") => report.add(Level::Ok, "eviction", "noeviction", ""),
        Some(policy) if policy.starts_with("volatile-") => report.add(
            Level::Warn,
            "eviction",
            format!("maxmemory-policy is {policy}"),
            "set it to noeviction: under memory pressure claims and conversations would be lost early",
        ),
        Some(policy) if allow.eviction => report.add(
            Level::Warn,
            "eviction",
            format!("maxmemory-policy is {policy}, which can delete credentials; allowed by --allow-eviction"),
            "set it to noeviction",
        ),
        Some(policy) => report.add(
            Level::Fail,
            "eviction",
            format!("maxmemory-policy is {policy}: under memory pressure Valkey would delete credentials"),
            "set it to noeviction (CONFIG SET maxmemory-policy noeviction, and in its file), or start with --allow-eviction",
        ),
        None => report.add(
            Level::Unknown,
            "eviction",
            "unknown: CONFIG and INFO are forbidden",
            "make sure that maxmemory-policy is noeviction",
        ),
    }
    Ok(policy)
}

async fn persistence(
    connection: &MultiplexedConnection,
    info: &Info,
    allow: Allowances,
    report: &mut Report,
) -> Result<(), String> {
    let appendonly = match config(connection, "appendonly").await? {
        Some(value) => Some(value == "yes"),
        None => info.get("aof_enabled").map(|value| value == "1"),
    };
    let fsync = config(connection, "appendfsync").await?;
    let save = config(connection, "save").await?;
    let (level, known) = match (appendonly, fsync.as_deref()) {
        (Some(true), Some("always")) => (DurabilityLevel::Fsync, true),
        (Some(true), Some(_)) => (DurabilityLevel::Aof, true),
        (Some(true), None) => (DurabilityLevel::Aof, false),
        (Some(false), _) => (DurabilityLevel::Memory, true),
        (None, _) => (DurabilityLevel::Memory, false),
    };
    (report.facts.durability, report.facts.durability_known) = match (known, allow.durability) {
        (false, Some(asserted)) => (asserted, true),
        _ => (level, known),
    };
    match (appendonly, fsync.as_deref(), save.as_deref()) {
        (None, ..) if allow.durability.is_none() => report.add(
            Level::Unknown,
            "persistence",
            "unknown: CONFIG and INFO are forbidden",
            "make sure that appendonly is on, and say so with --durability",
        ),
        (None, ..) => report.add(Level::Ok, "persistence", "unknown; asserted by flag", ""),
        (Some(true), fsync, _) => {
            report.add(
                Level::Ok,
                "persistence",
                format!("AOF, appendfsync {}", fsync.unwrap_or("unknown")),
                "",
            );
        }
        (Some(false), _, Some("")) => report.add(
            Level::Warn,
            "persistence",
            "OFF: A RESTART OF VALKEY LOSES EVERY SESSION",
            "set appendonly yes (CONFIG SET appendonly yes, and in its file)",
        ),
        (Some(false), ..) => report.add(
            Level::Warn,
            "persistence",
            "snapshots only: a crash of Valkey sets sessions back by minutes, which breaks their encryption",
            "set appendonly yes (CONFIG SET appendonly yes, and in its file)",
        ),
    }
    for (field, check) in [
        ("aof_last_write_status", "last AOF write"),
        ("aof_last_bgrewrite_status", "last AOF rewrite"),
        ("rdb_last_bgsave_status", "last snapshot"),
    ] {
        match info.get(field) {
            None | Some("ok") => {}
            Some(status) => report.add(Level::Warn, check, status, "see Valkey's log: is its disk full?"),
        }
    }
    Ok(())
}

fn memory(info: &Info, policy: Option<&str>, report: &mut Report) {
    let (Some(used), Some(limit)) = (info.number("used_memory"), info.number("maxmemory")) else {
        return report.add(Level::Unknown, "memory", "unknown: INFO is forbidden", "");
    };
    let mib = |bytes: u64| bytes / (1024 * 1024);
    if limit == 0 {
        let level = if policy.is_some() { Level::Warn } else { Level::Unknown };
        return report.add(
            level,
            "memory",
            format!("{} MiB in use, no maxmemory", mib(used)),
            "set maxmemory, so that a full host ends in an error and not in a killed Valkey",
        );
    }
    let found = format!("{} of {} MiB in use", mib(used), mib(limit));
    #[allow(clippy::cast_precision_loss)] // a share, to be compared with 0.9
    if used as f64 > limit as f64 * HEADROOM {
        report.add(
            Level::Warn,
            "memory",
            found,
            "raise maxmemory soon: when it is reached, writes are refused",
        );
    } else {
        report.add(Level::Ok, "memory", found, "");
    }
}

async fn clock(connection: &MultiplexedConnection, report: &mut Report) -> Result<(), String> {
    let before = SystemTime::now();
    let reply = ask(connection.clone(), &one(redis::cmd("TIME"))).await?;
    let ours = before + before.elapsed().unwrap_or_default() / 2;
    let Ok(Value::Array(parts)) = reply else {
        report.add(Level::Unknown, "clock", "unknown: TIME is forbidden", "");
        return Ok(());
    };
    let number = |at: usize| parts.get(at).and_then(text).and_then(|text: String| text.parse::<u64>().ok());
    let theirs = UNIX_EPOCH
        + Duration::from_secs(number(0).unwrap_or(0))
        + Duration::from_micros(number(1).unwrap_or(0));
    let apart = ours.duration_since(theirs).unwrap_or_else(|error| error.duration());
    if apart > CLOCK {
        report.add(
            Level::Warn,
            "clock",
            format!("{} s apart from Valkey's", apart.as_secs()),
            "let NTP set both clocks: schedules follow Valkey's",
        );
    } else {
        report.add(Level::Ok, "clock", format!("{} ms apart from Valkey's", apart.as_millis()), "");
    }
    Ok(())
}

/// A setting, or `None` when it may not be read or does not exist.
async fn config(connection: &MultiplexedConnection, name: &str) -> Result<Option<String>, String> {
    let mut cmd = redis::cmd("CONFIG");
    cmd.arg("GET").arg(name);
    Ok(match ask(connection.clone(), &one(cmd)).await? {
        Ok(Value::Map(pairs)) => pairs.first().and_then(|(_, value)| text(value)),
        Ok(Value::Array(pair)) => pair.get(1).and_then(text),
        Err(error) if error.needs_reconnect() => return Err(error.to_string()),
        // Renamed or removed commands are an unknown command.
        _ => None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert_eq!(parse_version("7.0.15"), Some((7, 0)));
        assert!(parse_version("6.2.14").unwrap() < OLDEST);
        assert!(parse_version("10.1.0").unwrap() > OLDEST);
        assert_eq!(parse_version(""), None);
    }
}
