//! `pannier config show`.

use clap::{Args, Subcommand};

use super::{
    Format,
    outcome::Outcome,
    output::{json, table},
};
use crate::config::{Config, Flags};

/// Shows what is set.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints each value and where it came from, without secrets. Takes the flags of `serve`.
    Show {
        #[command(flatten)]
        flags: Flags,
        #[command(flatten)]
        format: Format,
    },
}

pub fn run(arguments: &Arguments) -> Outcome {
    let Command::Show { flags, format } = &arguments.command;
    print(&Config::from_process(flags)?, format.json)
}

/// The effective configuration.
pub fn print(config: &Config, as_json: bool) -> Outcome {
    if as_json {
        return json(&config.shown);
    }
    let row =
        |shown: &crate::config::Shown| vec![shown.name.to_owned(), shown.value.clone(), shown.origin.clone()];
    table(&["setting", "value", "from"], config.shown.iter().map(row).collect())
}
