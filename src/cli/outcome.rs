//! How a command ends: an exit code and, when it failed, what to do.

use std::{io, process::ExitCode};

use tonic::{Code, Status};

use super::output;
use crate::{config::ConfigError, server};

/// The answer is no.
pub const NO: u8 = 1;
/// Wrong usage.
pub const USAGE: u8 = 64;
/// No sidecar there, or it is not ready.
pub const UNAVAILABLE: u8 = 69;
/// A fault of ours.
pub const SOFTWARE: u8 = 70;
/// The sidecar refused, or does not understand.
pub const PROTOCOL: u8 = 76;
/// A person must put something right.
pub const CONFIG: u8 = 78;

/// What a command gives.
pub type Outcome<T = ()> = Result<T, Failed>;

/// Why a command failed.
#[derive(Debug)]
pub struct Failed {
    code: u8,
    message: String,
}

impl Failed {
    /// With an exit code.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Whether there is no sidecar.
    pub fn is_unavailable(&self) -> bool {
        self.code == UNAVAILABLE
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::new(SOFTWARE, error.to_string())
    }
}

impl From<ConfigError> for Failed {
    fn from(error: ConfigError) -> Self {
        Self::new(CONFIG, error.0)
    }
}

impl From<server::Failure> for Failed {
    fn from(failure: server::Failure) -> Self {
        Self::new(failure.code, failure.message)
    }
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        let code = match status.code() {
            Code::Unavailable | Code::DeadlineExceeded => UNAVAILABLE,
            Code::InvalidArgument => USAGE,
            Code::NotFound | Code::FailedPrecondition | Code::Aborted | Code::AlreadyExists => NO,
            _ => PROTOCOL,
        };
        let reason =
            tonic_types::StatusExt::get_details_error_info(&status).map_or_else(String::new, |info| {
                let holder = info.metadata.get("owner").map_or_else(String::new, |owner| {
                    let until = info.metadata.get("until").map_or("its end", String::as_str);
                    format!(", held by {} until {until}", output::shown(owner))
                });
                format!(" ({}{holder})", info.reason)
            });
        let message =
            if status.message().is_empty() { status.code().description() } else { status.message() };
        Self::new(code, format!("{message}{reason}"))
    }
}

/// Says what failed, and gives the exit code.
pub fn exit(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            if !failed.message.is_empty() {
                output::error(&failed.message);
            }
            ExitCode::from(failed.code)
        }
    }
}
