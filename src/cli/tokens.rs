//! `pannier tokens`: who may call over TCP. Works on the file; a sidecar that runs sees the change within a second.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;

use super::{
    Format,
    outcome::{Failed, NO, Outcome, USAGE},
    output::{self, json, table},
};
use crate::{
    access::{Entry, Scopes, TokenFile, check_name, new_token},
    config::{ConfigError, process_environment},
};

/// Makes, lists and removes the tokens of a sidecar.
///
/// The file holds hashes only. To replace a token without an interruption, add another one, give it to the clients, and remove the
/// old one: all tokens of the file are valid at once.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier tokens add bot-1 --scope namespace:bot-1 --token-file /etc/pannier/tokens.toml > bot-1.token
  pannier tokens add reminders --scope schedule,cap --scope namespace:shop --expires 90d --token-file …
  pannier tokens list --json
  pannier tokens remove bot-1")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// The sidecar's file of tokens, as for `serve` [env: `PANNIER_TOKEN_FILE`]
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a token and prints it, this once. The file is made when missing, with mode 0600.
    Add {
        /// What it is called in lists and logs: 1..64 letters, digits, `-`, `_` and `.`
        name: String,
        /// namespace:NAME (one or more; none: all), session, blob, dedup, conversation, cap, schedule (none: all six), all, admin
        #[arg(long, required = true, value_delimiter = ',', value_name = "SCOPE")]
        scope: Vec<String>,
        /// When it ends: 90d, 12h, or an instant such as 2027-01-31T12:00:00Z. Default: never
        #[arg(long, value_name = "WHEN")]
        expires: Option<String>,
        #[command(flatten)]
        format: Format,
    },
    /// Lists the tokens: names, scopes and times, no hashes.
    List {
        #[command(flatten)]
        format: Format,
    },
    /// Removes a token. Its streams end, and its next call is refused.
    Remove {
        /// Its name.
        name: String,
    },
}

/// A token as it is listed.
#[derive(Serialize)]
struct Listed {
    name: String,
    scopes: Vec<String>,
    created: Option<String>,
    expires: Option<String>,
    expired: bool,
}

/// A token as it is made.
#[derive(Serialize)]
struct Made<'a> {
    name: &'a str,
    token: &'a str,
    scopes: &'a [String],
    expires: Option<&'a String>,
}

pub fn run(arguments: Arguments) -> Outcome {
    let path = arguments
        .token_file
        .or_else(|| {
            process_environment("PANNIER_TOKEN_FILE").filter(|path| !path.is_empty()).map(PathBuf::from)
        })
        .ok_or_else(|| Failed::new(USAGE, "name the file of tokens with --token-file"))?;
    match arguments.command {
        Command::Add { name, scope, expires, format } => {
            check_name(&name).map_err(usage)?;
            let scopes = Scopes::parse(&scope).map_err(usage)?;
            let expires = expires.map(|when| instant(&when)).transpose()?.map(|at| at.to_string());
            let (token, sha256) = new_token()?;
            let entry = Entry {
                name: name.clone(),
                sha256,
                scopes: scopes.given().to_vec(),
                created: Some(now().to_string()),
                expires,
            };
            TokenFile::edit(&path, |file| {
                if file.entries.iter().any(|entry| entry.name == name) {
                    return Err(ConfigError(format!(
                        "there is a token `{name}`; to replace it, add one of another name, then remove this one"
                    )));
                }
                file.entries.push(entry.clone());
                Ok(true)
            })?;
            output::note(&format!(
                "added `{name}` ({scopes}) to {}. The token is shown this once: keep it in a file of mode 0600 and name that with \
                 PANNIER_TOKEN_FILE where the client runs",
                path.display()
            ));
            if format.json {
                let expires = entry.expires.as_ref();
                return json(&Made { name: &name, token: &token, scopes: &entry.scopes, expires });
            }
            output::data(&token)
        }
        Command::List { format } => {
            let tokens: Vec<Listed> = TokenFile::read(&path)?.entries.into_iter().map(listed).collect();
            if format.json {
                return json(&tokens);
            }
            let row = |token: &Listed| {
                let expires = match &token.expires {
                    Some(at) if token.expired => format!("{at} (expired)"),
                    other => output::or_dash(other.as_ref()),
                };
                vec![
                    token.name.clone(),
                    token.scopes.iter().map(|scope| output::shown(scope)).collect::<Vec<_>>().join(", "),
                    output::or_dash(token.created.as_ref()),
                    expires,
                ]
            };
            table(&["name", "scopes", "created", "expires"], tokens.iter().map(row).collect())
        }
        Command::Remove { name } => {
            let mut found = false;
            TokenFile::edit(&path, |file| {
                let before = file.entries.len();
                file.entries.retain(|entry| entry.name != name);
                found = file.entries.len() < before;
                Ok(found)
            })?;
            if !found {
                return Err(Failed::new(NO, format!("there is no token `{name}` in {}", path.display())));
            }
            output::note(&format!("removed `{name}` from {}", path.display()));
            Ok(())
        }
    }
}

fn listed(entry: Entry) -> Listed {
    let expired = entry.expiry().is_ok_and(|at| at.is_some_and(|at| at <= Timestamp::now()));
    Listed { name: entry.name, scopes: entry.scopes, created: entry.created, expires: entry.expires, expired }
}

fn usage(what: String) -> Failed {
    Failed::new(USAGE, what)
}

fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// A span from now, or an instant; not in the past.
fn instant(text: &str) -> Outcome<Timestamp> {
    let wrong = || {
        Failed::new(
            USAGE,
            format!("--expires `{text}`: 90d, 12h or an instant to come, such as 2027-01-31T12:00:00Z"),
        )
    };
    let at = if let Ok(at) = text.parse::<Timestamp>() {
        at
    } else {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let seconds = match unit {
            "d" => 86_400,
            "h" => 3_600,
            "m" | "min" => 60,
            "s" => 1,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let span = Duration::from_secs(number.checked_mul(seconds).ok_or_else(wrong)?);
        now().checked_add(span).map_err(|_| wrong())?
    };
    if at <= Timestamp::now() { Err(wrong()) } else { Ok(at) }
}
