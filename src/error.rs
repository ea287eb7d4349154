//! One error type by who is at fault, and its one mapping to a gRPC status with `google.rpc` details.
//!
//! A message names fields and says what to do; it never holds an id, a name, a value or a key.

use std::{collections::HashMap, fmt, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{proto::v1, telemetry};

/// The domain of every `ErrorInfo`.
pub const DOMAIN: &str = "pannier";

/// Why a call failed: the `reason` of `ErrorInfo`. Each belongs to one gRPC code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Reason {
    BadField,
    TooLarge,
    SessionNotFound,
    BlobNotFound,
    ArchiveNotFound,
    JobNotFound,
    PolicyNotFound,
    Fenced,
    OutOfOrder,
    RevisionConflict,
    GenerationGone,
    Busy,
    SessionHeld,
    KeyMismatch,
    StaleState,
    WrongState,
    NewerFormat,
    CorruptRecord,
    CorruptBlob,
    ValkeyOutOfMemory,
    TooManyInFlight,
    Quota,
    ValkeyUnreachable,
    ValkeyRefusesWrites,
    Starting,
    Draining,
    StoreChanged,
    DeadlineExceeded,
    Cancelled,
    Unauthenticated,
    PermissionDenied,
    Protocol,
    Internal,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 33] = [
        Self::BadField,
        Self::TooLarge,
        Self::SessionNotFound,
        Self::BlobNotFound,
        Self::ArchiveNotFound,
        Self::JobNotFound,
        Self::PolicyNotFound,
        Self::Fenced,
        Self::OutOfOrder,
        Self::RevisionConflict,
        Self::GenerationGone,
        Self::Busy,
        Self::SessionHeld,
        Self::KeyMismatch,
        Self::StaleState,
        Self::WrongState,
        Self::NewerFormat,
        Self::CorruptRecord,
        Self::CorruptBlob,
        Self::ValkeyOutOfMemory,
        Self::TooManyInFlight,
        Self::Quota,
        Self::ValkeyUnreachable,
        Self::ValkeyRefusesWrites,
        Self::Starting,
        Self::Draining,
        Self::StoreChanged,
        Self::DeadlineExceeded,
        Self::Cancelled,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::Protocol,
        Self::Internal,
    ];

    /// The name on the wire and the code it belongs to.
    pub const fn wire(self) -> (&'static str, Code) {
        match self {
            Self::BadField => ("BAD_FIELD", Code::InvalidArgument),
            Self::TooLarge => ("TOO_LARGE", Code::InvalidArgument),
            Self::Protocol => ("PROTOCOL", Code::InvalidArgument),
            Self::SessionNotFound => ("SESSION_NOT_FOUND", Code::NotFound),
            Self::BlobNotFound => ("BLOB_NOT_FOUND", Code::NotFound),
            Self::ArchiveNotFound => ("ARCHIVE_NOT_FOUND", Code::NotFound),
            Self::JobNotFound => ("JOB_NOT_FOUND", Code::NotFound),
            Self::PolicyNotFound => ("POLICY_NOT_FOUND", Code::NotFound),
            Self::Fenced => ("FENCED", Code::Aborted),
            Self::OutOfOrder => ("OUT_OF_ORDER", Code::Aborted),
            Self::RevisionConflict => ("REVISION_CONFLICT", Code::Aborted),
            Self::GenerationGone => ("GENERATION_GONE", Code::Aborted),
            Self::Busy => ("BUSY", Code::Aborted),
            Self::SessionHeld => ("SESSION_HELD", Code::FailedPrecondition),
            Self::KeyMismatch => ("KEY_MISMATCH", Code::FailedPrecondition),
            Self::StaleState => ("STALE_STATE", Code::FailedPrecondition),
            Self::WrongState => ("WRONG_STATE", Code::FailedPrecondition),
            Self::NewerFormat => ("NEWER_FORMAT", Code::FailedPrecondition),
            Self::CorruptRecord => ("CORRUPT_RECORD", Code::DataLoss),
            Self::CorruptBlob => ("CORRUPT_BLOB", Code::DataLoss),
            Self::ValkeyOutOfMemory => ("VALKEY_OUT_OF_MEMORY", Code::ResourceExhausted),
            Self::TooManyInFlight => ("TOO_MANY_IN_FLIGHT", Code::ResourceExhausted),
            Self::Quota => ("QUOTA", Code::ResourceExhausted),
            Self::ValkeyUnreachable => ("VALKEY_UNREACHABLE", Code::Unavailable),
            Self::ValkeyRefusesWrites => ("VALKEY_REFUSES_WRITES", Code::Unavailable),
            Self::Starting => ("STARTING", Code::Unavailable),
            Self::Draining => ("DRAINING", Code::Unavailable),
            Self::StoreChanged => ("STORE_CHANGED", Code::Unavailable),
            Self::DeadlineExceeded => ("DEADLINE_EXCEEDED", Code::DeadlineExceeded),
            Self::Cancelled => ("CANCELLED", Code::Cancelled),
            Self::Unauthenticated => ("UNAUTHENTICATED", Code::Unauthenticated),
            Self::PermissionDenied => ("PERMISSION_DENIED", Code::PermissionDenied),
            Self::Internal => ("INTERNAL", Code::Internal),
        }
    }
}

/// A failed call.
#[derive(Clone, Debug)]
pub struct Error {
    reason: Reason,
    message: String,
    field: Option<String>,
    metadata: HashMap<String, String>,
    retry_after: Option<Duration>,
}

/// What a call gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error for `reason`; `message` says what to do.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), field: None, metadata: HashMap::new(), retry_after: None }
    }

    /// The caller sent a wrong `field`.
    pub fn bad_field(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::field(Reason::BadField, field, description)
    }

    /// The caller sent too much in `field`.
    pub fn too_large(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::field(Reason::TooLarge, field, description)
    }

    fn field(reason: Reason, field: impl Into<String>, description: impl Into<String>) -> Self {
        let field = field.into();
        Self { field: Some(field), ..Self::new(reason, description) }
    }

    /// Adds a value of `ErrorInfo.metadata`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.metadata.insert(key.to_owned(), value.to_string());
        self
    }

    /// A write may have happened.
    #[must_use]
    pub fn outcome_unknown(self) -> Self {
        self.with("outcome_unknown", true)
    }

    /// Nothing was written: it was no write.
    #[must_use]
    pub fn outcome_known(mut self) -> Self {
        self.metadata.remove("outcome_unknown");
        self
    }

    /// Trying again makes sense after this long.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Why.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The wrong field, of INVALID_ARGUMENT.
    pub fn wrong_field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// A value of `ErrorInfo.metadata`.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Whether a write may have happened.
    pub fn is_outcome_unknown(&self) -> bool {
        self.metadata("outcome_unknown") == Some("true")
    }

    /// The status of a failed unary call.
    pub fn to_status(&self) -> Status {
        telemetry::error(self.reason);
        let (reason, code) = self.reason.wire();
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, DOMAIN, self.metadata.clone());
        if let Some(field) = &self.field {
            details.add_bad_request_violation(field, &self.message);
        }
        if let Some(wait) = self.retry_after {
            details.set_retry_info(Some(wait));
        }
        Status::with_error_details(code, self.to_string(), details)
    }

    /// The same inside a stream. Unary and stream carry the same bytes: a `google.rpc.Status`.
    pub fn to_stream_status(&self) -> v1::Status {
        let status = self.to_status();
        prost::Message::decode(status.details()).unwrap_or_else(|_| v1::Status {
            code: status.code() as i32,
            message: status.message().to_owned(),
            details: Vec::new(),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        error.to_status()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_and_unary_errors_carry_the_same_details() {
        let error = Error::bad_field("commit.puts[0].id", "must be 1..512 bytes").with("limit", 512);
        let unary = error.to_status();
        let stream = error.to_stream_status();
        assert_eq!(unary.code(), Code::InvalidArgument);
        assert_eq!(stream.code, Code::InvalidArgument as i32);
        assert_eq!(stream.message, "commit.puts[0].id: must be 1..512 bytes");
        let details = unary.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "BAD_FIELD");
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, "commit.puts[0].id");
        assert_eq!(stream.details.len(), 2);
    }
}
