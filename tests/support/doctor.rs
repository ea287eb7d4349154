//! `pannier doctor` and what it found.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;

use super::{Valkey, pannier, pannier_env, path_str, short_temp_dir};

/// What one run said.
pub struct Told {
    pub exit: i32,
    pub json: serde_json::Value,
    pub text: String,
}

/// Level, what was found, what to do.
pub type Line = (String, String, String);

impl Told {
    pub fn lines(&self, section: &str, check: &str) -> Vec<Line> {
        let text = |line: &serde_json::Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let of = |one: &serde_json::Value| one["name"] == section;
        self.json["sections"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| of(one))
            .flat_map(|one| one["findings"].as_array().unwrap())
            .filter(|line| line["check"] == check)
            .map(|line| (text(line, "level"), text(line, "found"), text(line, "next")))
            .collect()
    }

    /// The worst of a check.
    pub fn line(&self, section: &str, check: &str) -> Line {
        let rank = |level: &str| ["ok", "unknown", "warn", "fail"].iter().position(|one| *one == level);
        let lines = self.lines(section, check);
        lines
            .into_iter()
            .max_by_key(|(level, ..)| rank(level))
            .unwrap_or_else(|| panic!("no {section}/{check} in\n{}", self.text))
    }

    pub fn count(&self, level: &str) -> u64 {
        self.json[level].as_u64().unwrap()
    }

    /// It is of this level, says this, and proposes that.
    #[track_caller]
    pub fn says(&self, section: &str, check: &str, level: &str, found: &str, next: &str) {
        let line = self.line(section, check);
        // The worst of a check is of this level, and one of that level says so.
        let says = |line: &Line| line.0 == level && line.1.contains(found) && line.2.contains(next);
        let fits = line.0 == level && self.lines(section, check).iter().any(says);
        assert!(
            fits,
            "{section}/{check} is {line:?}, not {level} {found:?} {next:?}; all of it:\n{}",
            self.text
        );
    }
}

/// A directory with a keyring, and the arguments that a sidecar with it would get.
pub struct Home {
    pub dir: Arc<TempDir>,
    pub args: Vec<String>,
    pub envs: Vec<(String, String)>,
}

impl Home {
    /// For this Valkey, with a keyring.
    pub fn of(valkey: &Valkey) -> Self {
        let home = Self::bare(&["--valkey-url", &valkey.url(), "--env", "test"]);
        assert!(pannier(&["keys", "init", "--keyring", path_str(&home.keyring())]).status.success());
        home
    }

    pub fn bare(args: &[&str]) -> Self {
        let dir = short_temp_dir();
        Self { dir, args: args.iter().map(|arg| (*arg).to_owned()).collect(), envs: Vec::new() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn keyring(&self) -> PathBuf {
        self.path("keyring.toml")
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let socket = self.path("run/pannier.sock");
        let mut arguments = self.args.clone();
        arguments.extend(
            ["--socket", path_str(&socket), "--data-dir", path_str(&self.path("data"))].map(Into::into),
        );
        if self.keyring().exists() {
            arguments.extend(["--keyring", path_str(&self.keyring())].map(Into::into));
        }
        // The last one counts.
        arguments.extend(more.iter().map(|arg| (*arg).to_owned()));
        arguments
    }

    /// Runs it, as a person reads it and as JSON, which must say the same, and looks whether anything has changed.
    pub fn doctor(&self, more: &[&str]) -> Told {
        let before = snapshot(self.dir.path());
        let arguments = self.arguments(more);
        let mut words: Vec<&str> = vec!["doctor"];
        words.extend(arguments.iter().map(String::as_str));
        let envs: Vec<(&str, &str)> = self.envs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let text = pannier_env(&words, &envs);
        words.push("--json");
        let json = pannier_env(&words, &envs);
        assert_eq!(text.status.code(), json.status.code());
        assert_eq!(before, snapshot(self.dir.path()), "doctor has changed something");
        let shown = String::from_utf8(text.stdout).unwrap() + &String::from_utf8_lossy(&text.stderr);
        let json: serde_json::Value = serde_json::from_slice(&json.stdout)
            .unwrap_or_else(|error| panic!("{error}: {shown} {}", String::from_utf8_lossy(&json.stderr)));
        let findings =
            json["sections"].as_array().unwrap().iter().flat_map(|one| one["findings"].as_array().unwrap());
        for finding in findings {
            let check = finding["check"].as_str().unwrap();
            assert!(shown.contains(check), "{check} is not in\n{shown}");
            assert!(finding["level"] != "fail" || !finding["found"].as_str().unwrap().is_empty());
        }
        Told { exit: text.status.code().unwrap(), json, text: shown }
    }
}

/// Every file and directory: what it is, who may use it, and what is in it.
pub fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (u32, u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        let content = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if found.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        all.insert(path, (found.permissions().mode(), found.uid(), content));
    }
    all
}
