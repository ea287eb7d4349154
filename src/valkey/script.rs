//! Lua scripts, called by their SHA-1. Each is loaded on every (re)connect, so that a call finds it.

use std::{fmt::Write as _, sync::OnceLock};

use redis::Pipeline;
use sha1::{Digest as _, Sha1};

/// One Lua script: a decision taken on one hash slot. Its source opens with a `#!lua` line, so that full memory or a
/// read-only server refuses it before its first command.
#[derive(Debug)]
pub struct Script {
    /// For logs and metrics.
    pub name: &'static str,
    /// What `SCRIPT LOAD` gets.
    pub source: &'static str,
    sha: OnceLock<String>,
}

impl Script {
    /// A script.
    pub const fn new(name: &'static str, source: &'static str) -> Self {
        Self { name, source, sha: OnceLock::new() }
    }

    /// The lower-case hex SHA-1 of the source, which `EVALSHA` names.
    pub fn sha(&self) -> &str {
        self.sha.get_or_init(|| hex(&Sha1::digest(self.source.as_bytes())))
    }

    /// Whether the script's first line promises that it writes nothing.
    pub fn is_read_only(&self) -> bool {
        self.source.lines().next().is_some_and(|line| line.starts_with("#!") && line.contains("no-writes"))
    }
}

/// `SCRIPT LOAD` of these, in one write, however many there are.
pub(super) fn load(scripts: &[&Script]) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(scripts.len());
    for script in scripts {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script.source);
    }
    pipeline
}

/// A number as scripts read it, among their arguments.
pub fn decimal(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sha_is_that_of_the_source() {
        static SCRIPT: Script = Script::new("one", "return 1");
        assert_eq!(SCRIPT.sha(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert!(!SCRIPT.is_read_only());
        assert!(Script::new("peek", "#!lua flags=no-writes\nreturn 1").is_read_only());
    }
}
