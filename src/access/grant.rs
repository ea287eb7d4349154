//! What one caller may do.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{
    rules::{Need, Rule},
    scope::Service,
    tokens::Token,
};
use crate::error::{Error, Reason, Result};

/// What one caller may do. Every check of a call, whole or inside a pipe, is one of these functions.
#[derive(Clone, Debug)]
pub enum Grant {
    /// The sidecar's own user on its socket: everything.
    Own,
    /// Another user that was let in, or a client certificate where there are no tokens: everything but admin calls.
    Guest,
    /// Nobody yet: only what needs no token.
    Nobody,
    /// What the token's scopes say.
    Token(Arc<Token>),
}

impl Grant {
    /// Whether the call may be made at all, whatever its namespace.
    pub fn may_call(&self, rule: Option<&Rule>) -> Result<()> {
        match (self, rule.map(|rule| rule.need)) {
            // A path that nobody serves: the answer to all others is that it is unknown.
            (Self::Own, _) | (_, Some(Need::Nothing)) => Ok(()),
            (Self::Nobody, _) => Err(missing_token()),
            (_, None | Some(Need::Known)) => Ok(()),
            (_, Some(Need::Unruled)) => Err(Error::new(
                Reason::PermissionDenied,
                "this call is for the user that the sidecar runs as",
            )),
            (_, Some(Need::Service(service))) => self.may_use(service),
            (_, Some(Need::Pipe)) => {
                let piped = [Service::Dedup, Service::Conversation, Service::Cap, Service::Schedule];
                piped.into_iter().find_map(|service| self.may_use(service).ok()).ok_or_else(|| {
                    missing_scope("dedup", "one of the scopes `dedup`, `conversation`, `cap` and `schedule`")
                })
            }
        }
    }

    /// Whether calls of this service may be made.
    pub fn may_use(&self, service: Service) -> Result<()> {
        let allowed = match self {
            Self::Guest if service == Service::Admin => {
                return Err(Error::new(
                    Reason::PermissionDenied,
                    "admin calls are for the user that the sidecar runs as, or need a token with the scope `admin`",
                )
                .with("scope", "admin"));
            }
            Self::Own | Self::Guest => true,
            Self::Nobody => return Err(missing_token()),
            Self::Token(token) => token.scopes.allows(service),
        };
        let scope = service.scope();
        if allowed { Ok(()) } else { Err(missing_scope(scope, &format!("the scope `{scope}`"))) }
    }

    /// Whether this namespace may be used; "" is "default".
    pub fn may_enter(&self, namespace: &str) -> Result<()> {
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        match self {
            Self::Token(token) if !token.scopes.allows_namespace(namespace) => Err(missing_scope(
                "namespace",
                "the scope `namespace:NAME` with the name of this call's namespace",
            )),
            Self::Nobody => Err(missing_token()),
            _ => Ok(()),
        }
    }

    /// Whether some namespaces are closed to it: then its requests must be looked into.
    pub fn is_namespaced(&self) -> bool {
        matches!(self, Self::Token(token) if token.scopes.is_namespaced())
    }

    /// Fires when the token was removed, changed or has expired.
    pub fn revoked(&self) -> Option<&CancellationToken> {
        match self {
            Self::Token(token) => Some(&token.revoked),
            _ => None,
        }
    }
}

fn missing_token() -> Error {
    Error::new(
        Reason::Unauthenticated,
        "this call needs a token: give its file with --token-file or PANNIER_TOKEN_FILE (`authorization: Bearer …`)",
    )
}

fn missing_scope(scope: &str, what: &str) -> Error {
    Error::new(Reason::PermissionDenied, format!("the token lacks {what}")).with("scope", scope)
}
