//! The primary that Sentinels name. They are asked at every connection, and every second whether it still is the one: a
//! primary that is cut off, or only slow, goes on to take writes that nobody will keep.

use std::time::Duration;

use redis::{AsyncConnectionConfig, Value};
use secrecy::SecretString;
use tokio::time::{sleep, timeout};

use super::{
    StartError,
    lanes::{ask, describe, one},
    server_info::text,
    source::Rejected,
    target::{Endpoint, Place},
};

/// What one Sentinel may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Between two questions.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Those who know where the primary is.
pub(super) struct Sentinels {
    /// What they watch the primary as.
    name: String,
    /// The Sentinels; the one that answered last comes first.
    places: Vec<Endpoint>,
    /// User, password and TLS of the primary.
    template: Endpoint,
    /// The turn among the names that the primary's certificate may be for.
    turn: usize,
}

impl Sentinels {
    /// `seeds` are the Sentinels' places, with the primary's user and password.
    pub fn new(
        name: String,
        seeds: &[Endpoint],
        password: Option<&SecretString>,
    ) -> Result<Self, StartError> {
        let none = || StartError::Config("the Valkey URL names no Sentinel".into());
        let template = seeds.first().ok_or_else(none)?.clone();
        let places = seeds.iter().map(|seed| seed.for_sentinel(password)).collect::<Result<_, _>>()?;
        Ok(Self { name, places, template, turn: 0 })
    }

    /// The primary, as the first Sentinel that answers names it.
    pub async fn primary(&mut self) -> Result<Endpoint, Rejected> {
        let place = self.ask_all().await?;
        let names = self.template.names_at(&place, None);
        let name = &names[self.turn % names.len().max(1)];
        self.turn = self.turn.wrapping_add(1);
        self.template.at(&place, name).map_err(|error| Rejected::Retry(error.to_string()))
    }

    /// Ends when they name another than `endpoint`; while none answers, nothing is known.
    pub async fn moved(&mut self, endpoint: &Endpoint) -> String {
        // It worked under this name.
        self.turn = self.turn.wrapping_sub(1);
        loop {
            sleep(ASK_EVERY).await;
            if let Ok(place) = self.ask_all().await
                && place.to_string() != endpoint.to_string()
            {
                return format!("the Sentinels name another primary: {place}");
            }
        }
    }

    async fn ask_all(&mut self) -> Result<Place, String> {
        let mut whys = Vec::new();
        for at in 0..self.places.len() {
            let sentinel = &self.places[at];
            let answer = timeout(ANSWER_WITHIN, ask_one(sentinel, &self.name)).await;
            match answer.unwrap_or_else(|_| Err("no answer".into())) {
                Ok(place) => {
                    self.places.swap(0, at);
                    return Ok(place);
                }
                Err(why) => whys.push(format!("Sentinel {sentinel}: {why}")),
            }
        }
        Err(whys.join("; "))
    }
}

async fn ask_one(sentinel: &Endpoint, name: &str) -> Result<Place, String> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let connection = sentinel.connect(config).await.map_err(|error| describe(&error))?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    match ask(connection, &one(question)).await?.map_err(|error| error.to_string())? {
        Value::Array(place) => match &place[..] {
            [host, port] => text(host)
                .zip(text(port).and_then(|port| port.parse().ok()))
                .map(|(host, port)| Place { host, port })
                .ok_or_else(|| "its answer cannot be read".to_owned()),
            _ => Err("its answer cannot be read".to_owned()),
        },
        _ => Err(format!("it watches no primary named {name:?}: see --sentinel")),
    }
}
