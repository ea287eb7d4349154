//! `pannier conversations`: looking at chats and ending them, through the running sidecar.

mod view;

use clap::{Args, Subcommand};

use super::{
    Format,
    connect::Channel,
    context::{Place, request_id},
    listing::{self, Page},
    outcome::{Failed, NO, Outcome},
    output::{self, json, shown, table},
};
use crate::proto::v1::{self, conversation_service_client::ConversationServiceClient};

type Client = ConversationServiceClient<Channel>;
/// What every subcommand works with.
type Context = super::context::Context<Client>;

/// Looks at conversations and ends them.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier conversations list
  pannier conversations get 5215550001111@s.whatsapp.net --json
  pannier conversations reset 5215550001111@s.whatsapp.net --yes")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the conversations of the namespace, without the values of their fields. Walks the whole keyspace.
    List {
        #[command(flatten)]
        format: Format,
    },
    /// Shows one conversation with its fields.
    #[command(visible_alias = "show")]
    Get {
        id: String,
        #[command(flatten)]
        format: Format,
    },
    /// Ends a conversation: it is idle at once.
    Reset {
        id: String,
        /// Do not ask for the id.
        #[arg(long)]
        yes: bool,
    },
}

pub async fn run(arguments: Arguments) -> Outcome {
    let context = arguments.place.context(|channel, most| {
        Client::new(channel).max_decoding_message_size(most).max_encoding_message_size(most)
    })?;
    match arguments.command {
        Command::List { format } => context.list(format).await,
        Command::Get { id, format } => context.get(id, format).await,
        Command::Reset { id, yes } => context.reset(id, yes).await,
    }
}

impl Context {
    async fn list(mut self, format: Format) -> Outcome {
        let found = listing::all(async |cursor| {
            let request =
                v1::ListConversationsRequest { namespace: self.namespace.clone(), cursor, limit: 500 };
            let page = self.client.list_conversations(self.target.request(request)).await?.into_inner();
            Ok(Page { items: page.conversations, corrupt: 0, cursor: page.cursor })
        });
        let mut found: Vec<_> = found.await?.into_iter().map(view::Summary::from).collect();
        // A walk may come by twice.
        found.sort_by(|a, b| a.id.cmp(&b.id).then(b.version.cmp(&a.version)));
        found.dedup_by(|a, b| a.id == b.id);
        if format.json {
            return json(&found);
        }
        table(view::TITLES, found.iter().map(view::Summary::row).collect())
    }

    async fn get(mut self, id: String, format: Format) -> Outcome {
        let request = v1::GetConversationRequest { namespace: self.namespace.clone(), id: id.clone() };
        let answer = self.client.get_conversation(self.target.request(request)).await?.into_inner();
        let detail = view::Detail::new(id, answer.state.unwrap_or_default());
        if format.json { json(&detail) } else { output::data(&detail.text()) }
    }

    async fn reset(mut self, id: String, yes: bool) -> Outcome {
        output::confirm(yes, "This ends the conversation: its step and fields are lost", &id)?;
        let request = v1::ResetConversationRequest {
            namespace: self.namespace.clone(),
            request_id: request_id()?,
            id: id.clone(),
        };
        let answer = self.client.reset_conversation(self.target.request(request)).await?.into_inner();
        if !answer.existed {
            return Err(Failed::new(NO, "it was idle already"));
        }
        output::note(&format!("{} is idle", shown(&id)));
        Ok(())
    }
}
