//! Why an owner's root key does not unwrap, as an error for the caller.

use tokio::time::Instant;

use crate::{
    crypto::{SharedKeyring, UnwrapError, wrapped_kek_id},
    error::{Error, Reason},
    telemetry,
    valkey::Link,
};

/// The error of one `kind` (`session`, `blob`); a key that is damaged for good is `corrupt`.
pub async fn unwrap_error(
    link: &Link,
    keyring: &SharedKeyring,
    (kind, corrupt): (&str, Reason),
    wrapped: &[u8],
    error: UnwrapError,
    deadline: Instant,
) -> Error {
    let error = match error {
        // Either the key of this id is another one, or the wrapped key was altered: its canary tells.
        UnwrapError::Mismatch => {
            let id = wrapped_kek_id(wrapped).unwrap_or_default();
            match link.canary_opens(&keyring.current(), id, deadline).await {
                Ok(true) => UnwrapError::Corrupt,
                Ok(false) => UnwrapError::Mismatch,
                Err(error) => return error.into(),
            }
        }
        error => error,
    };
    telemetry::could_not_unwrap(&error);
    match error {
        UnwrapError::UnknownKeyId(_) | UnwrapError::DisabledKeyId(_) | UnwrapError::Mismatch => Error::new(
            Reason::KeyMismatch,
            format!("the {kind}'s key: {error}: put the right keyring back; nothing is lost"),
        ),
        UnwrapError::UnknownFormat => {
            Error::new(Reason::NewerFormat, format!("the {kind}'s key: {error}: update pannier"))
        }
        UnwrapError::Corrupt | UnwrapError::Malformed => {
            Error::new(corrupt, format!("the {kind}'s key: {error}: restore it from a backup"))
                .with("type", "root key")
        }
    }
}
