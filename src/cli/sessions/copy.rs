//! Copying a session under another name. Both are held meanwhile, so that neither changes; a copy that fails leaves nothing.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::Context;
use crate::{
    cli::{
        attach::{Stream, record_size},
        outcome::{Failed, NO, Outcome, PROTOCOL},
        output::{self, shown},
    },
    proto::v1::{self, attach_request::Op, attach_response::Event, delete_session_request::Mode},
};

/// One commit of the copy: well below the limits of 32 MiB and 20 000 items.
const COMMIT_BYTES: usize = 16 << 20;
const COMMIT_ITEMS: usize = 5000;

/// Copies a session under a new name, which must not exist. Nobody may hold it: two bots with the same keys break each
/// other, so delete the old one before the copy is used.
#[derive(Args, Debug)]
pub struct Arguments {
    from: String,
    to: String,
    /// The copy's namespace; without it the same.
    #[arg(long, value_name = "NAMESPACE")]
    to_namespace: Option<String>,
}

impl Arguments {
    pub async fn run(self, mut context: Context) -> Outcome {
        let to_namespace = self.to_namespace.clone().unwrap_or_else(|| context.namespace.clone());
        if self.from == self.to && to_namespace == context.namespace {
            return Err(Failed::new(NO, "a session cannot be copied onto itself"));
        }
        let owner = format!("pannier sessions copy {}", std::process::id());
        let open = |namespace: &str, session: &str, must_exist| v1::Open {
            namespace: namespace.to_owned(),
            session: session.to_owned(),
            owner: owner.clone(),
            must_exist,
            ..v1::Open::default()
        };
        let from = open(&context.namespace, &self.from, true);
        let (source, source_opened) = Stream::open(&mut context.client, from).await?;
        let to = open(&to_namespace, &self.to, false);
        let (target, opened) = match Stream::open(&mut context.client, to).await {
            Ok(opened) => opened,
            Err(failed) => {
                source.close().await?;
                return Err(failed);
            }
        };
        if !opened.created {
            let closed = (source.close().await, target.close().await);
            closed.0.and(closed.1)?;
            return Err(Failed::new(NO, format!("{} exists already", shown(&self.to))));
        }
        let mut copy = Copy {
            source,
            target,
            pending: Pending::default(),
            op_seq: 0,
            progress: progress(&source_opened),
        };
        match copy.all(source_opened.attributes).await {
            Ok(records) => {
                copy.source.close().await?;
                copy.target.close().await?;
                output::note(&format!("{records} records were copied to {}", shown(&self.to)));
                Ok(())
            }
            Err(failed) => {
                let request = v1::DeleteSessionRequest {
                    namespace: to_namespace,
                    session: self.to,
                    mode: Mode::Shred.into(),
                    incarnation: opened.incarnation,
                };
                // What failed matters more than that the rest of it stays.
                let _ = context.client.delete_session(context.target.request(request)).await;
                let _ = copy.source.close().await;
                Err(failed)
            }
        }
    }
}

fn progress(opened: &v1::Opened) -> ProgressBar {
    let records = opened.counts.iter().map(|count| count.records).sum();
    ProgressBar::with_draw_target(Some(records), ProgressDrawTarget::stderr())
}

struct Copy {
    source: Stream,
    target: Stream,
    pending: Pending,
    op_seq: u64,
    progress: ProgressBar,
}

/// What the next commit will hold.
#[derive(Default)]
struct Pending {
    items: usize,
    bytes: usize,
    puts: Vec<v1::Put>,
    fragments: Vec<v1::Fragment>,
}

impl Copy {
    async fn all(&mut self, attributes: Option<v1::Attributes>) -> Outcome<u64> {
        let (mut cursor, mut records, mut attributes) = (String::new(), 0, attributes);
        loop {
            self.source.next_request();
            let list = v1::List { cursor, limit: 500, ..v1::List::default() };
            self.source.send(Op::List(list)).await?;
            cursor = loop {
                let Event::Page(page) = self.source.answer().await? else {
                    return Err(Failed::new(PROTOCOL, "the sidecar answered something else than a page"));
                };
                if page.corrupt > 0 {
                    return Err(Failed::new(
                        NO,
                        format!("{} records cannot be opened: nothing was copied", page.corrupt),
                    ));
                }
                let whole =
                    page.records.len() + page.fragments.iter().filter(|part| part.offset == 0).count();
                records += whole as u64;
                self.progress.inc(whole as u64);
                self.pending.take(page.records, page.fragments);
                if !page.more {
                    break page.cursor;
                }
            };
            if cursor.is_empty() || self.pending.is_large() {
                self.commit(attributes.take()).await?;
            }
            if cursor.is_empty() {
                self.progress.finish_and_clear();
                return Ok(records);
            }
        }
    }

    async fn commit(&mut self, attributes: Option<v1::Attributes>) -> Outcome {
        let pending = std::mem::take(&mut self.pending);
        if pending.items == 0 && attributes.is_none() {
            return Ok(());
        }
        self.op_seq += 1;
        self.target.commit(self.op_seq, pending.puts, pending.fragments, attributes).await.map(drop)
    }
}

impl Pending {
    fn take(&mut self, records: Vec<v1::Record>, fragments: Vec<v1::Fragment>) {
        self.items += records.len() + fragments.len();
        self.bytes += records.iter().map(record_size).sum::<usize>();
        self.bytes += fragments.iter().map(|fragment| fragment.data.len()).sum::<usize>();
        self.puts
            .extend(records.into_iter().map(|record| v1::Put { record: Some(record), if_revision: None }));
        self.fragments.extend(fragments);
    }

    fn is_large(&self) -> bool {
        self.bytes >= COMMIT_BYTES || self.items >= COMMIT_ITEMS
    }
}
