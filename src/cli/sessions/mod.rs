//! `pannier sessions`: looking at sessions, deleting them and bringing them back, through the running sidecar.

mod copy;
mod remove;
mod stream;
mod view;

use clap::{Args, Subcommand};

use super::{
    Format,
    connect::Channel,
    context::Place,
    listing::{self, Page},
    outcome::{Failed, NO, Outcome},
    output::{self, json, table},
};
use crate::proto::v1::{self, session_service_client::SessionServiceClient};

type Client = SessionServiceClient<Channel>;
/// What every subcommand works with.
type Context = super::context::Context<Client>;

/// Looks at sessions, deletes them, brings them back.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier sessions list --json
  pannier sessions show bot-1
  pannier sessions delete bot-1                 an archive for 7 days; `restore` brings it back
  pannier sessions delete bot-1 --shred --yes   at once and for good
  pannier sessions break-lease bot-1            a bot that hangs loses its session")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the live sessions of the namespace.
    List {
        #[command(flatten)]
        format: Format,
    },
    /// Shows one session: records by type, lease, archives.
    Show {
        session: String,
        #[command(flatten)]
        format: Format,
    },
    /// Lists the archives that `restore` can bring back.
    Deleted {
        /// Of one session only.
        session: Option<String>,
        #[command(flatten)]
        format: Format,
    },
    Delete(remove::Delete),
    Restore(remove::Restore),
    BreakLease(remove::BreakLease),
    Copy(copy::Arguments),
}

pub async fn run(arguments: Arguments) -> Outcome {
    let context = arguments.place.context(|channel, most| {
        Client::new(channel).max_decoding_message_size(most).max_encoding_message_size(most)
    })?;
    match arguments.command {
        Command::List { format } => context.list(format).await,
        Command::Show { session, format } => context.show(session, format).await,
        Command::Deleted { session, format } => context.deleted(session.unwrap_or_default(), format).await,
        Command::Delete(delete) => delete.run(context).await,
        Command::Restore(restore) => restore.run(context).await,
        Command::BreakLease(break_lease) => break_lease.run(context).await,
        Command::Copy(copy) => copy.run(context).await,
    }
}

impl Context {
    async fn list(mut self, format: Format) -> Outcome {
        let sessions = listing::all(async |cursor| {
            let request = v1::ListSessionsRequest { namespace: self.namespace.clone(), cursor, limit: 1000 };
            let page = self.client.list_sessions(self.target.request(request)).await?.into_inner();
            Ok(Page { items: page.sessions, corrupt: page.corrupt, cursor: page.cursor })
        });
        let mut sessions: Vec<_> = sessions.await?.into_iter().map(view::Session::from).collect();
        sessions.sort_by(|a, b| a.session.cmp(&b.session));
        if format.json {
            return json(&sessions);
        }
        let header = ["session", "paired", "revision", "records", "size", "lease", "last write"];
        table(&header, sessions.iter().map(view::Session::row).collect())
    }

    async fn get(&mut self, session: &str) -> Outcome<Option<v1::GetSessionResponse>> {
        let request =
            v1::GetSessionRequest { namespace: self.namespace.clone(), session: session.to_owned() };
        let found = self.client.get_session(self.target.request(request)).await?.into_inner();
        Ok((found.exists || !found.archives.is_empty()).then_some(found))
    }

    async fn show(mut self, session: String, format: Format) -> Outcome {
        let Some(found) = self.get(&session).await? else {
            return Err(Failed::new(NO, format!("no session of that name in namespace {}", self.namespace)));
        };
        let detail = view::Detail::from(found);
        if format.json { json(&detail) } else { output::data(&detail.text()) }
    }

    async fn deleted(mut self, session: String, format: Format) -> Outcome {
        let archives = listing::all(async |cursor| {
            let request = v1::ListDeletedRequest {
                namespace: self.namespace.clone(),
                session: session.clone(),
                cursor,
                limit: 1000,
            };
            let page = self.client.list_deleted(self.target.request(request)).await?.into_inner();
            Ok(Page { items: page.archives, corrupt: page.corrupt, cursor: page.cursor })
        });
        let archives: Vec<_> = archives.await?.into_iter().map(view::Archive::from).collect();
        if format.json {
            return json(&archives);
        }
        let header = ["session", "incarnation", "revision", "records", "size", "deleted", "gone for good"];
        table(&header, archives.iter().map(view::Archive::row).collect())
    }
}
