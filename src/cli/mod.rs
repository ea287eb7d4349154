//! The command line. stdout is data only; everything for a person goes to stderr; exit codes are those of sysexits.

mod adopt_branch;
mod attach;
mod blobs;
mod caps;
mod completions;
mod config;
mod connect;
mod context;
mod conversations;
mod doctor;
mod healthcheck;
mod keys;
mod listing;
mod migrate;
mod moving;
mod outcome;
mod output;
mod queue;
mod serve;
mod sessions;
mod stop;
mod tokens;

use std::{ffi::OsString, process::ExitCode};

use clap::{Args, Parser, Subcommand, error::ErrorKind};

use outcome::{Outcome, USAGE};

/// A sidecar that carries the state of a WhatsApp bot in Valkey, encrypted, behind gRPC.
#[derive(Debug, Parser)]
#[command(name = "pannier", version, args_override_self = true, propagate_version = true, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  pannier serve                                    an embedded Valkey, data in your data directory
  PANNIER_VALKEY_URL=rediss://… pannier serve --env prod
  pannier sessions list                            what a running sidecar holds
  pannier serve --check-config                     what is set, and where each value came from
  pannier doctor                                   what would keep it from running well";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Stop(stop::Arguments),
    Doctor(doctor::Arguments),
    Sessions(sessions::Arguments),
    Import(moving::ImportArguments),
    Export(moving::ExportArguments),
    Blobs(blobs::Arguments),
    Queue(queue::Arguments),
    Crons(queue::crons::Arguments),
    Conversations(conversations::Arguments),
    Caps(caps::Arguments),
    Keys(keys::Arguments),
    Tokens(tokens::Arguments),
    Migrate(Box<migrate::Arguments>),
    AdoptBranch(Box<adopt_branch::Arguments>),
    Config(config::Arguments),
    Healthcheck(healthcheck::Arguments),
    Completions(completions::Arguments),
}

/// How a command prints.
#[derive(Args, Clone, Copy, Debug)]
struct Format {
    /// JSON on stdout instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs one command line, program name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // To a pipe that is closed nobody listens.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(USAGE),
            };
        }
    };
    let outcome = match cli.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Stop(arguments) => in_runtime(stop::run(arguments)),
        Command::Doctor(arguments) => in_runtime(doctor::run(arguments)),
        Command::Sessions(arguments) => in_runtime(sessions::run(arguments)),
        Command::Import(arguments) => in_runtime(moving::import(arguments)),
        Command::Export(arguments) => in_runtime(moving::export(arguments)),
        Command::Blobs(arguments) => in_runtime(blobs::run(arguments)),
        Command::Queue(arguments) => in_runtime(queue::run(arguments)),
        Command::Crons(arguments) => in_runtime(queue::crons::run(arguments)),
        Command::Conversations(arguments) => in_runtime(conversations::run(arguments)),
        Command::Caps(arguments) => in_runtime(caps::run(arguments)),
        Command::Keys(arguments) => in_runtime(keys::run(arguments)),
        Command::Tokens(arguments) => tokens::run(arguments),
        Command::Migrate(arguments) => in_runtime(migrate::run(*arguments)),
        Command::AdoptBranch(arguments) => in_runtime(adopt_branch::run(*arguments)),
        Command::Config(arguments) => config::run(&arguments),
        Command::Healthcheck(arguments) => in_runtime(healthcheck::run(arguments)),
        Command::Completions(arguments) => completions::run(&arguments),
    };
    outcome::exit(outcome)
}

/// The command alone, for completions.
fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

fn in_runtime(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}
