//! One rule for every RPC, read off the descriptors: a new RPC has one at once, or a test fails and only the sidecar's own user
//! may call it.

use std::{collections::HashMap, sync::LazyLock};

use prost::Message as _;
use prost_types::{
    DescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

use super::scope::Service;
use crate::proto::FILE_DESCRIPTOR_SET;

/// What a call needs, beside its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: whether the sidecar is ready.
    Nothing,
    /// Any valid token.
    Known,
    /// The scope of one of the services in a pipe; each call in it is judged by itself.
    Pipe,
    /// The scope of this service.
    Service(Service),
    /// Nobody has said: only the sidecar's own user may.
    Unruled,
}

impl Need {
    /// Whether each call of it is in one namespace, which its messages name. A pipe looks at its own.
    pub fn has_namespace(self) -> bool {
        matches!(self, Self::Service(service) if service != Service::Admin)
    }
}

/// The rule of one RPC.
#[derive(Debug)]
pub struct Rule {
    /// What a call needs.
    pub need: Need,
    /// Where its requests name their namespace.
    pub namespace: Place,
    /// Whether it stays open: then it ends when its token does.
    pub streams: bool,
}

/// Where in a message a namespace is named.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The field of the message itself.
    pub here: Option<u32>,
    /// Fields that are messages which name one.
    pub inside: Vec<(u32, Place)>,
}

impl Place {
    /// Whether there is any.
    pub fn is_nowhere(&self) -> bool {
        self.here.is_none() && self.inside.is_empty()
    }
}

const HEALTH: &str = "/grpc.health.v1.Health/";
const REFLECTION: &str = "/grpc.reflection.";
static KNOWN: Rule = Rule { need: Need::Known, namespace: NOWHERE, streams: true };
static NOTHING: Rule = Rule { need: Need::Nothing, namespace: NOWHERE, streams: false };
const NOWHERE: Place = Place { here: None, inside: Vec::new() };

/// The rule for `/package.Service/Method`. None: no such call is known.
pub fn rule(path: &str) -> Option<&'static Rule> {
    if let Some(rule) = RULES.get(path) {
        return Some(rule);
    }
    // A Watch stays open: of those without a token there could be any number.
    if let Some(method) = path.strip_prefix(HEALTH) {
        return Some(if method == "Check" { &NOTHING } else { &KNOWN });
    }
    path.starts_with(REFLECTION).then_some(&KNOWN)
}

static RULES: LazyLock<HashMap<String, Rule>> = LazyLock::new(|| {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap_or_default().file;
    let mut messages = HashMap::new();
    for file in &files {
        for message in &file.message_type {
            collect(&format!(".{}", file.package()), message, &mut messages);
        }
    }
    let mut rules = HashMap::new();
    for file in &files {
        for service in &file.service {
            let need = need(service.name());
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let streams = method.client_streaming() || method.server_streaming();
                let namespace = place(method.input_type(), &messages, 1);
                rules.insert(path, Rule { need, namespace, streams });
            }
        }
    }
    rules
});

fn need(service: &str) -> Need {
    match service {
        "SessionService" => Need::Service(Service::Session),
        "BlobService" => Need::Service(Service::Blob),
        "DedupService" => Need::Service(Service::Dedup),
        "ConversationService" => Need::Service(Service::Conversation),
        "CapService" => Need::Service(Service::Cap),
        "ScheduleService" => Need::Service(Service::Schedule),
        "AdminService" => Need::Service(Service::Admin),
        "PipeService" => Need::Pipe,
        _ => Need::Unruled,
    }
}

fn collect<'a>(scope: &str, message: &'a DescriptorProto, all: &mut HashMap<String, &'a DescriptorProto>) {
    let name = format!("{scope}.{}", message.name());
    for nested in &message.nested_type {
        collect(&name, nested, all);
    }
    all.insert(name, message);
}

/// Finds the fields called `namespace`, also in the messages inside, `depth` levels down.
fn place(message: &str, all: &HashMap<String, &DescriptorProto>, depth: u32) -> Place {
    let Some(message) = all.get(message) else { return Place::default() };
    let mut found = Place::default();
    for field in &message.field {
        let number = u32::try_from(field.number()).unwrap_or_default();
        match field.r#type() {
            Type::String if field.name() == "namespace" && field.label() != Label::Repeated => {
                found.here = Some(number);
            }
            Type::Message if depth > 0 => {
                let inside = place(field.type_name(), all, depth - 1);
                if !inside.is_nowhere() {
                    found.inside.push((number, inside));
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever adds an RPC: give its service a scope above, and its request a `namespace`.
    #[test]
    fn every_rpc_has_a_rule_and_names_its_namespace() {
        let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap().file;
        let mut rpcs = 0;
        for file in files.iter().filter(|file| file.package().starts_with("pannier")) {
            for service in &file.service {
                for method in &service.method {
                    rpcs += 1;
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let rule = rule(&path).unwrap_or_else(|| panic!("{path} has no rule"));
                    assert_ne!(rule.need, Need::Unruled, "{path}: which scope does it need?");
                    let everywhere = !rule.need.has_namespace() && rule.need != Need::Pipe;
                    assert_eq!(rule.namespace.is_nowhere(), everywhere, "{path}: where is its namespace?");
                }
            }
        }
        assert!(rpcs >= 50, "{rpcs} RPCs: the descriptors were not read");
    }

    #[test]
    fn streams_name_their_namespace_where_they_begin() {
        let place = |path| &rule(path).unwrap().namespace;
        for path in [
            "/pannier.v1.SessionService/Attach",
            "/pannier.v1.ScheduleService/Work",
            "/pannier.v1.BlobService/SaveBlob",
        ] {
            let place = place(path);
            assert!(place.here.is_none() && place.inside.len() == 1, "{path}: {place:?}");
        }
        assert_eq!(place("/pannier.v1.PipeService/Pipe").inside.len(), 16, "one for each kind of call");
        assert_eq!(place("/pannier.v1.SessionService/GetSession").here, Some(1));
        assert!(rule("/pannier.v1.SessionService/Nothing").is_none());
    }
}
