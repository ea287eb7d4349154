//! What a session is, in memory.

use std::collections::{BTreeMap, HashMap};

use pannier::proto::v1;

pub type Records = BTreeMap<(String, String), (Vec<u8>, u64)>;

/// One life of the session.
#[derive(Clone, Default)]
pub struct Life {
    pub incarnation: u64,
    pub records: Records,
}

#[derive(Default)]
pub struct Model {
    pub live: Option<Life>,
    /// Oldest first.
    pub archives: Vec<Life>,
    pub revision: u64,
    pub writers: HashMap<String, u64>,
    pub holder: Option<(usize, u64)>,
    /// No fence may be as low again.
    pub fence: u64,
}

impl Model {
    /// Makes the live one an archive; whether the oldest had to go.
    pub fn archive(&mut self) -> bool {
        self.archives.extend(self.live.take());
        let full = self.archives.len() > 3;
        if full {
            self.archives.remove(0);
        }
        full
    }

    /// Applies a commit, or says why not; the order of the checks is part of the promise.
    pub fn commit(&mut self, writer: &str, commit: &v1::Commit) -> Result<(u64, bool), &'static str> {
        let last = self.writers.get(writer).copied().unwrap_or(0);
        if commit.op_seq <= last {
            return Ok((self.revision, true));
        }
        if commit.op_seq > last + 1 {
            return Err("OUT_OF_ORDER");
        }
        if commit.expected_revision.is_some_and(|expected| expected != self.revision) {
            return Err("REVISION_CONFLICT");
        }
        let records = &mut self.live.as_mut().unwrap().records;
        let key = |record: &v1::Record| (record.r#type.clone(), record.id.clone());
        for put in &commit.puts {
            let found = records.get(&key(put.record.as_ref().unwrap())).map_or(0, |(_, revision)| *revision);
            if put.if_revision.is_some_and(|wanted| wanted != found) {
                return Err("REVISION_CONFLICT");
            }
        }
        self.revision += 1;
        for put in &commit.puts {
            let record = put.record.as_ref().unwrap();
            records.insert(key(record), (record.value.to_vec(), self.revision));
        }
        for gone in &commit.deletes {
            records.remove(&(gone.r#type.clone(), gone.id.clone()));
        }
        self.writers.insert(writer.into(), commit.op_seq);
        Ok((self.revision, false))
    }
}
