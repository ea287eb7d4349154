//! `pannier keys status`: the file's keys, how the running sidecar uses them, what each wraps, and who else runs.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::Place;
use crate::{
    cli::{
        Format,
        connect::Target,
        outcome::Outcome,
        output::{self, instant, json, or_dash, shown, table},
    },
    crypto::{Keyring, KeyringError},
    proto::v1::{self, admin_service_client::AdminServiceClient},
};

/// Lists the keys, never a secret: their states, what each wraps, and which sidecars know them.
///
/// States are those of the file here and of the running sidecar, where there is one; it also counts. A large database takes longer
/// than --timeout allows: give more.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier keys status
  pannier keys status --json --timeout 60")]
pub struct Status {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Shown {
    keys: Vec<Key>,
    /// None: no sidecar was there to ask.
    sidecars: Option<Vec<Sidecar>>,
    damaged: Option<u64>,
}

#[derive(Clone, Default, Serialize)]
struct Key {
    id: u32,
    /// In the file.
    state: Option<&'static str>,
    /// In the running sidecar.
    in_use: Option<&'static str>,
    owners: Option<u64>,
    sessions: Option<u64>,
    archives: Option<u64>,
    blobs: Option<u64>,
    namespaces: Option<u64>,
}

#[derive(Serialize)]
struct Sidecar {
    name: String,
    id: String,
    version: String,
    started_at: Option<String>,
    seen_at: Option<String>,
    /// The one that answered.
    own: bool,
    keys: Vec<Known>,
}

#[derive(Serialize)]
struct Known {
    id: u32,
    state: &'static str,
}

fn word(state: v1::KeyState) -> &'static str {
    match state {
        v1::KeyState::Primary => "primary",
        v1::KeyState::DecryptOnly => "decrypt_only",
        v1::KeyState::Disabled => "disabled",
        v1::KeyState::Unspecified => "unknown",
    }
}

impl Status {
    pub async fn run(self) -> Outcome {
        let (path, _) = self.place.find()?;
        let file = Keyring::load(&path);
        let mut keys: BTreeMap<u32, Key> = BTreeMap::new();
        for (id, state) in file.as_ref().map(Keyring::ids).unwrap_or_default() {
            keys.insert(id, Key { id, state: Some(state.as_str()), ..Key::default() });
        }
        let asked = match self.target.channel() {
            Ok(channel) => {
                let mut client = AdminServiceClient::new(channel);
                let status =
                    client.key_status(self.target.request(v1::KeyStatusRequest {})).await?.into_inner();
                let sidecars = client.list_sidecars(self.target.request(v1::ListSidecarsRequest {})).await?;
                Some((status, sidecars.into_inner().sidecars))
            }
            // The file alone is worth showing too.
            Err(failed) if failed.is_unavailable() => None,
            Err(failed) => return Err(failed),
        };
        let (sidecars, damaged) = match asked {
            Some((status, sidecars)) => {
                for used in status.keys {
                    let key = keys.entry(used.id).or_insert(Key { id: used.id, ..Key::default() });
                    key.in_use = Some(word(used.state()));
                    key.owners = Some(used.owners);
                    key.sessions = Some(used.sessions);
                    key.archives = Some(used.archives);
                    key.blobs = Some(used.blobs);
                    key.namespaces = Some(used.namespaces);
                }
                (Some(sidecars.into_iter().map(Sidecar::from).collect()), Some(status.damaged))
            }
            None => (None, None),
        };
        let shown = Shown { keys: keys.into_values().collect(), sidecars, damaged };
        notes(&shown, file.err(), &path.display().to_string())?;
        if self.format.json { json(&shown) } else { tables(&shown) }
    }
}

fn notes(shown: &Shown, file: Option<KeyringError>, path: &str) -> Outcome {
    if let Some(error) = file {
        if shown.sidecars.is_none() {
            return Err(error.into());
        }
        output::note(&format!("the file is not shown: {error}"));
    } else if shown.sidecars.is_some() && shown.keys.iter().any(|key| key.state != key.in_use) {
        output::note(&format!("{path} is not what the sidecar uses: send it a SIGHUP, or give --keyring"));
    }
    if shown.sidecars.is_none() {
        output::note("no sidecar runs here: only the file is shown (another place is named with --address)");
    }
    if shown.damaged.is_some_and(|damaged| damaged > 0) {
        output::note("some root keys are damaged: `pannier keys rewrap` names them");
    }
    Ok(())
}

fn tables(shown_: &Shown) -> Outcome {
    let text = |state: Option<&'static str>| state.unwrap_or("-").to_owned();
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    table(
        &["id", "file", "in use", "owners", "sessions", "archives", "blobs", "namespaces"],
        shown_
            .keys
            .iter()
            .map(|key| {
                vec![
                    key.id.to_string(),
                    text(key.state),
                    text(key.in_use),
                    count(key.owners),
                    count(key.sessions),
                    count(key.archives),
                    count(key.blobs),
                    count(key.namespaces),
                ]
            })
            .collect(),
    )?;
    let Some(sidecars) = &shown_.sidecars else { return Ok(()) };
    output::data("")?;
    table(
        &["sidecar", "version", "started", "seen", "keys"],
        sidecars
            .iter()
            .map(|sidecar| {
                let keys: Vec<_> =
                    sidecar.keys.iter().map(|key| format!("{} {}", key.id, key.state)).collect();
                vec![
                    shown(if sidecar.name.is_empty() { &sidecar.id } else { &sidecar.name }),
                    shown(&sidecar.version),
                    or_dash(sidecar.started_at.as_ref()),
                    or_dash(sidecar.seen_at.as_ref()),
                    keys.join(", "),
                ]
            })
            .collect(),
    )
}

impl From<v1::SidecarInfo> for Sidecar {
    fn from(info: v1::SidecarInfo) -> Self {
        Self {
            keys: info.keys.iter().map(|key| Known { id: key.id, state: word(key.state()) }).collect(),
            name: info.name,
            id: info.id,
            version: info.version,
            started_at: instant(info.started_at),
            seen_at: instant(info.seen_at),
            own: info.own,
        }
    }
}
