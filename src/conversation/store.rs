//! Conversations in Valkey: one key each, one script each decision.

use std::sync::Arc;

use tokio::time::Instant;

use super::{guess::Guesses, scripts, state::Content};
use crate::{
    crypto::{Context, Keyring, OwnerTag},
    error::{Error, Reason, Result},
    owner::{
        namespace::Namespaces,
        reply::{Reply, unexpected},
        request::mark,
    },
    valkey::{Funnel, Op, Script, decimal},
};

/// The kind of owner in tags and contexts.
pub const KIND: &str = "conversation";
/// What a key of a conversation ends in.
pub const KEY: &str = "s";
/// Bytes of the end of a sealed state, of its authentication tag: no two states have the same.
const END: usize = 8;
/// Tries of one change against others.
const TRIES: usize = 8;

/// Which conversation is meant.
pub struct Name {
    pub namespace: String,
    pub id: String,
    tag: OwnerTag,
}

impl Name {
    /// Names a conversation; the caller has checked the lengths.
    pub fn new(keyring: &Keyring, namespace: String, id: String) -> Self {
        let tag = keyring.owner_tag(KIND, &namespace, &id);
        Self { namespace, id, tag }
    }
}

/// What the state of a conversation is sealed for.
pub fn context(namespace: &str, id: &str) -> Context {
    Context::new(KIND, &[namespace.as_bytes(), id.as_bytes()])
}

/// A conversation as it is; version 0 is idle. Instants are ms since the Unix epoch, 0 is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub version: u64,
    pub started_ms: u64,
    pub updated_ms: u64,
    pub expires_ms: u64,
    pub ceiling_ms: u64,
    pub content: Content,
}

/// A change of a conversation.
pub struct Change<F> {
    pub ttl_ms: u64,
    pub max_age_ms: Option<u64>,
    /// Makes the new content of the old, or says why not.
    pub apply: F,
}

/// Why a change is not made.
pub enum Refusal {
    Conflict,
    Failed(Error),
}

/// What became of a change.
pub enum Advanced {
    Written { state: State, replayed: bool },
    Conflict(State),
    Ceiling { state: State, replayed: bool },
}

/// The conversations of one database.
pub struct Store {
    pub namespaces: Arc<Namespaces>,
    pub funnel: Funnel,
    guesses: Guesses,
}

/// A script's answer: where a conversation stands.
struct Standing {
    status: String,
    /// What the request had done before.
    before: String,
    state: State,
    sealed: Vec<u8>,
}

impl Standing {
    fn parse(mut reply: Reply) -> Result<Self> {
        let status = reply.status().to_owned();
        let before = reply.word()?;
        let state = State {
            version: reply.number()?,
            started_ms: reply.number()?,
            updated_ms: reply.number()?,
            expires_ms: reply.number()?,
            ceiling_ms: reply.number()?,
            content: Content::idle(),
        };
        Ok(Self { status, before, state, sealed: reply.bytes()?.unwrap_or_default() })
    }
}

impl Store {
    /// Over the funnel's link.
    pub fn new(namespaces: Arc<Namespaces>, funnel: Funnel) -> Self {
        Self { namespaces, funnel, guesses: Guesses::default() }
    }

    /// Names a conversation.
    pub fn name(&self, namespace: String, id: String) -> Name {
        Name::new(&self.namespaces.keyring.current(), namespace, id)
    }

    /// Reads a conversation.
    pub async fn get(&self, name: &Name, deadline: Instant) -> Result<State> {
        let standing = self.read(name, Vec::new(), deadline).await?;
        self.open(name, standing, deadline).await
    }

    /// Changes a conversation, or begins one, by compare-and-set. Begins with what is known of it here; what the script finds there
    /// instead is the next try's.
    pub async fn advance(
        &self,
        name: &Name,
        request_id: &str,
        change: Change<impl Fn(&State) -> Result<Content, Refusal>>,
        deadline: Instant,
    ) -> Result<Advanced> {
        let keys = self.namespaces.keys(&name.namespace, deadline).await?;
        let mark = self.mark(name, request_id);
        let (mut standing, mut guessed) = (self.guess(name), true);
        for _ in 0..TRIES {
            if !standing.before.is_empty() {
                return self.replayed(name, standing, deadline).await;
            }
            let mut read = decimal(standing.state.version);
            let sealed = if standing.status == "CEILING" {
                // The script will end it, and needs no content for that. Should another call be faster, nothing may be written:
                // this is no version of any conversation.
                read = b"-1".to_vec();
                Vec::new()
            } else {
                let content = match self.content(name, &standing, deadline).await {
                    Ok(content) => {
                        standing.state.content = content;
                        (change.apply)(&standing.state)
                    }
                    Err(error) => Err(Refusal::Failed(error)),
                };
                match content {
                    Ok(content) => {
                        let sealed =
                            keys.seal(&context(&name.namespace, &name.id), &content.encode(&name.id));
                        standing.state.content = content;
                        sealed
                    }
                    // Nothing is refused for a guess.
                    Err(_) if guessed => {
                        (standing, guessed) = (self.read(name, mark.clone(), deadline).await?, false);
                        continue;
                    }
                    Err(Refusal::Conflict) => return Ok(Advanced::Conflict(standing.state)),
                    Err(Refusal::Failed(error)) => return Err(error),
                }
            };
            let content = standing.state.content;
            let args = vec![
                mark.clone(),
                read,
                decimal(change.ttl_ms),
                change.max_age_ms.map(decimal).unwrap_or_default(),
                sealed.clone(),
                standing.sealed[standing.sealed.len().saturating_sub(END)..].to_vec(),
            ];
            (standing, guessed) = (self.call(&scripts::ADVANCE, name, args, deadline).await?, false);
            match standing.status.as_str() {
                "OK" => {
                    self.guesses.learn(name.tag, standing.state.version, &sealed);
                    let state = State { content, ..standing.state };
                    return Ok(Advanced::Written { state, replayed: false });
                }
                "CEILING" => return Ok(Advanced::Ceiling { state: standing.state, replayed: false }),
                "DONE" | "MOVED" => {}
                _ => return Err(unexpected()),
            }
        }
        if !standing.before.is_empty() {
            return self.replayed(name, standing, deadline).await;
        }
        Err(Error::new(Reason::Busy, "others keep changing this conversation: try again"))
    }

    fn guess(&self, name: &Name) -> Standing {
        let guess = self.guesses.of(&name.tag);
        let version = guess.as_ref().map_or(0, |guess| guess.version);
        let state = State {
            version,
            started_ms: 0,
            updated_ms: 0,
            expires_ms: 0,
            ceiling_ms: 0,
            content: Content::idle(),
        };
        let sealed = guess.map(|guess| guess.sealed.to_vec()).unwrap_or_default();
        Standing { status: String::new(), before: String::new(), state, sealed }
    }

    /// What is there, and what a request had done to it before.
    async fn read(&self, name: &Name, mark: Vec<u8>, deadline: Instant) -> Result<Standing> {
        let standing = self.call(&scripts::GET, name, vec![mark], deadline).await?;
        self.guesses.learn(name.tag, standing.state.version, &standing.sealed);
        Ok(standing)
    }

    async fn replayed(&self, name: &Name, standing: Standing, deadline: Instant) -> Result<Advanced> {
        let met_ceiling = standing.before == "C";
        let state = self.open(name, standing, deadline).await?;
        Ok(if met_ceiling {
            Advanced::Ceiling { state, replayed: true }
        } else {
            Advanced::Written { state, replayed: true }
        })
    }

    /// Lets the time to live begin anew; the state, and whether an earlier try had done it.
    pub async fn touch(
        &self,
        name: &Name,
        request_id: &str,
        ttl_ms: u64,
        deadline: Instant,
    ) -> Result<(State, bool)> {
        let args = vec![self.mark(name, request_id), decimal(ttl_ms)];
        let standing = self.call(&scripts::TOUCH, name, args, deadline).await?;
        let replayed = !standing.before.is_empty();
        Ok((self.open(name, standing, deadline).await?, replayed))
    }

    /// Ends a conversation: whether there was one, and whether an earlier try had done it.
    pub async fn reset(&self, name: &Name, request_id: &str, deadline: Instant) -> Result<(bool, bool)> {
        let op = self.op(&scripts::RESET, name, vec![self.mark(name, request_id)]);
        let mut reply = Reply::parse(self.funnel.run(op, deadline).await?)?;
        self.guesses.learn(name.tag, 0, &[]);
        match reply.status() {
            "OK" => Ok((reply.number()? == 1, reply.number()? == 1)),
            _ => Err(unexpected()),
        }
    }

    async fn open(&self, name: &Name, standing: Standing, deadline: Instant) -> Result<State> {
        let content = self.content(name, &standing, deadline).await?;
        Ok(State { content, ..standing.state })
    }

    async fn content(&self, name: &Name, standing: &Standing, deadline: Instant) -> Result<Content> {
        if standing.state.version == 0 {
            return Ok(Content::idle());
        }
        let (what, context) = ((name.namespace.as_str(), KIND), context(&name.namespace, &name.id));
        let opened = self.namespaces.open(what, &context, &standing.sealed, deadline).await?;
        Content::decode(&opened.plaintext).map(|(_, content)| content).ok_or_else(unexpected)
    }

    fn mark(&self, name: &Name, request_id: &str) -> Vec<u8> {
        mark(&self.namespaces.keyring.current(), &name.tag, request_id)
    }

    fn op(&self, script: &'static Script, name: &Name, args: Vec<Vec<u8>>) -> Op<'static> {
        Op::Script { script, keys: vec![self.namespaces.link.owner_key(&name.tag, KEY)], args }
    }

    async fn call(
        &self,
        script: &'static Script,
        name: &Name,
        args: Vec<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Standing> {
        Standing::parse(Reply::parse(self.funnel.run(self.op(script, name, args), deadline).await?)?)
    }
}

/// Reads what `get` answers for a key that a walk has found; `None`: it is idle.
pub fn found(value: redis::Value) -> Result<Option<(State, Vec<u8>)>> {
    let standing = Standing::parse(Reply::parse(value)?)?;
    Ok((standing.state.version != 0).then_some((standing.state, standing.sealed)))
}
