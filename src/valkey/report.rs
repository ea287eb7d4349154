//! What was found at a server, and what is known of it.

use std::{fmt, sync::Arc, time::Duration};

/// What an acknowledged write survives, without waiting for replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DurabilityLevel {
    /// Nothing that ends the server.
    #[default]
    Memory,
    /// An orderly end of Valkey. Of a crash of Valkey, all but what came while the last fsync was still under way: then
    /// the server keeps its AOF in memory for up to two seconds.
    Aof,
    /// A crash of the host: the reply comes after the fsync.
    Fsync,
}

impl DurabilityLevel {
    /// As it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Aof => "aof",
            Self::Fsync => "fsync",
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Hidden by the ACL of our user.
    Unknown,
    /// Works, with a risk.
    Warn,
    /// Must not be used so.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at: `version`, `eviction` …
    pub check: &'static str,
    /// What was found.
    pub found: String,
    /// What to do about it.
    #[serde(rename = "next", skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
}

/// What is known of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// `valkey` or `redis`, or `unknown`.
    pub engine: String,
    /// Such as `8.0.1`.
    pub version: String,
    /// `standalone`, `cluster` or `sentinel`.
    pub topology: String,
    /// Without waiting for replicas.
    pub durability: DurabilityLevel,
    /// Whether `durability` is known, or a lower bound because the ACL hides the settings.
    pub durability_known: bool,
    /// Connected replicas.
    pub replicas: u32,
    /// The database's own id.
    pub store_id: String,
    /// Our connections to it.
    pub connections: u32,
    /// How long the server has been up, or zero if unknown.
    pub uptime: Duration,
    /// Changes with every start of the server; empty if unknown.
    pub run_id: String,
}

/// Everything that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of looking.
    pub findings: Vec<Finding>,
    /// What is known of the server.
    pub facts: ServerFacts,
}

impl Report {
    /// The findings that forbid the use of this server.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.level == Level::Fail)
    }

    /// What was found at all shards together: the findings of each under its place, the facts of the weakest.
    pub(super) fn of_all(reports: &[(String, Arc<Self>)], store_id: &str) -> Self {
        let mut known = reports
            .iter()
            .filter(|(_, report)| !report.facts.version.is_empty() || report.facts.connections > 0);
        let Some((_, first)) = known.next() else { return Self::default() };
        let mut all = Self::clone(first);
        store_id.clone_into(&mut all.facts.store_id);
        for (place, report) in known {
            let (facts, more) = (&mut all.facts, &report.facts);
            if more.durability < facts.durability {
                facts.durability = more.durability;
            }
            facts.durability_known &= more.durability_known;
            facts.replicas = facts.replicas.min(more.replicas);
            facts.connections += more.connections;
            facts.uptime = facts.uptime.min(more.uptime);
            for finding in &report.findings {
                if finding.level != Level::Ok {
                    all.findings.push(Finding {
                        found: format!("{} (at {place})", finding.found),
                        ..finding.clone()
                    });
                }
            }
        }
        all
    }

    /// Adds one; an empty `todo` is none.
    pub fn add(&mut self, level: Level, check: &'static str, found: impl Into<String>, todo: &str) {
        let todo = (!todo.is_empty()).then(|| todo.to_owned());
        self.findings.push(Finding { level, check, found: found.into(), todo });
    }

    /// Writes what is not as it should be to the log, the loudest last.
    pub(super) fn log(&self) {
        for finding in &self.findings {
            match finding.level {
                Level::Ok => tracing::debug!(check = finding.check, "{finding}"),
                Level::Unknown => tracing::info!(check = finding.check, "{finding}"),
                Level::Warn => tracing::warn!(check = finding.check, "{finding}"),
                Level::Fail => tracing::error!(check = finding.check, "{finding}"),
            }
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.found)?;
        match &self.todo {
            Some(todo) => write!(f, "; {todo}"),
            None => Ok(()),
        }
    }
}
