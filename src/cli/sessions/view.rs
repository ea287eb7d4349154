//! Sessions as JSON and as rows. Instants are RFC 3339 in UTC.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use crate::{
    cli::output::{bytes, instant, or_dash, shown},
    proto::v1,
};

/// A live session.
#[allow(clippy::struct_field_names)] // the names on the wire
#[derive(Serialize)]
pub struct Session {
    pub namespace: String,
    pub session: String,
    pub incarnation: u64,
    pub revision: u64,
    pub fence: u64,
    pub records: u64,
    pub bytes: u64,
    pub types: Vec<Type>,
    pub paired: Option<bool>,
    pub next_pre_key_id: Option<u64>,
    pub labels: BTreeMap<String, String>,
    pub lease: Option<Lease>,
    pub created_at: Option<String>,
    pub last_write_at: Option<String>,
}

/// Records of one type.
#[allow(clippy::struct_field_names)]
#[derive(Serialize)]
pub struct Type {
    pub r#type: String,
    pub records: u64,
    pub bytes: u64,
}

/// Who holds it.
#[derive(Serialize)]
pub struct Lease {
    pub owner: String,
    pub fence: u64,
    pub live: bool,
    pub expires_at: Option<String>,
}

/// A soft-deleted incarnation.
#[derive(Serialize)]
pub struct Archive {
    pub namespace: String,
    pub session: String,
    pub incarnation: u64,
    pub revision: u64,
    pub records: u64,
    pub bytes: u64,
    pub types: Vec<Type>,
    pub deleted_at: Option<String>,
    pub purge_at: Option<String>,
}

/// Everything of one name.
#[derive(Serialize)]
pub struct Detail {
    pub session: Option<Session>,
    pub archives: Vec<Archive>,
}

fn types(counts: Vec<v1::TypeCount>) -> (u64, u64, Vec<Type>) {
    let types: Vec<Type> = counts
        .into_iter()
        .map(|count| Type { r#type: count.r#type, records: count.records, bytes: count.bytes })
        .collect();
    (types.iter().map(|t| t.records).sum(), types.iter().map(|t| t.bytes).sum(), types)
}

impl From<v1::SessionInfo> for Session {
    fn from(info: v1::SessionInfo) -> Self {
        let (records, bytes, types) = types(info.counts);
        let attributes = info.attributes.unwrap_or_default();
        Self {
            namespace: info.namespace,
            session: info.session,
            incarnation: info.incarnation,
            revision: info.revision,
            fence: info.fence,
            records,
            bytes,
            types,
            paired: attributes.paired,
            next_pre_key_id: attributes.next_pre_key_id,
            labels: attributes.labels.into_iter().collect(),
            lease: info.lease.map(|lease| Lease {
                owner: lease.owner,
                fence: lease.fence,
                live: lease.live,
                expires_at: instant(lease.expires_at),
            }),
            created_at: instant(info.created_at),
            last_write_at: instant(info.last_write_at),
        }
    }
}

impl From<v1::ArchiveInfo> for Archive {
    fn from(info: v1::ArchiveInfo) -> Self {
        let (records, bytes, types) = types(info.counts);
        Self {
            namespace: info.namespace,
            session: info.session,
            incarnation: info.incarnation,
            revision: info.revision,
            records,
            bytes,
            types,
            deleted_at: instant(info.deleted_at),
            purge_at: instant(info.purge_at),
        }
    }
}

impl From<v1::GetSessionResponse> for Detail {
    fn from(found: v1::GetSessionResponse) -> Self {
        Self {
            session: found.session.filter(|_| found.exists).map(Session::from),
            archives: found.archives.into_iter().map(Archive::from).collect(),
        }
    }
}

fn yes_no(value: Option<bool>) -> String {
    value.map_or("-", |value| if value { "yes" } else { "no" }).to_owned()
}

impl Session {
    /// As `list` shows it.
    pub fn row(&self) -> Vec<String> {
        vec![
            shown(&self.session),
            yes_no(self.paired),
            self.revision.to_string(),
            self.records.to_string(),
            bytes(self.bytes),
            self.lease.as_ref().map_or_else(|| "free".to_owned(), Lease::text),
            or_dash(self.last_write_at.as_ref()),
        ]
    }
}

impl Lease {
    fn text(&self) -> String {
        let state = if self.live { "held by" } else { "lapsed, was" };
        format!("{state} {}", shown(&self.owner))
    }
}

impl Archive {
    /// As `deleted` shows it.
    pub fn row(&self) -> Vec<String> {
        vec![
            shown(&self.session),
            self.incarnation.to_string(),
            self.revision.to_string(),
            self.records.to_string(),
            bytes(self.bytes),
            or_dash(self.deleted_at.as_ref()),
            or_dash(self.purge_at.as_ref()),
        ]
    }
}

impl Detail {
    /// As `show` prints it.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{name:<14}{value}");
        };
        if let Some(session) = &self.session {
            line("session", shown(&session.session));
            line("namespace", shown(&session.namespace));
            line("paired", yes_no(session.paired));
            line("revision", session.revision.to_string());
            line("incarnation", session.incarnation.to_string());
            line("lease", session.lease.as_ref().map_or_else(|| "free".to_owned(), Lease::text));
            if let Some(lease) = session.lease.as_ref().filter(|lease| lease.live) {
                line("  until", or_dash(lease.expires_at.as_ref()));
            }
            line("created", or_dash(session.created_at.as_ref()));
            line("last write", or_dash(session.last_write_at.as_ref()));
            line("records", format!("{} in {}", session.records, bytes(session.bytes)));
            for count in &session.types {
                line(
                    "",
                    format!("{:>8}  {:>10}  {}", count.records, bytes(count.bytes), shown(&count.r#type)),
                );
            }
            for (name, value) in &session.labels {
                line("label", format!("{} = {}", shown(name), shown(value)));
            }
        } else {
            line("session", "deleted; only archives are left".to_owned());
        }
        for archive in &self.archives {
            let text = format!(
                "incarnation {}: {} records, deleted {}, gone for good {}",
                archive.incarnation,
                archive.records,
                or_dash(archive.deleted_at.as_ref()),
                or_dash(archive.purge_at.as_ref())
            );
            line("archive", text);
        }
        out.trim_end().to_owned()
    }
}
