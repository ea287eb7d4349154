//! Folders as `useMultiFileAuthState` writes them.

use std::{collections::BTreeMap, fs, path::Path};

use tempfile::TempDir;

/// A folder below a directory of its own.
pub struct Folder {
    dir: TempDir,
    path: String,
}

/// Creds with what is looked at of them.
pub const CREDS: &str = r#"{"noiseKey":{"private":{"type":"Buffer","data":"AAEC"},"public":{"type":"Buffer","data":"AAEC"}},"signedIdentityKey":{"private":{"type":"Buffer","data":"AAEC"},"public":{"type":"Buffer","data":"AAEC"}},"registered":false,"me":{"id":"49151:1@s.whatsapp.net","name":"\ud83d"},"nextPreKeyId":31}"#;

impl Folder {
    pub fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("auth");
        fs::create_dir(&path).unwrap();
        Self { path: path.to_str().unwrap().to_owned(), dir }
    }

    /// Every type, every form of a value.
    pub fn usual() -> Self {
        let folder = Self::empty();
        for (file, text) in [
            ("creds.json", CREDS),
            (
                "pre-key-1.json",
                r#"{"private":{"type":"Buffer","data":"AA=="},"public":{"type":"Buffer","data":[1,2]}}"#,
            ),
            ("pre-key-2.json", r#"{"private":{"0":1,"1":255},"public":{"type":"Buffer","data":"AA=="}}"#),
            ("session-49151.0.json", r#"{"type":"Buffer","data":"AAEC/w=="}"#),
            ("session-99123_1.17.json", r#"{"_sessions":{},"version":"v1"}"#),
            ("identity-key-49151.0.json", r#"{"type":"Buffer","data":[0,1,255]}"#),
            ("sender-key-49151-1512@g.us--99123_1--0.json", r#"{"type":"Buffer","data":"W10="}"#),
            ("sender-key-memory-49151-1512@g.us.json", r#"{"99123:1@lid":true}"#),
            ("app-state-sync-key-AAAA__+____.json", r#"{"keyData":"AAEC","timestamp":"1700000000"}"#),
            (
                "app-state-sync-version-critical_unblock_low.json",
                "{ \"version\": 1.50e1,\n\"hash\":{\"0\":7} }\n",
            ),
            ("lid-mapping-49151.json", "\"99123\""),
            ("lid-mapping-99123_reverse.json", "\"49151\""),
            ("device-list-49151.json", "[\"0\",\"17\"]"),
            ("tctoken-__index.json", r#"{"token":{"type":"Buffer","data":"W10="}}"#),
            (
                "tctoken-99123@lid.json",
                r#"{"token":{"type":"Buffer","data":"AA=="},"timestamp":"1700000000"}"#,
            ),
        ] {
            folder.write(file, text);
        }
        folder
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// A path beside it, at which nothing is.
    pub fn beside(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        fs::write(Path::new(&self.path).join(file), text).unwrap();
    }

    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        Self::read(&self.path)
    }

    /// Every file of any folder, by name.
    pub fn read(path: &str) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
        entries
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .collect()
    }
}
