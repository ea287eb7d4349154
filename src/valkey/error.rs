//! What can go wrong between us and Valkey, and which of the caller's errors it becomes. No message holds a password, a
//! key name or an argument.

use std::{fmt, time::Duration};

use crate::error::{Error, Reason};

/// Valkey answered, with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerError {
    /// The script is not loaded (a restart, SCRIPT FLUSH).
    NoScript,
    /// A replica: the primary is elsewhere.
    ReadOnly,
    /// Still reading its data from disk.
    Loading,
    /// A replica without its primary.
    MasterDown,
    /// A slot is on the move (TRYAGAIN, ASK, MOVED, CLUSTERDOWN).
    TryAgain,
    /// `maxmemory` is reached.
    OutOfMemory,
    /// Another script or a long command holds the server.
    Busy,
    /// The ACL of our user forbids a command.
    NoPermission,
    /// User or password are wrong, or missing.
    WrongPassword,
    /// Anything else, such as an error that a script raised: its first word and the rest.
    Other {
        /// The first word, upper case: `ERR`, `WRONGTYPE`, `FENCED` …
        code: String,
        /// The rest of the line. For logs, never for clients: it may name a key.
        detail: String,
    },
}

impl ServerError {
    pub(super) fn from_reply(error: &redis::ServerError) -> Self {
        let detail = error.details().unwrap_or_default();
        match error.code() {
            "NOSCRIPT" => Self::NoScript,
            "READONLY" => Self::ReadOnly,
            "LOADING" => Self::Loading,
            "MASTERDOWN" => Self::MasterDown,
            "TRYAGAIN" | "ASK" | "MOVED" | "CLUSTERDOWN" => Self::TryAgain,
            "OOM" => Self::OutOfMemory,
            "BUSY" => Self::Busy,
            "NOPERM" => Self::NoPermission,
            "WRONGPASS" | "NOAUTH" => Self::WrongPassword,
            // Redis wraps what a command inside a script answers: the word that matters comes second.
            code => match detail.split_whitespace().next().map(|word| word.trim_start_matches('-')) {
                Some("READONLY") => Self::ReadOnly,
                Some("OOM") => Self::OutOfMemory,
                _ if detail.contains("non local key") => Self::TryAgain,
                _ => Self::Other { code: code.to_owned(), detail: detail.chars().take(200).collect() },
            },
        }
    }

    /// Whether the connection must be replaced: what is behind it is not a primary that can serve.
    pub(super) fn needs_reconnect(&self) -> bool {
        matches!(self, Self::ReadOnly | Self::Loading | Self::MasterDown)
    }

    /// Whether the same call may succeed when it is sent again: nothing was written.
    pub(super) fn is_passing(&self) -> bool {
        self.needs_reconnect() || matches!(self, Self::NoScript | Self::TryAgain | Self::Busy)
    }

    /// The first word of the reply, or a stand-in for it.
    pub fn code(&self) -> &str {
        match self {
            Self::NoScript => "NOSCRIPT",
            Self::ReadOnly => "READONLY",
            Self::Loading => "LOADING",
            Self::MasterDown => "MASTERDOWN",
            Self::TryAgain => "TRYAGAIN",
            Self::OutOfMemory => "OOM",
            Self::Busy => "BUSY",
            Self::NoPermission => "NOPERM",
            Self::WrongPassword => "WRONGPASS",
            Self::Other { code, .. } => code,
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Valkey answered {}", self.code())
    }
}

impl std::error::Error for ServerError {}

/// A call to Valkey that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No usable connection inside the deadline, or it broke during the call.
    #[error("Valkey cannot be reached: {why}")]
    Unreachable {
        /// The call was sent and may have been done.
        outcome_unknown: bool,
        /// What is wrong with the link.
        why: String,
    },
    /// The call was sent and no reply came inside the deadline.
    #[error("Valkey did not answer inside the deadline")]
    Timeout {
        /// The call may still be done.
        outcome_unknown: bool,
    },
    /// `maxmemory` is reached; nothing was written.
    #[error("Valkey is out of memory")]
    OutOfMemory,
    /// The database behind the link is not the one it was.
    #[error("the database was emptied or replaced")]
    StoreChanged,
    /// The first connection is not made yet.
    #[error("still connecting to Valkey")]
    Starting,
    /// Valkey answered with an error.
    #[error(transparent)]
    Server(ServerError),
}

impl From<ServerError> for LinkError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::OutOfMemory => Self::OutOfMemory,
            error => Self::Server(error),
        }
    }
}

const RETRY_SOON: Duration = Duration::from_millis(500);

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Self {
        let unknown = |error: Error, unknown: bool| if unknown { error.outcome_unknown() } else { error };
        match error {
            LinkError::Unreachable { outcome_unknown, why } => unknown(
                Error::new(Reason::ValkeyUnreachable, format!("Valkey cannot be reached: {why}"))
                    .retry_after(RETRY_SOON),
                outcome_unknown,
            ),
            LinkError::Timeout { outcome_unknown } => unknown(
                Error::new(Reason::DeadlineExceeded, "Valkey did not answer inside the deadline"),
                outcome_unknown,
            ),
            LinkError::OutOfMemory => Error::new(
                Reason::ValkeyOutOfMemory,
                "Valkey has reached its maxmemory: raise it or free memory; nothing was written",
            ),
            LinkError::StoreChanged => Error::new(
                Reason::StoreChanged,
                "the database was emptied or replaced: restore it, or see `pannier doctor`",
            ),
            LinkError::Starting => {
                Error::new(Reason::Starting, "still connecting to Valkey").retry_after(RETRY_SOON)
            }
            LinkError::Server(error) => match error {
                ServerError::ReadOnly
                | ServerError::Loading
                | ServerError::MasterDown
                | ServerError::TryAgain
                | ServerError::Busy
                | ServerError::NoScript
                | ServerError::WrongPassword => {
                    Error::new(Reason::ValkeyUnreachable, error.to_string()).retry_after(RETRY_SOON)
                }
                ServerError::OutOfMemory => LinkError::OutOfMemory.into(),
                ServerError::NoPermission => Error::new(
                    Reason::Internal,
                    "the ACL of the Valkey user forbids a command that Pannier needs: see `pannier doctor`",
                ),
                ServerError::Other { .. } => Error::new(Reason::Internal, error.to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_call_says_that_its_outcome_is_unknown() {
        let error = Error::from(LinkError::Unreachable { outcome_unknown: true, why: "closed".into() });
        assert_eq!(error.reason(), Reason::ValkeyUnreachable);
        assert!(error.is_outcome_unknown());
        let error = Error::from(LinkError::Timeout { outcome_unknown: false });
        assert_eq!(error.reason(), Reason::DeadlineExceeded);
        assert!(!error.is_outcome_unknown());
    }

    #[test]
    fn an_answer_for_the_client_holds_no_detail_of_the_server() {
        let error = ServerError::Other { code: "WRONGTYPE".into(), detail: "key pannier:x".into() };
        assert_eq!(Error::from(LinkError::from(error)).to_string(), "Valkey answered WRONGTYPE");
    }
}
