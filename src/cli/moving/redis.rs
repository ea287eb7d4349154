//! Reading a session that a hand-written store of Baileys keeps in Redis. The source is only read, twice: a bot that still
//! writes there is noticed.

use std::{collections::BTreeMap, time::Duration};

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo as _, RedisError, aio::MultiplexedConnection};
use secrecy::{ExposeSecret as _, SecretString};

use super::{
    bundle::{Gathered, Item, Skip},
    load, names,
    value::{self},
};
use crate::{
    cli::{
        outcome::{CONFIG, Failed, NO, Outcome, UNAVAILABLE, USAGE},
        output::shown,
    },
    config::{self, process_environment},
    valkey::install_crypto_provider,
};

const URL_VARIABLE: &str = "PANNIER_IMPORT_URL";
const WITHIN: Duration = Duration::from_secs(30);
/// Names of one step of a scan, and values of one read.
const STEP: usize = 500;

/// From a Redis or Valkey in which another store keeps the session.
///
/// Layouts: `hash`, one hash with the fields `creds` and `<type>-<id>`; `keys`, one string a record, `<prefix>creds` and
/// `<prefix><type>-<id>` or `<prefix><type>:<id>`. Values are BufferJSON texts. Names may also be those of files, as
/// `useMultiFileAuthState` has them. The source is only read. Stop the bot first.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Where it is: redis://, rediss://, valkey://, valkeys:// or unix://, without a password [env: `PANNIER_IMPORT_URL`, password
    /// and all]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A file that holds the URL, password and all.
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    url_file: Option<String>,
    /// A file that holds the password for the URL.
    #[arg(long, value_name = "FILE")]
    password_file: Option<String>,
    /// How the store lays its records out.
    #[arg(long, value_name = "LAYOUT")]
    layout: Layout,
    /// The hash's key, for `hash` [default: `<session>:auth`]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// What all of the session's keys begin with, for `keys` [default: `<session>:`]
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(flatten)]
    pub into: load::Into,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Layout {
    /// One hash: `creds`, `<type>-<id>`.
    Hash,
    /// One key a record.
    Keys,
}

/// A field of a hash and its value.
type Field = (Vec<u8>, Vec<u8>);
/// Names and values, as they lie there.
type Found = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

impl Arguments {
    /// Where the session lies, for a person.
    pub fn place(&self) -> Outcome<String> {
        match (self.layout, &self.key, &self.prefix) {
            (Layout::Hash, _, Some(_)) => {
                Err(Failed::new(USAGE, "--prefix is for --layout keys; a hash has a --key"))
            }
            (Layout::Keys, Some(_), _) => {
                Err(Failed::new(USAGE, "--key is for --layout hash; keys have a --prefix"))
            }
            (Layout::Keys, _, Some(prefix)) if prefix.is_empty() => {
                Err(Failed::new(USAGE, "--prefix must not be empty: all keys of the database begin so"))
            }
            (Layout::Hash, key, _) => {
                Ok(key.clone().unwrap_or_else(|| format!("{}:auth", self.into.session)))
            }
            (Layout::Keys, _, prefix) => {
                Ok(prefix.clone().unwrap_or_else(|| format!("{}:", self.into.session)))
            }
        }
    }

    /// The name of the record that holds the creds.
    pub fn creds_source(&self, place: &str) -> String {
        match self.layout {
            Layout::Hash => names::CREDS.to_owned(),
            Layout::Keys => format!("{place}{}", names::CREDS),
        }
    }

    /// Reads all of it.
    pub async fn read(&self, place: &str, skip: &mut Skip, bar: &ProgressBar) -> Outcome<Gathered> {
        let mut source = Source { connection: self.connect().await?, bar };
        let (first, second) = match self.layout {
            Layout::Hash => {
                source.check_hash(place).await?;
                (source.hash(place).await?, source.hash(place).await?)
            }
            Layout::Keys => {
                source.check_not_cluster().await?;
                (source.keys(place).await?, source.keys(place).await?)
            }
        };
        let mut gathered = Gathered::default();
        for (name, value) in &first {
            let name_text = String::from_utf8_lossy(name).into_owned();
            // Some stores write null where they mean to delete.
            let is_deleted = value.as_deref() == Some(b"null") && name_text != self.creds_source(place);
            if skip.takes(&name_text) || is_deleted {
                gathered.skipped.push(name_text);
            } else if second.get(name) != Some(value) {
                gathered.refuse(name_text, CHANGED);
            } else {
                match self.item(place, name, value.clone()) {
                    Ok(item) => gathered.items.push(item),
                    Err(why) => gathered.refuse(name_text, why),
                }
            }
        }
        for name in second.keys().filter(|name| !first.contains_key(*name)) {
            let name = String::from_utf8_lossy(name);
            if !skip.takes(&name) {
                gathered.refuse(name, CHANGED);
            }
        }
        skip.check()?;
        Ok(gathered)
    }

    fn item(&self, place: &str, name: &[u8], value: Option<Vec<u8>>) -> Result<Item, String> {
        let source = std::str::from_utf8(name).map_err(|_| "its name is not UTF-8".to_owned())?;
        let (key, separators): (_, &[char]) = match self.layout {
            Layout::Hash => (source, &['-']),
            Layout::Keys => (source.strip_prefix(place).unwrap_or(source), &['-', ':']),
        };
        let (ty, id) = names::of_key(key.strip_suffix(".json").unwrap_or(key), separators)?;
        let value = value.ok_or_else(|| "not a string".to_owned())?;
        Ok(Item { source: source.to_owned(), ty, id, stored: value::from_text(value)? })
    }

    fn url(&self) -> Outcome<SecretString> {
        if let Some(url) = &self.url {
            if config::has_password(url) {
                return Err(Failed::new(
                    USAGE,
                    format!(
                        "--url holds a password, which every user of this machine can read in the process list; give the URL in \
                         {URL_VARIABLE} or --url-file, or the password in --password-file"
                    ),
                ));
            }
            return Ok(SecretString::from(url.as_str()));
        }
        if let Some(file) = &self.url_file {
            return secret("--url-file", file);
        }
        let given = process_environment(URL_VARIABLE).filter(|url| !url.is_empty());
        given.map(SecretString::from).ok_or_else(|| {
            Failed::new(USAGE, format!("where is it? Give --url, --url-file or {URL_VARIABLE}"))
        })
    }

    async fn connect(&self) -> Outcome<MultiplexedConnection> {
        let url = self.url()?;
        let bad = |why: &str| {
            let wanted = "it must look like redis://user@host:6379/0, rediss://host:6380 or unix:///path";
            Failed::new(USAGE, format!("the URL cannot be used: {why}; {wanted}"))
        };
        // Neither repeats the URL: it may hold a password.
        if url.expose_secret().contains("#insecure") {
            return Err(bad("#insecure is not supported"));
        }
        let info = url.expose_secret().into_connection_info().map_err(|error| bad(error.category()))?;
        let mut settings = info.redis_settings().clone();
        if let Some(file) = &self.password_file {
            settings = settings.set_password(secret("--password-file", file)?.expose_secret());
        }
        install_crypto_provider();
        let client =
            Client::open(info.set_redis_settings(settings)).map_err(|error| bad(error.category()))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(WITHIN))
            .set_response_timeout(Some(WITHIN));
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| Failed::new(UNAVAILABLE, format!("the source cannot be reached: {error}")))
    }
}

const CHANGED: &str = "changed while it was read: stop the bot first";

fn secret(flag: &str, file: &str) -> Outcome<SecretString> {
    config::secret(file).map_err(|why| Failed::new(CONFIG, format!("{flag} {}: {why}", shown(file))))
}

struct Source<'a> {
    connection: MultiplexedConnection,
    bar: &'a ProgressBar,
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn failed(error: RedisError) -> Failed {
    let code = if error.is_io_error() || error.is_timeout() { UNAVAILABLE } else { NO };
    Failed::new(code, format!("the source cannot be read: {error}"))
}

impl Source<'_> {
    async fn check_hash(&mut self, key: &str) -> Outcome {
        let ty: String =
            redis::cmd("TYPE").arg(key).query_async(&mut self.connection).await.map_err(failed)?;
        match ty.as_str() {
            "hash" => Ok(()),
            "none" => {
                Err(Failed::new(NO, format!("the source has no key {}: name it with --key", shown(key))))
            }
            ty => Err(Failed::new(
                NO,
                format!("{} is no hash there but a {ty}: is it --layout keys?", shown(key)),
            )),
        }
    }

    /// A scan of one node of several would miss most keys in silence.
    async fn check_not_cluster(&mut self) -> Outcome {
        let info: Result<String, _> =
            redis::cmd("INFO").arg("cluster").query_async(&mut self.connection).await;
        if info.is_ok_and(|info| info.contains("cluster_enabled:1")) {
            return Err(Failed::new(
                NO,
                "the source is a cluster, whose keys lie on several nodes: that is not supported",
            ));
        }
        Ok(())
    }

    async fn hash(&mut self, key: &str) -> Outcome<Found> {
        let mut found = Found::new();
        let mut cursor = 0_u64;
        loop {
            let mut command = redis::cmd("HSCAN");
            command.arg(key).arg(cursor).arg("COUNT").arg(STEP);
            let (next, fields): (u64, Vec<Field>) =
                command.query_async(&mut self.connection).await.map_err(failed)?;
            found.extend(fields.into_iter().map(|(field, value)| (field, Some(value))));
            self.bar.set_position(found.len() as u64);
            cursor = next;
            if cursor == 0 {
                return Ok(found);
            }
        }
    }

    async fn keys(&mut self, prefix: &str) -> Outcome<Found> {
        let mut found = Found::new();
        let (pattern, mut cursor) = (literal(prefix) + "*", 0_u64);
        loop {
            let mut command = redis::cmd("SCAN");
            command.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP);
            let (next, keys): (u64, Vec<Vec<u8>>) =
                command.query_async(&mut self.connection).await.map_err(failed)?;
            for keys in keys.chunks(STEP) {
                let values: Vec<Option<Vec<u8>>> =
                    redis::cmd("MGET").arg(keys).query_async(&mut self.connection).await.map_err(failed)?;
                found.extend(keys.iter().cloned().zip(values));
            }
            self.bar.set_position(found.len() as u64);
            cursor = next;
            if cursor == 0 {
                return Ok(found);
            }
        }
    }
}

/// A pattern that only the text itself fits.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}
