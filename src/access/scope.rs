//! Scopes of a token: services and namespaces. Both lists narrow: a call needs its service *and* its namespace.

use std::fmt;

use crate::{config::suggest, rpc::NAMESPACE_MAX};

/// What a token can be for. The names are those of the gRPC services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// `SessionService`.
    Session,
    /// `BlobService`.
    Blob,
    /// `DedupService`.
    Dedup,
    /// `ConversationService`.
    Conversation,
    /// `CapService`.
    Cap,
    /// `ScheduleService`.
    Schedule,
    /// `AdminService`.
    Admin,
}

impl Service {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Session, Self::Blob, Self::Dedup, Self::Conversation, Self::Cap, Self::Schedule, Self::Admin];

    /// Its scope.
    pub fn scope(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Blob => "blob",
            Self::Dedup => "dedup",
            Self::Conversation => "conversation",
            Self::Cap => "cap",
            Self::Schedule => "schedule",
            Self::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

const DATA: u8 = 0b11_1111;

/// What the scopes of one token add up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scopes {
    services: u8,
    /// None: all.
    namespaces: Option<Vec<String>>,
    given: Vec<String>,
}

impl Scopes {
    /// Reads `session`, `namespace:bot-1`, `all` … At least one. Without a service, all services but admin are meant; without a
    /// namespace, all namespaces.
    ///
    /// # Errors
    /// What is wrong with which scope, for a person.
    pub fn parse(given: &[String]) -> Result<Self, String> {
        if given.is_empty() {
            return Err(format!("no scopes; {CHOICE}"));
        }
        let (mut services, mut all, mut namespaces, mut canonical) = (0, false, Vec::new(), Vec::new());
        for scope in given {
            let scope = scope.trim();
            if let Some(namespace) = scope.strip_prefix("namespace:") {
                if namespace.is_empty() || namespace.len() > NAMESPACE_MAX {
                    return Err(format!("`{scope}`: a namespace has 1..{NAMESPACE_MAX} bytes"));
                }
                namespaces.push(namespace.to_owned());
                canonical.push(scope.to_owned());
            } else if scope == "all" {
                all = true;
                canonical.push(scope.to_owned());
            } else {
                let service = service(scope).ok_or_else(|| unknown(scope))?;
                services |= service.bit();
                canonical.push(service.scope().to_owned());
            }
        }
        if all || (services & DATA == 0 && !namespaces.is_empty()) {
            services |= DATA;
        }
        canonical.dedup();
        Ok(Self { services, namespaces: (!namespaces.is_empty()).then_some(namespaces), given: canonical })
    }

    /// Whether calls of this service are allowed.
    pub fn allows(&self, service: Service) -> bool {
        self.services & service.bit() != 0
    }

    /// Whether this namespace, by its full name, is.
    pub fn allows_namespace(&self, namespace: &str) -> bool {
        self.namespaces.as_ref().is_none_or(|allowed| allowed.iter().any(|one| one == namespace))
    }

    /// Whether some namespaces are not allowed.
    pub fn is_namespaced(&self) -> bool {
        self.namespaces.is_some()
    }

    /// As they stand in the file.
    pub fn given(&self) -> &[String] {
        &self.given
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given.join(", "))
    }
}

const CHOICE: &str = "a scope is `namespace:NAME`, `session`, `blob`, `dedup`, `conversation`, `cap`, `schedule`, `all` (these \
                      six) or `admin`";

/// One service. The command line says `sessions` and `queue`: a plural is understood.
fn service(scope: &str) -> Option<Service> {
    let singular = scope.strip_suffix('s').unwrap_or(scope);
    Service::ALL.into_iter().find(|service| service.scope() == singular)
}

fn unknown(scope: &str) -> String {
    let names = Service::ALL.map(Service::scope);
    match suggest(scope, names.into_iter().chain(["all", "namespace:"])) {
        Some(near) => format!("unknown scope `{scope}`, did you mean `{near}`? {CHOICE}"),
        None => format!("unknown scope `{scope}`: {CHOICE}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(given: &[&str]) -> Scopes {
        Scopes::parse(&given.iter().map(|&scope| scope.to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn allowed(given: &[&str]) -> Vec<&'static str> {
        let scopes = scopes(given);
        Service::ALL.into_iter().filter(|one| scopes.allows(*one)).map(Service::scope).collect()
    }

    #[test]
    fn services_and_namespaces_narrow_each_other() {
        assert_eq!(allowed(&["schedule"]), ["schedule"]);
        assert_eq!(allowed(&["admin"]), ["admin"]);
        assert_eq!(allowed(&["all"]).len(), 6);
        assert_eq!(allowed(&["all", "admin"]).len(), 7);
        assert_eq!(allowed(&["namespace:bot-1"]).len(), 6, "all services, but no admin calls");
        assert_eq!(allowed(&["namespace:bot-1", "admin"]).len(), 7);
        assert_eq!(allowed(&["namespace:bot-1", "sessions", "caps"]), ["session", "cap"]);
        let two = scopes(&["namespace:a", "namespace:b", "blob"]);
        assert!(two.allows_namespace("a") && two.allows_namespace("b") && !two.allows_namespace("A"));
        assert!(!two.allows_namespace("default") && scopes(&["blob"]).allows_namespace("default"));
    }

    #[test]
    fn a_wrong_scope_is_refused_with_what_was_probably_meant() {
        let wrong = |scope: &str| Scopes::parse(&[scope.to_owned()]).unwrap_err();
        assert!(wrong("shedule").contains("did you mean `schedule`?"));
        assert!(wrong("namespace:").contains("1..128 bytes"));
        assert!(wrong("*").contains("a scope is"));
        assert!(Scopes::parse(&[]).unwrap_err().contains("no scopes"));
    }
}
