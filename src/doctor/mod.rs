//! `pannier doctor`: looks at everything that a start would need, and says what it found and what to do. It takes the flags of `serve`
//! and changes nothing: no file, no directory, no key.

mod access;
mod data;
mod files;
mod server;

use serde::Serialize;

use crate::{
    config::{Config, ConfigError},
    valkey::{Finding, Level, Report},
};

/// What was found of one thing.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// `keyring`, `socket`, `valkey` …
    pub name: &'static str,
    /// In the order of looking.
    pub findings: Vec<Finding>,
}

/// Everything that was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Diagnosis {
    /// In the order of looking.
    pub sections: Vec<Section>,
}

/// The check that says that something does not answer: all else about it is not known then.
pub const CONNECTION: &str = "connection";

impl Diagnosis {
    /// Adds what was found of one thing, if it is anything.
    pub fn add(&mut self, name: &'static str, report: Report) {
        if !report.findings.is_empty() {
            self.sections.push(Section { name, findings: report.findings });
        }
    }

    /// All findings.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.sections.iter().flat_map(|section| &section.findings)
    }

    /// How many are of this level.
    pub fn count(&self, level: Level) -> usize {
        self.findings().filter(|finding| finding.level == level).count()
    }

    /// Whether a person must put something right.
    pub fn is_broken(&self) -> bool {
        self.findings().any(|finding| finding.level == Level::Fail && finding.check != CONNECTION)
    }

    /// Whether something does not answer.
    pub fn is_unreachable(&self) -> bool {
        self.findings().any(|finding| finding.level == Level::Fail && finding.check == CONNECTION)
    }
}

/// Looks at everything, as far as it can be looked at.
pub async fn examine(config: Result<Config, ConfigError>) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    let mut configuration = Report::default();
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            let todo = "put it right, and run doctor again: nothing else was looked at";
            configuration.add(Level::Fail, "settings", error.0, todo);
            diagnosis.add("configuration", configuration);
            return diagnosis;
        }
    };
    let given = config.shown.iter().filter(|shown| shown.origin != "default").count();
    let found = format!("{given} given, the rest at their defaults");
    configuration.add(Level::Ok, "settings", found, "");
    // An environment may be shared with other uses: no fault.
    for shown in config.shown.iter().filter(|shown| shown.origin.ends_with("without effect here")) {
        configuration.add(Level::Ok, "settings", format!("{} with the Valkey in use", shown.origin), "");
    }
    files::descriptors(&mut configuration);
    diagnosis.add("configuration", configuration);

    let (keyring, found) = files::keyring(&config);
    diagnosis.add("keyring", found);
    let (listening, found) = files::socket(&config.socket).await;
    diagnosis.add("socket", found);
    diagnosis.add("access", access::look(&config, listening).await);
    let (embedded, found) = data::look(&config).await;
    diagnosis.add("data directory", found);
    diagnosis.add("valkey", server::look(&config, keyring.as_ref(), embedded).await);
    diagnosis
}
