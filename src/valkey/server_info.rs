//! `INFO`, or what `HELLO` tells of it where `INFO` is forbidden.

use std::collections::HashMap;

use redis::{Value, aio::MultiplexedConnection};

use super::lanes::{ask, one};

/// The fields of every section, flat.
#[derive(Debug, Default)]
pub(super) struct Info(HashMap<String, String>);

impl Info {
    /// Asks the server.
    ///
    /// # Errors
    /// When it does not answer, or is still loading.
    pub async fn read(connection: &MultiplexedConnection) -> Result<Self, String> {
        match ask(connection.clone(), &one(redis::cmd("INFO"))).await? {
            Ok(reply) => Ok(text(&reply).map(|text| Self::parse(&text)).unwrap_or_default()),
            Err(error) if error.needs_reconnect() => Err(error.to_string()),
            Err(_) => Self::from_hello(connection).await,
        }
    }

    fn parse(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Self(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    async fn from_hello(connection: &MultiplexedConnection) -> Result<Self, String> {
        let mut fields = HashMap::new();
        if let Ok(Value::Map(pairs)) = ask(connection.clone(), &one(redis::cmd("HELLO"))).await? {
            let pairs: HashMap<String, String> =
                pairs.iter().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect();
            let engine = pairs.get("server").map_or("redis", String::as_str);
            for (name, field) in [
                ("version", format!("{engine}_version")),
                ("mode", "redis_mode".into()),
                ("role", "role".into()),
            ] {
                if let Some(value) = pairs.get(name) {
                    fields.insert(field, value.clone());
                }
            }
        }
        Ok(Self(fields))
    }

    pub fn get(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    pub fn number(&self, field: &str) -> Option<u64> {
        self.get(field)?.parse().ok()
    }
}

/// A reply as text, if it is one.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::Okay => Some("OK".to_owned()),
        _ => None,
    }
}
