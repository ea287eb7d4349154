//! Where a shard's server is: somebody's URL, our own child, what Sentinels name, or a node of a cluster.

use super::{
    embedded::{Child, ChildError},
    sentinel::Sentinels,
    target::Endpoint,
};

/// Where the server comes from.
pub(super) enum Source {
    Url(Box<Endpoint>),
    Child(Box<Child>),
    Sentinels(Box<Sentinels>),
    /// A node of a cluster, under each of the names that its certificate may be for.
    Node {
        endpoints: Vec<Endpoint>,
        turn: usize,
    },
}

impl Source {
    /// Where to connect to, with the child running.
    pub async fn endpoint(&mut self) -> Result<Endpoint, Rejected> {
        match self {
            Self::Url(endpoint) => Ok((**endpoint).clone()),
            Self::Child(child) => Ok(child.ensure().await?),
            Self::Sentinels(sentinels) => Ok(sentinels.primary().await?),
            Self::Node { endpoints, turn } => {
                let endpoint = endpoints.get(*turn % endpoints.len().max(1));
                *turn = turn.wrapping_add(1);
                endpoint.cloned().ok_or_else(|| Rejected::Retry("it has no address".into()))
            }
        }
    }

    /// What worked is tried first the next time.
    pub fn worked(&mut self) {
        if let Self::Node { turn, .. } = self {
            *turn = turn.wrapping_sub(1);
        }
    }

    /// Whether it cannot be expected to answer yet.
    pub fn is_starting(&self) -> bool {
        matches!(self, Self::Child(child) if child.is_starting())
    }

    /// Ends when the primary is another one than that at `endpoint`.
    pub async fn moved(&mut self, endpoint: &Endpoint) -> String {
        match self {
            Self::Sentinels(sentinels) => sentinels.moved(endpoint).await,
            _ => std::future::pending().await,
        }
    }
}

/// Why a connection was not taken.
pub(super) enum Rejected {
    Retry(String),
    Human(String),
}

impl Rejected {
    pub fn why(self) -> String {
        match self {
            Self::Retry(why) | Self::Human(why) => why,
        }
    }
}

impl From<String> for Rejected {
    fn from(why: String) -> Self {
        Self::Retry(why)
    }
}

impl From<ChildError> for Rejected {
    fn from(error: ChildError) -> Self {
        match error {
            ChildError::Retry(why) => Self::Retry(why),
            ChildError::Human(why) => Self::Human(why),
        }
    }
}
