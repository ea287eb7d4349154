//! Conversations as JSON and as rows. Instants are RFC 3339 in UTC.

use std::{collections::BTreeMap, fmt::Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;

use crate::{
    cli::output::{bytes, instant, or_dash, shown},
    proto::v1,
};

/// Titles of a row.
pub const TITLES: &[&str] = &["conversation", "step", "fields", "size", "updated", "expires"];

/// A conversation without the values of its fields.
#[derive(Serialize)]
pub struct Summary {
    pub id: String,
    pub step: String,
    pub version: u64,
    pub fields: u32,
    pub bytes: u64,
    pub started_at: Option<String>,
    pub updated_at: Option<String>,
    pub expires_at: Option<String>,
    pub ends_at: Option<String>,
}

impl From<v1::ConversationSummary> for Summary {
    fn from(one: v1::ConversationSummary) -> Self {
        Self {
            id: one.id,
            step: one.step,
            version: one.version,
            fields: one.fields,
            bytes: one.bytes,
            started_at: instant(one.started_at),
            updated_at: instant(one.updated_at),
            expires_at: instant(one.expires_at),
            ends_at: instant(one.ends_at),
        }
    }
}

impl Summary {
    /// For a table.
    pub fn row(&self) -> Vec<String> {
        vec![
            shown(&self.id),
            shown(&self.step),
            self.fields.to_string(),
            bytes(self.bytes),
            or_dash(self.updated_at.as_ref()),
            or_dash(self.expires_at.as_ref()),
        ]
    }
}

/// A field's value: as text where it is text, else as base64.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Value {
    Text(String),
    Bytes { base64: String },
}

/// A conversation with everything in it.
#[derive(Serialize)]
pub struct Detail {
    pub id: String,
    pub exists: bool,
    pub step: String,
    pub version: u64,
    pub fields: BTreeMap<String, Value>,
    pub started_at: Option<String>,
    pub updated_at: Option<String>,
    pub expires_at: Option<String>,
    pub ends_at: Option<String>,
}

impl Detail {
    /// Of what the sidecar has said.
    pub fn new(id: String, state: v1::ConversationState) -> Self {
        let fields = state.fields.into_iter().map(|(name, value)| {
            let value = match String::from_utf8(value.to_vec()) {
                Ok(text) => Value::Text(text),
                Err(_) => Value::Bytes { base64: STANDARD.encode(&value) },
            };
            (name, value)
        });
        Self {
            id,
            exists: state.exists,
            step: state.step,
            version: state.version,
            fields: fields.collect(),
            started_at: instant(state.started_at),
            updated_at: instant(state.updated_at),
            expires_at: instant(state.expires_at),
            ends_at: instant(state.ends_at),
        }
    }

    /// For a person.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n  step     {}", shown(&self.id), shown(&self.step));
        if !self.exists {
            return text;
        }
        // Writing to a String cannot fail.
        for (label, at) in [
            ("started", &self.started_at),
            ("updated", &self.updated_at),
            ("expires", &self.expires_at),
            ("ends", &self.ends_at),
        ] {
            let _ = write!(text, "\n  {label:<8} {}", or_dash(at.as_ref()));
        }
        for (name, value) in &self.fields {
            let value = match value {
                Value::Text(text) => shown(text),
                Value::Bytes { base64 } => format!("(base64) {base64}"),
            };
            let _ = write!(text, "\n  {} = {value}", shown(name));
        }
        text
    }
}
