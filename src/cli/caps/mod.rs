//! `pannier caps`: policies of caps and how they stand, through the running sidecar.

mod set;
mod view;

use clap::{Args, Subcommand};

use super::{
    Format,
    connect::Channel,
    context::Place,
    outcome::{Failed, NO, Outcome},
    output::{self, json, shown, table},
};
use crate::proto::v1::{self, cap_service_client::CapServiceClient};

type Client = CapServiceClient<Channel>;
/// What every subcommand works with.
type Context = super::context::Context<Client>;

/// Looks at the policies of send limits, changes them, and shows how they stand.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier caps list --json
  pannier caps set daily --fixed 5 --time-zone America/Mexico_City --scope recipient
  pannier caps set burst --rolling 20 --window 10s
  pannier caps set pair --preset meta-pair
  pannier caps set tier --preset meta-tier-2k      a new tier goes on with what was counted
  pannier caps peek daily --recipient 5215550001111")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the policies of the namespace.
    List {
        #[command(flatten)]
        format: Format,
    },
    /// Shows one policy.
    Get {
        policy: String,
        #[command(flatten)]
        format: Format,
    },
    Set(set::Set),
    /// Takes a policy away; sends that name it are refused from then on.
    Delete {
        policy: String,
        /// Do not ask for the name.
        #[arg(long)]
        yes: bool,
    },
    /// Shows what a send would find, without counting one.
    Peek(Peek),
}

/// What a send would find.
#[derive(Args, Debug)]
struct Peek {
    #[arg(required = true)]
    policies: Vec<String>,
    /// To whom.
    #[arg(long, default_value = "", hide_default_value = true)]
    recipient: String,
    /// From which number.
    #[arg(long, default_value = "", hide_default_value = true)]
    sender: String,
    /// How much it would count.
    #[arg(long, short = 'c', default_value_t = 1)]
    count: i32,
    #[command(flatten)]
    format: Format,
}

pub async fn run(arguments: Arguments) -> Outcome {
    let context = arguments.place.context(|channel, most| {
        Client::new(channel).max_decoding_message_size(most).max_encoding_message_size(most)
    })?;
    match arguments.command {
        Command::List { format } => context.list(format).await,
        Command::Get { policy, format } => context.get(policy, format).await,
        Command::Set(set) => set.run(context).await,
        Command::Delete { policy, yes } => context.delete(policy, yes).await,
        Command::Peek(peek) => context.peek(peek).await,
    }
}

impl Context {
    async fn list(mut self, format: Format) -> Outcome {
        let request = v1::ListPoliciesRequest { namespace: self.namespace.clone() };
        let answer = self.client.list_policies(self.target.request(request)).await?.into_inner();
        let policies: Vec<_> = answer.policies.into_iter().map(view::Policy::from).collect();
        if answer.corrupt > 0 {
            output::note(&format!("{} more could not be opened: damaged", answer.corrupt));
        }
        if format.json {
            return json(&policies);
        }
        table(view::POLICY, policies.iter().map(view::Policy::row).collect())
    }

    async fn get(mut self, policy: String, format: Format) -> Outcome {
        let request = v1::GetPolicyRequest { namespace: self.namespace.clone(), name: policy };
        let answer = self.client.get_policy(self.target.request(request)).await?.into_inner();
        let policy = view::Policy::from(answer.policy.unwrap_or_default());
        if format.json { json(&policy) } else { table(view::POLICY, vec![policy.row()]) }
    }

    async fn delete(mut self, policy: String, yes: bool) -> Outcome {
        output::confirm(
            yes,
            "This takes the policy away: sends that name it are refused from then on",
            &policy,
        )?;
        let request =
            v1::DeletePolicyRequest { namespace: self.namespace.clone(), name: policy.clone(), revision: 0 };
        let answer = self.client.delete_policy(self.target.request(request)).await?.into_inner();
        if !answer.deleted {
            return Err(Failed::new(NO, "there was nothing to delete"));
        }
        output::note(&format!("{} is gone", shown(&policy)));
        Ok(())
    }

    async fn peek(mut self, peek: Peek) -> Outcome {
        let request = v1::PeekRequest {
            namespace: self.namespace.clone(),
            policies: peek.policies,
            recipient: peek.recipient,
            sender: peek.sender,
            n: Some(peek.count),
            unit: 0,
        };
        let answer = self.client.peek(self.target.request(request)).await?.into_inner();
        let standing = view::Standing::from(answer);
        if peek.format.json {
            return json(&standing);
        }
        if let Some(until) = &standing.service_window_until {
            output::note(&format!("the service window is open until {until}"));
        }
        table(view::USAGE, standing.policies.iter().map(view::Usage::row).collect())
    }
}
