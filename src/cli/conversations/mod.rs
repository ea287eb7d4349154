//! `pannier conversations`: looking at chats and ending them, through the running sidecar.

mod view;

use clap::{Args, Subcommand};
use tonic::transport::Channel;

use super::{
    Format,
    connect::Target,
    outcome::{Failed, NO, Outcome},
    output::{self, json, shown, table},
};
use crate::proto::v1::{self, conversation_service_client::ConversationServiceClient};

/// Replies are at most 4 MiB and what wraps them.
const MAX_REPLY: usize = 5 << 20;

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
    target: Target,
    /// The namespace.
    #[arg(long, short, global = true, default_value = "default", value_name = "NAMESPACE")]
    namespace: String,
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

/// What every subcommand works with.
struct Context {
    client: ConversationServiceClient<Channel>,
    target: Target,
    namespace: String,
}

pub async fn run(arguments: Arguments) -> Outcome {
    let client = ConversationServiceClient::new(arguments.target.channel()?)
        .max_decoding_message_size(MAX_REPLY)
        .max_encoding_message_size(MAX_REPLY);
    let context = Context { client, target: arguments.target, namespace: arguments.namespace };
    match arguments.command {
        Command::List { format } => context.list(format).await,
        Command::Get { id, format } => context.get(id, format).await,
        Command::Reset { id, yes } => context.reset(id, yes).await,
    }
}

impl Context {
    async fn list(mut self, format: Format) -> Outcome {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let request =
                v1::ListConversationsRequest { namespace: self.namespace.clone(), cursor, limit: 500 };
            let page = self.client.list_conversations(self.target.request(request)).await?.into_inner();
            found.extend(page.conversations.into_iter().map(view::Summary::from));
            cursor = page.cursor;
            if cursor.is_empty() {
                break;
            }
        }
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
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let request = v1::ResetConversationRequest {
            namespace: self.namespace.clone(),
            request_id: output::hex(&random),
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
