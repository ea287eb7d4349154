//! `pannier doctor`: what would keep a sidecar from running well, and the next command for each.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
};

use clap::Args;
use serde::Serialize;

use super::{
    Format,
    connect::Target,
    outcome::{CONFIG, Failed, Outcome, UNAVAILABLE},
    output,
};
use crate::{
    config::{Config, Flags},
    doctor,
    proto::v1::{DoctorRequest, admin_service_client::AdminServiceClient, doctor_response::finding},
};

/// Looks at everything that a start needs, without changing anything, and says what it found and what to do.
///
/// Takes the flags of `serve` and checks by itself: configuration, keyring, socket, tokens and certificates, ports, data directory and disk,
/// and Valkey with its database. Exits with 0 (all well, or warnings only), 78 (something must be put right) or 69 (Valkey, or the
/// sidecar, does not answer).
#[derive(Args, Debug)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  pannier doctor                                    as `pannier serve` without flags would run
  pannier doctor --valkey-url-file /run/secrets/valkey --env prod
  pannier doctor --live                             asks the running sidecar
  pannier doctor --json | jq '.sections[].findings[] | select(.level != \"ok\")'"
)]
pub struct Arguments {
    #[command(flatten)]
    flags: Flags,
    /// Ask the running sidecar instead: what it found at Valkey last, and what it has in use.
    #[arg(long)]
    live: bool,
    /// With --live: the sidecar, unix:/run/pannier/pannier.sock or host:port [env: `PANNIER_ADDRESS`, then `PANNIER_SOCKET`; default:
    /// --socket, then the default sockets]
    #[arg(long, value_name = "ADDRESS", requires = "live")]
    address: Option<String>,
    #[command(flatten)]
    format: Format,
}

/// One line of what is printed.
#[derive(Serialize)]
struct Line {
    level: &'static str,
    check: String,
    found: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    next: String,
}

#[derive(Serialize)]
struct Section {
    name: String,
    findings: Vec<Line>,
}

#[derive(Serialize)]
struct Told {
    ok: usize,
    warn: usize,
    fail: usize,
    unknown: usize,
    sections: Vec<Section>,
}

const OK: &str = "ok";
const UNKNOWN: &str = "unknown";
const WARN: &str = "warn";
const FAIL: &str = "fail";

pub async fn run(arguments: Arguments) -> Outcome {
    let sections = if arguments.live {
        let socket = arguments.flags.get("socket").map(str::to_owned);
        ask(&Target::at(arguments.address.or(socket))).await?
    } else {
        look(&arguments.flags).await
    };
    let count = |level: &str| {
        sections.iter().flat_map(|section| &section.findings).filter(|line| line.level == level).count()
    };
    let told =
        Told { ok: count(OK), warn: count(WARN), fail: count(FAIL), unknown: count(UNKNOWN), sections };
    if arguments.format.json {
        output::json(&told)?;
    } else {
        output::data(&tree(&told, io::stdout().is_terminal()))?;
    }
    let failed = |unreachable: bool| {
        told.sections
            .iter()
            .flat_map(|section| &section.findings)
            .any(|line| line.level == FAIL && (line.check == doctor::CONNECTION) == unreachable)
    };
    // What was found has been said.
    if failed(false) {
        return Err(Failed::new(CONFIG, ""));
    }
    if failed(true) { Err(Failed::new(UNAVAILABLE, "")) } else { Ok(()) }
}

async fn look(flags: &Flags) -> Vec<Section> {
    let diagnosis = doctor::examine(Config::from_process(flags)).await;
    let line = |finding: crate::valkey::Finding| Line {
        level: match finding.level {
            crate::valkey::Level::Ok => OK,
            crate::valkey::Level::Unknown => UNKNOWN,
            crate::valkey::Level::Warn => WARN,
            crate::valkey::Level::Fail => FAIL,
        },
        check: finding.check.to_owned(),
        found: finding.found,
        next: finding.todo.unwrap_or_default(),
    };
    let sections = diagnosis.sections.into_iter();
    sections
        .map(|section| Section {
            name: section.name.to_owned(),
            findings: section.findings.into_iter().map(line).collect(),
        })
        .collect()
}

async fn ask(target: &Target) -> Outcome<Vec<Section>> {
    let mut admin = AdminServiceClient::new(target.channel()?);
    let mut sections: Vec<Section> = Vec::new();
    for finding in admin.doctor(target.request(DoctorRequest {})).await?.into_inner().findings {
        let level = match finding.level() {
            finding::Level::Ok => OK,
            finding::Level::Warn => WARN,
            finding::Level::Fail => FAIL,
            finding::Level::Unknown | finding::Level::Unspecified => UNKNOWN,
        };
        if sections.last().is_none_or(|section| section.name != finding.section) {
            sections.push(Section { name: finding.section, findings: Vec::new() });
        }
        let line = Line { level, check: finding.check, found: finding.found, next: finding.next };
        if let Some(section) = sections.last_mut() {
            section.findings.push(line);
        }
    }
    Ok(sections)
}

/// For eyes: a heading for each thing, its findings below, what to do below those.
fn tree(told: &Told, terminal: bool) -> String {
    let colours = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let paint = |level: &str| {
        let code = match level {
            OK => "32",
            WARN => "33",
            FAIL => "1;31",
            _ => "36",
        };
        let padded = format!("{level:<7}");
        if colours { format!("\x1b[{code}m{padded}\x1b[0m") } else { padded }
    };
    let mut out = String::new();
    for section in &told.sections {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", section.name);
        let width = section.findings.iter().map(|line| line.check.chars().count()).max().unwrap_or(0);
        for line in &section.findings {
            let _ = writeln!(
                out,
                "  {} {:width$}  {}",
                paint(line.level),
                line.check,
                output::shown(&line.found)
            );
            if !line.next.is_empty() {
                let _ = writeln!(out, "  {:7} {:width$}  → {}", "", "", output::shown(&line.next));
            }
        }
    }
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let _ = write!(
        out,
        "\n{}, {}, {} ok, {} unknown",
        count(told.fail, "failure"),
        count(told.warn, "warning"),
        told.ok,
        told.unknown
    );
    out
}
