//! Reading a whole session as it was at one revision, without its lease, so that no bot is disturbed: all records are read,
//! and if the session was written to meanwhile, they are read again.

use std::{collections::BTreeMap, time::Duration};

use indicatif::ProgressBar;

use super::{bundle::Item, names, value::Stored};
use crate::{
    cli::{
        attach::{Client, Stream},
        context::request_id,
        outcome::{Failed, NO, Outcome, PROTOCOL, UNAVAILABLE},
        output::shown,
    },
    proto::v1::{self, ValueKind, attach_request::Op, attach_response::Event},
};

type Context = crate::cli::context::Context<Client>;

const TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(250);

/// A session at one revision.
pub struct Snapshot {
    pub items: Vec<Item>,
    pub info: v1::SessionInfo,
}

/// Reads it.
pub async fn take(context: &mut Context, session: &str, bar: &ProgressBar) -> Outcome<Snapshot> {
    let mut before = look(context, session).await?;
    for attempt in 0..TRIES {
        tokio::time::sleep(PAUSE * attempt).await;
        bar.set_length(records(&before));
        bar.set_position(0);
        let items = walk(context, session, before.revision, bar).await?;
        let after = look(context, session).await?;
        let unchanged = (after.incarnation, after.revision) == (before.incarnation, before.revision);
        if let Some(items) = items.filter(|items| unchanged && items.len() as u64 == records(&after)) {
            return Ok(Snapshot { items, info: after });
        }
        before = after;
    }
    let name = shown(session);
    Err(Failed::new(
        UNAVAILABLE,
        format!(
            "{name} was written to during each of {TRIES} readings: stop its bot, or try when it is quiet"
        ),
    ))
}

fn records(info: &v1::SessionInfo) -> u64 {
    info.counts.iter().map(|count| count.records).sum()
}

async fn look(context: &mut Context, session: &str) -> Outcome<v1::SessionInfo> {
    let request = v1::GetSessionRequest { namespace: context.namespace.clone(), session: session.to_owned() };
    let found = context.client.get_session(context.target.request(request)).await?.into_inner();
    found.session.filter(|_| found.exists).ok_or_else(|| {
        let archives = if found.archives.is_empty() {
            ""
        } else {
            "; `pannier sessions restore` brings its archive back"
        };
        Failed::new(NO, format!("no session of that name in namespace {}{archives}", context.namespace))
    })
}

/// All records. None: the session is at another revision now.
async fn walk(
    context: &mut Context,
    session: &str,
    revision: u64,
    bar: &ProgressBar,
) -> Outcome<Option<Vec<Item>>> {
    let (mut found, mut large, mut cursor) = (BTreeMap::new(), Vec::new(), String::new());
    loop {
        let request = v1::ListRecordsRequest {
            namespace: context.namespace.clone(),
            session: session.to_owned(),
            cursor,
            limit: 1000,
            ..v1::ListRecordsRequest::default()
        };
        let page = context.client.list_records(context.target.request(request)).await?.into_inner();
        if page.corrupt > 0 {
            return Err(Failed::new(
                NO,
                format!(
                    "{} records cannot be opened, damaged or sealed with another key: nothing was written",
                    page.corrupt
                ),
            ));
        }
        bar.inc(page.records.len() as u64);
        found.extend(page.records.into_iter().map(keyed));
        large.extend(page.too_large);
        cursor = page.cursor;
        if cursor.is_empty() {
            break;
        }
    }
    if !large.is_empty() {
        let Some(records) = read_large(context, session, revision, large).await? else { return Ok(None) };
        found.extend(records.into_iter().map(keyed));
    }
    Ok(Some(found.into_values().collect()))
}

fn keyed(record: v1::Record) -> ((String, String), Item) {
    let kind = record.kind();
    // Unspecified means bytes.
    let kind = if kind == ValueKind::Unspecified { ValueKind::Bytes } else { kind };
    let stored = Stored { kind, value: record.value.to_vec() };
    let (ty, id) = (record.r#type, record.id);
    let item = Item { source: names::file_name(&ty, &id), ty: ty.clone(), id: id.clone(), stored };
    ((ty, id), item)
}

/// Values that fit into no single reply come over a stream, and a stream is a lease: only while nobody holds it.
async fn read_large(
    context: &mut Context,
    session: &str,
    revision: u64,
    names: Vec<v1::RecordRef>,
) -> Outcome<Option<Vec<v1::Record>>> {
    let open = v1::Open {
        namespace: context.namespace.clone(),
        session: session.to_owned(),
        owner: format!("pannier export {}", request_id()?),
        must_exist: true,
        ..v1::Open::default()
    };
    let (mut stream, opened) = Stream::open(&mut context.client, open).await?;
    let mut records = Vec::new();
    if opened.revision == revision {
        for v1::RecordRef { r#type, id } in names {
            stream.next_request();
            let queries = vec![v1::Query { r#type, ids: vec![id] }];
            stream.send(Op::Get(v1::Get { queries })).await?;
            loop {
                let Event::Records(answer) = stream.answer().await? else {
                    return Err(Failed::new(PROTOCOL, "the sidecar answered something else than records"));
                };
                records.extend(answer.records);
                for fragment in answer.fragments {
                    join(&mut records, fragment)?;
                }
                if !answer.more {
                    break;
                }
            }
        }
    }
    stream.close().await?;
    Ok((opened.revision == revision).then_some(records))
}

fn join(records: &mut Vec<v1::Record>, fragment: v1::Fragment) -> Outcome {
    let v1::Fragment { r#type, id, kind, offset, data, revision, .. } = fragment;
    if offset == 0 {
        records.push(v1::Record { r#type, id, kind, value: data, revision });
        return Ok(());
    }
    match records.last_mut() {
        Some(record) if record.value.len() as u64 == offset => {
            record.value = [&record.value[..], &data[..]].concat().into();
            Ok(())
        }
        _ => Err(Failed::new(PROTOCOL, "the sidecar sent parts of a value out of order")),
    }
}
