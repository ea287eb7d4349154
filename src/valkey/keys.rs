//! Names of keys. A name holds the environment and an owner's tag in clear, nothing else.

use std::fmt::Display;

/// The key that says whose database this is. It has no environment in its name, so that another environment's is seen.
pub const ENVIRONMENT: &str = "pannier:environment";

/// How many buckets an index is spread over: as many hash slots in a cluster.
pub const BUCKETS: u8 = 64;

/// The names of one environment.
#[derive(Clone, Debug)]
pub(super) struct Names {
    env: String,
    prefix: String,
}

impl Names {
    pub fn new(env: &str) -> Self {
        Self { env: env.to_owned(), prefix: format!("pannier:{env}:") }
    }

    pub fn env(&self) -> &str {
        &self.env
    }

    /// `pannier:<env>:`
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// `pannier:<env>:meta`: format, store id, canaries.
    pub fn meta(&self) -> String {
        format!("{}meta", self.prefix)
    }

    /// `pannier:<env>:{<tag>}:<suffix>`: one hash slot for all keys of an owner.
    pub fn owner(&self, tag: &impl Display, suffix: &str) -> Vec<u8> {
        format!("{}{{{tag}}}:{suffix}", self.prefix).into_bytes()
    }

    /// `pannier:<env>:idx:<kind>:{<b>}`
    pub fn index(&self, kind: &str, bucket: u8) -> Vec<u8> {
        format!("{}idx:{kind}:{{{bucket}}}", self.prefix).into_bytes()
    }
}

/// Whether `env` may be part of key names: `[a-z0-9-]{1,32}`.
pub fn valid_env(env: &str) -> bool {
    (1..=32).contains(&env.len())
        && env.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_storage_format() {
        let names = Names::new("dev");
        assert_eq!(names.owner(&"AbC", "r:7"), b"pannier:dev:{AbC}:r:7");
        assert_eq!(names.index("session", 63), b"pannier:dev:idx:session:{63}");
        assert_eq!(names.meta(), "pannier:dev:meta");
        assert!(valid_env("prod-1") && !valid_env("Prod") && !valid_env("") && !valid_env(&"a".repeat(33)));
    }
}
