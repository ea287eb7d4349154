//! *Are these its keys?* The database keeps a canary for each key that it was written with, and a keyed hash of the index key.

use redis::{Pipeline, Value};

use crate::crypto::{KeyState, Keyring, check_canary, seal_canary};

use super::{
    server_info::text,
    store_identity::{Refusal, Store},
};

impl Store<'_> {
    /// Checks that each key of the keyring, and its index key, are those that this database knows under their ids. What
    /// it does not know yet is written if `learn` says so.
    pub async fn check_keys(&self, keyring: &Keyring, learn: bool) -> Result<(), Refusal> {
        // A keyed hash of a constant: with another index key nothing stored would be found, which must not look like
        // "no session".
        let index = keyring.owner_tag("meta", "index", "").to_string();
        let ids: Vec<u32> = keyring
            .ids()
            .into_iter()
            .filter_map(|(id, state)| (state != KeyState::Disabled).then_some(id))
            .collect();
        let mut known = self.canaries(&ids).await?;
        if learn && known.contains(&Value::Nil) {
            // Only what is missing is written: with its memory full the server would refuse to be asked to.
            let meta = self.names.meta();
            let mut pipeline = Pipeline::new();
            if known.first() == Some(&Value::Nil) {
                pipeline.cmd("HSETNX").arg(&meta).arg("index").arg(&index);
            }
            for (id, _) in ids.iter().zip(&known[1..]).filter(|(_, canary)| **canary == Value::Nil) {
                let canary = seal_canary(keyring, *id).unwrap_or_default();
                pipeline.cmd("HSETNX").arg(&meta).arg(canary_field(*id)).arg(canary);
            }
            self.send(&pipeline).await?;
            known = self.canaries(&ids).await?;
        }
        let mut read_back = known.into_iter();
        let found = read_back.next().unwrap_or_default();
        if (learn || found != Value::Nil) && text(&found).as_deref() != Some(&index) {
            return Err(Refusal::Human(
                "the keyring's index_key is not the one this database was written with: restore keyring.toml from its \
                 backup"
                    .into(),
            ));
        }
        for (id, canary) in ids.iter().zip(read_back).filter(|(_, canary)| learn || *canary != Value::Nil) {
            let Value::BulkString(canary) = canary else {
                return Err(Refusal::Changed("a canary is gone".into()));
            };
            if !check_canary(keyring, *id, &canary) {
                return Err(Refusal::Human(format!(
                    "key {id} of the keyring is not the key {id} this database was written with: restore keyring.toml \
                     from its backup"
                )));
            }
        }
        Ok(())
    }

    /// What the database holds of the index key and of each of `ids`.
    async fn canaries(&self, ids: &[u32]) -> Result<Vec<Value>, Refusal> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HMGET").arg(self.names.meta()).arg("index");
        for id in ids {
            pipeline.arg(canary_field(*id));
        }
        match self.send(&pipeline).await?.into_iter().next() {
            Some(Value::Array(found)) if found.len() == ids.len() + 1 => Ok(found),
            _ => Err(Refusal::Unreachable("HMGET gave no list".into())),
        }
    }
}

/// The field of the database's hash that proves a key.
pub fn canary_field(id: u32) -> String {
    format!("canary:{id}")
}
