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
    /// A slot is on the move (TRYAGAIN), or the cluster is not whole (CLUSTERDOWN).
    TryAgain,
    /// The slot is another node's; which one. The link follows it itself.
    Moved(String),
    /// The slot is being moved, and this key has been; whither. The link follows it itself.
    Ask(String),
    /// `maxmemory` is reached.
    OutOfMemory,
    /// It takes no writes for now: it cannot save them to disk (MISCONF), or has too few replicas (NOREPLICAS).
    RefusesWrites {
        /// MISCONF or NOREPLICAS.
        code: &'static str,
    },
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
            "TRYAGAIN" | "CLUSTERDOWN" => Self::TryAgain,
            "MOVED" => Self::Moved(node(detail)),
            "ASK" => Self::Ask(node(detail)),
            "OOM" => Self::OutOfMemory,
            "MISCONF" => Self::RefusesWrites { code: "MISCONF" },
            "NOREPLICAS" => Self::RefusesWrites { code: "NOREPLICAS" },
            "BUSY" => Self::Busy,
            "NOPERM" => Self::NoPermission,
            "WRONGPASS" | "NOAUTH" => Self::WrongPassword,
            // Redis wraps what a command inside a script answers: the word that matters comes second.
            code => match detail.split_whitespace().next().map(|word| word.trim_start_matches('-')) {
                Some("READONLY") => Self::ReadOnly,
                Some("OOM") => Self::OutOfMemory,
                Some("MISCONF") => Self::RefusesWrites { code: "MISCONF" },
                Some("NOREPLICAS") => Self::RefusesWrites { code: "NOREPLICAS" },
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
        self.needs_reconnect() || matches!(self, Self::NoScript | Self::Busy) || self.is_of_a_slot()
    }

    /// Whether it tells that a slot is elsewhere, or on its way.
    pub(super) fn is_of_a_slot(&self) -> bool {
        matches!(self, Self::TryAgain | Self::Moved(_) | Self::Ask(_))
    }

    /// The first word of the reply, or a stand-in for it.
    pub fn code(&self) -> &str {
        match self {
            Self::NoScript => "NOSCRIPT",
            Self::ReadOnly => "READONLY",
            Self::Loading => "LOADING",
            Self::MasterDown => "MASTERDOWN",
            Self::TryAgain => "TRYAGAIN",
            Self::Moved(_) => "MOVED",
            Self::Ask(_) => "ASK",
            Self::OutOfMemory => "OOM",
            Self::RefusesWrites { code } => code,
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

/// `3999 127.0.0.1:6381` names a slot and a node.
fn node(detail: &str) -> String {
    detail.split_whitespace().nth(1).unwrap_or_default().to_owned()
}

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
                "the database was emptied or replaced: restore it, or take the new one into use by a restart with --init",
            ),
            LinkError::Starting => {
                Error::new(Reason::Starting, "still connecting to Valkey").retry_after(RETRY_SOON)
            }
            LinkError::Server(error) => match error {
                ServerError::ReadOnly
                | ServerError::Loading
                | ServerError::MasterDown
                | ServerError::TryAgain
                | ServerError::Moved(_)
                | ServerError::Ask(_)
                | ServerError::Busy
                | ServerError::NoScript
                | ServerError::WrongPassword => {
                    Error::new(Reason::ValkeyUnreachable, error.to_string()).retry_after(RETRY_SOON)
                }
                ServerError::OutOfMemory => LinkError::OutOfMemory.into(),
                ServerError::RefusesWrites { code } => {
                    let why = if code == "NOREPLICAS" {
                        "it has fewer replicas than its min-replicas-to-write"
                    } else {
                        "it cannot save to its disk; its own log says why"
                    };
                    Error::new(
                        Reason::ValkeyRefusesWrites,
                        format!("Valkey refuses writes ({code}): {why}; nothing was written"),
                    )
                    .retry_after(RETRY_SOON)
                }
                ServerError::NoPermission => Error::new(
                    Reason::Internal,
                    "the ACL of the Valkey user forbids a command that Pannier needs: its log names it",
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
    fn a_slot_that_is_elsewhere_tells_where() {
        assert_eq!(node("3999 127.0.0.1:6381"), "127.0.0.1:6381");
        assert_eq!(node(""), "");
        let error = Error::from(LinkError::from(ServerError::Moved("10.0.0.7:7000".into())));
        assert_eq!(error.reason(), Reason::ValkeyUnreachable);
        assert!(!error.to_string().contains("10.0.0.7"), "{error}");
    }

    #[test]
    fn an_answer_for_the_client_holds_no_detail_of_the_server() {
        let error = ServerError::Other { code: "WRONGTYPE".into(), detail: "key pannier:x".into() };
        assert_eq!(Error::from(LinkError::from(error)).to_string(), "Valkey answered WRONGTYPE");
    }
}
