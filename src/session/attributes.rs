//! Facts about an account that listings may show; sealed in the head.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// See `pannier.v1.Attributes`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attributes {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paired: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_pre_key_id: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Attributes {
    /// Takes over what `newer` says.
    pub fn merge(&mut self, newer: Self) {
        self.paired = newer.paired.or(self.paired);
        self.next_pre_key_id = newer.next_pre_key_id.or(self.next_pre_key_id);
        self.labels.extend(newer.labels);
    }

    /// To be sealed.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What was sealed; of a later version, what is understood.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}
