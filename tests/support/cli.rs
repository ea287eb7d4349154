//! The command line against one running sidecar.

use std::process::Output;

use super::{Sidecar, pannier};

/// `pannier COMMAND … --address …`.
pub struct Cli<'a> {
    sidecar: &'a Sidecar,
    command: &'a [&'a str],
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

impl<'a> Cli<'a> {
    /// `command` stands before the arguments of each call.
    pub fn of(sidecar: &'a Sidecar, command: &'a [&'a str]) -> Self {
        Self { sidecar, command }
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        pannier(&[self.command, arguments, &["--address", &self.sidecar.address()]].concat())
    }

    /// What it prints as data. It succeeds.
    pub fn data(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What it says to a person. It succeeds and prints no data.
    pub fn note(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "stdout is data only");
        stderr(&output)
    }

    /// What it prints with `--json`. It succeeds.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.data(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Its exit code and what it says.
    pub fn refused(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        (output.status.code().unwrap(), stderr(&output))
    }
}
