//! Putting a whole session into the sidecar: one commit under its lease. Whatever happens, all of it is there or nothing of it.

use bytes::Bytes;
use clap::Args;
use serde::Serialize;

use super::bundle::{Bundle, Item, Summary};
use crate::{
    cli::{
        Format,
        attach::{Client, Stream},
        context::request_id,
        outcome::{Failed, NO, Outcome, PROTOCOL},
        output::{self, bytes, json, shown},
    },
    proto::v1::{self, OnHeld, attach_request::Op, attach_response::Event, delete_session_request::Mode},
};

/// What one commit takes.
const COMMIT_BYTES: usize = 32 << 20;
const COMMIT_ITEMS: usize = 20_000;
/// Larger values travel in fragments of this size.
const FRAGMENT: usize = 1 << 20;
/// Names of what was passed over that are shown; `--json` has all.
const NAMED: usize = 20;
/// If this process dies, the next try waits no longer than this.
const LEASE_SECONDS: i64 = 10;

type Context = crate::cli::context::Context<Client>;

/// Where to, and how.
#[derive(Args, Debug)]
pub struct Into {
    /// The session's name in Pannier.
    #[arg(long, short, value_name = "NAME")]
    pub session: String,
    /// Pass over files (or keys) of this name; `NAME*` means all that begin so. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub skip: Vec<String>,
    /// Say what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Archive a session of that name that has records, instead of refusing. `pannier sessions restore` brings it back within 7 days.
    #[arg(long)]
    replace: bool,
    /// Take the session from whoever holds it, instead of refusing: its next write is refused.
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    pub format: Format,
}

/// What an import says with `--json`.
#[derive(Serialize)]
struct Imported<'a> {
    namespace: &'a str,
    session: &'a str,
    dry_run: bool,
    /// The session's revision that holds it; none of a dry run.
    revision: Option<u64>,
    /// What would be refused, of a dry run.
    hindrance: Option<String>,
    /// The incarnation that was archived to make room.
    archived_incarnation: Option<u64>,
    #[serde(flatten)]
    summary: Summary,
    skipped: &'a [String],
}

impl Into {
    /// Imports, or says what would be.
    pub async fn run(self, mut context: Context, bundle: Bundle) -> Outcome {
        let summary = Summary::of(&bundle.items);
        check_size(&summary)?;
        let before = self.look(&mut context).await?;
        let mut said = Imported {
            namespace: &context.namespace.clone(),
            session: &self.session,
            dry_run: self.dry_run,
            revision: None,
            hindrance: self.hindrance(&before),
            archived_incarnation: None,
            summary,
            skipped: &bundle.skipped.clone(),
        };
        if self.dry_run {
            return self.say(&said);
        }
        if let Some(hindrance) = said.hindrance {
            return Err(Failed::new(NO, hindrance));
        }
        let written = self.write(&mut context, bundle).await?;
        (said.revision, said.archived_incarnation) = (Some(written.revision), written.archived);
        self.say(&said)?;
        output::note_of_oldest(written.oldest_dropped);
        Ok(())
    }

    async fn look(&self, context: &mut Context) -> Outcome<v1::GetSessionResponse> {
        let request =
            v1::GetSessionRequest { namespace: context.namespace.clone(), session: self.session.clone() };
        Ok(context.client.get_session(context.target.request(request)).await?.into_inner())
    }

    /// Why an import would be refused as things stand.
    fn hindrance(&self, before: &v1::GetSessionResponse) -> Option<String> {
        let info = before.session.as_ref().filter(|_| before.exists)?;
        if let Some(lease) = info.lease.as_ref().filter(|lease| lease.live && !self.take_over) {
            let until = output::instant(lease.expires_at).unwrap_or_default();
            return Some(format!(
                "{} is held by {} until {until}: stop that bot, or take the session with --take-over (SESSION_HELD)",
                shown(&self.session),
                shown(&lease.owner)
            ));
        }
        let records = info.counts.iter().map(|count| count.records).sum();
        (records > 0 && !self.replace).then(|| self.exists(records, info.revision))
    }

    fn exists(&self, records: u64, revision: u64) -> String {
        format!(
            "{} exists already, with {records} records at revision {revision}: --replace makes it an archive first",
            shown(&self.session)
        )
    }

    fn say(&self, said: &Imported<'_>) -> Outcome {
        if self.format.json {
            json(said)?;
        } else if self.dry_run {
            said.summary.print()?;
        }
        let name = shown(said.session);
        let what = format!("{} records, {}", said.summary.records, bytes(said.summary.bytes as u64));
        if !said.skipped.is_empty() {
            let names: Vec<_> = said.skipped.iter().take(NAMED).map(|name| shown(name)).collect();
            let more = if said.skipped.len() > NAMED { " …" } else { "" };
            output::note(&format!("{} passed over: {}{more}", said.skipped.len(), names.join(", ")));
        }
        match (&said.hindrance, said.revision) {
            (Some(hindrance), _) => Err(Failed::new(NO, format!("it would be refused: {hindrance}"))),
            (None, None) => {
                output::note(&format!("{what} would be written to {name}; nothing was"));
                Ok(())
            }
            (None, Some(revision)) => {
                if let Some(incarnation) = said.archived_incarnation {
                    output::note(&format!("what {name} was is an archive now, incarnation {incarnation}"));
                }
                output::note(&format!("{what} are in {name}, at its revision {revision}"));
                Ok(())
            }
        }
    }

    async fn write(&self, context: &mut Context, bundle: Bundle) -> Outcome<Written> {
        let open = v1::Open {
            namespace: context.namespace.clone(),
            session: self.session.clone(),
            owner: format!("pannier import {}", request_id()?),
            on_held: if self.take_over { OnHeld::TakeOver.into() } else { OnHeld::Fail.into() },
            lease_ttl: Some(prost_types::Duration { seconds: LEASE_SECONDS, nanos: 0 }),
            ..v1::Open::default()
        };
        let (mut stream, opened) = Stream::open(&mut context.client, open).await?;
        let records: u64 = opened.counts.iter().map(|count| count.records).sum();
        if records > 0 && !self.replace {
            stream.close().await?;
            return Err(Failed::new(NO, self.exists(records, opened.revision)));
        }
        let mut op_seq = opened.last_op_seq + 1;
        let (mut archived, mut oldest_dropped) = (None, false);
        if records > 0 {
            stream.next_request();
            let clear =
                v1::ClearSession { op_seq, incarnation: opened.incarnation, ..v1::ClearSession::default() };
            stream.send(Op::Clear(clear)).await?;
            let Event::Cleared(cleared) = stream.answer().await? else {
                return Err(Failed::new(PROTOCOL, "the sidecar answered something else than a clear"));
            };
            (archived, oldest_dropped) = (Some(opened.incarnation), cleared.oldest_archive_dropped);
            op_seq += 1;
        }
        let (puts, fragments) = messages(bundle.items);
        match stream.commit(op_seq, puts, fragments, Some(bundle.attributes)).await {
            Ok(committed) => {
                stream.close().await?;
                Ok(Written { revision: committed.revision, archived, oldest_dropped })
            }
            Err(failed) => {
                // What it answers may still be about the commit; the lease goes back all the same.
                let _ = stream.close().await;
                self.undo(context, &opened, archived).await;
                Err(failed)
            }
        }
    }

    /// Puts back what was there. What failed matters more than whether this does.
    async fn undo(&self, context: &mut Context, opened: &v1::Opened, archived: Option<u64>) {
        let (namespace, session) = (context.namespace.clone(), self.session.clone());
        if let Some(incarnation) = archived {
            let request = v1::RestoreSessionRequest { namespace, session, incarnation, replace: true };
            if context.client.restore_session(context.target.request(request)).await.is_err() {
                output::note(&format!(
                    "{} was archived before that, as incarnation {incarnation}: `pannier sessions restore` brings it back",
                    shown(&self.session)
                ));
            }
        } else if opened.created {
            let (mode, incarnation) = (Mode::Shred.into(), opened.incarnation);
            let request = v1::DeleteSessionRequest { namespace, session, mode, incarnation };
            let _ = context.client.delete_session(context.target.request(request)).await;
        }
    }
}

struct Written {
    revision: u64,
    archived: Option<u64>,
    oldest_dropped: bool,
}

/// It must fit into one commit, or it would not be all or nothing.
fn check_size(summary: &Summary) -> Outcome {
    if summary.bytes <= COMMIT_BYTES && summary.records <= COMMIT_ITEMS {
        return Ok(());
    }
    let size = bytes(summary.bytes as u64);
    Err(Failed::new(
        NO,
        format!(
            "{} records in {size} ({} bytes) are more than one commit takes: at most {COMMIT_ITEMS} records and 32 MiB",
            summary.records, summary.bytes
        ),
    ))
}

fn messages(items: Vec<Item>) -> (Vec<v1::Put>, Vec<v1::Fragment>) {
    let (mut puts, mut fragments) = (Vec::new(), Vec::new());
    for Item { ty, id, stored, .. } in items {
        let (kind, value) = (stored.kind.into(), Bytes::from(stored.value));
        if value.len() <= FRAGMENT {
            let record = v1::Record { r#type: ty, id, kind, value, revision: 0 };
            puts.push(v1::Put { record: Some(record), if_revision: None });
            continue;
        }
        for offset in (0..value.len()).step_by(FRAGMENT) {
            fragments.push(v1::Fragment {
                r#type: ty.clone(),
                id: id.clone(),
                kind,
                offset: offset as u64,
                total: value.len() as u64,
                data: value.slice(offset..value.len().min(offset + FRAGMENT)),
                ..v1::Fragment::default()
            });
        }
    }
    (puts, fragments)
}
