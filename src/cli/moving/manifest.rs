//! The manifest of an exported folder: which record each file holds, and its SHA-256. It lies beside the folder, is written
//! last, and holds ids, so it is as secret as what it lists.

use std::{collections::BTreeMap, fs, io::Write as _, path::Path};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    bundle::Item,
    names,
    value::{self, Stored},
};
use crate::{
    cli::{
        outcome::{Failed, NO, Outcome},
        output::{hex, shown},
    },
    proto::v1::ValueKind,
};

const FORMAT: &str = "pannier baileys folder";
const VERSION: u32 = 1;

/// What a folder was when it was exported.
#[derive(Deserialize, Serialize)]
pub struct Manifest {
    format: String,
    version: u32,
    pub namespace: String,
    pub session: String,
    /// The session's revision that the folder holds.
    pub revision: u64,
    files: BTreeMap<String, Entry>,
}

#[derive(Deserialize, Serialize)]
struct Entry {
    r#type: String,
    id: String,
    kind: Kind,
    bytes: u64,
    sha256: String,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Bytes,
    Json,
    Text,
}

impl Kind {
    fn of(kind: ValueKind) -> Self {
        match kind {
            ValueKind::Json => Self::Json,
            ValueKind::Text => Self::Text,
            ValueKind::Bytes | ValueKind::Unspecified => Self::Bytes,
        }
    }
}

impl Manifest {
    /// Of nothing yet.
    pub fn new(namespace: &str, session: &str, revision: u64) -> Self {
        let (format, files) = (FORMAT.to_owned(), BTreeMap::new());
        let (namespace, session) = (namespace.to_owned(), session.to_owned());
        Self { format, version: VERSION, namespace, session, revision, files }
    }

    /// Lists a file.
    pub fn add(&mut self, item: &Item, text: &[u8]) {
        let entry = Entry {
            r#type: item.ty.clone(),
            id: item.id.clone(),
            kind: Kind::of(item.stored.kind),
            bytes: text.len() as u64,
            sha256: hex(&Sha256::digest(text)),
        };
        self.files.insert(item.source.clone(), entry);
    }

    /// The files it lists.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Reads one.
    pub fn read(path: &Path) -> Outcome<Self> {
        let name = shown(&path.to_string_lossy());
        let text = fs::read(path).map_err(|error| Failed::new(NO, format!("{name}: {error}")))?;
        let manifest: Self = serde_json::from_slice(&text)
            .map_err(|error| Failed::new(NO, format!("{name} is no manifest of an export: {error}")))?;
        if manifest.format != FORMAT || manifest.version != VERSION {
            return Err(Failed::new(NO, format!("{name} is no manifest that this version reads")));
        }
        Ok(manifest)
    }

    /// The record of a file, if it is what was exported.
    pub fn check(&self, file: &str, text: Vec<u8>) -> Result<Item, String> {
        let entry = self.files.get(file).ok_or("not in the manifest")?;
        if text.len() as u64 != entry.bytes || hex(&Sha256::digest(&text)) != entry.sha256 {
            return Err("not what the manifest says: changed since the export".to_owned());
        }
        if names::file_name(&entry.r#type, &entry.id) != file {
            return Err("the manifest names another record for it".to_owned());
        }
        let read = value::from_text(text.clone())?;
        let stored = match (entry.kind, read.kind) {
            (Kind::Json, _) => Stored { kind: ValueKind::Json, value: text },
            (Kind::Bytes, ValueKind::Bytes) => read,
            (Kind::Text, _) => serde_json::from_slice::<String>(&text)
                .map(|text| Stored { kind: ValueKind::Text, value: text.into_bytes() })
                .map_err(|_| "the manifest says text, and it is none".to_owned())?,
            (Kind::Bytes, _) => return Err("the manifest says bytes, and it holds none".to_owned()),
        };
        Ok(Item { source: file.to_owned(), ty: entry.r#type.clone(), id: entry.id.clone(), stored })
    }

    /// Writes it, whole or not at all, and replaces nothing.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let parent = super::write::parent(path);
        let mut file = tempfile::Builder::new().prefix(".manifest-").tempfile_in(parent)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path).map_err(|error| error.error)?;
        fs::File::open(parent)?.sync_all()
    }
}
