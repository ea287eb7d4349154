//! Makes a copied database one of another environment: other key names, another id, nothing that would act on its own.

use std::collections::HashSet;

use redis::{Cmd, Value};

use super::{Stopped, environment, is_of_running_sidecars, on, refuse_while_in_use, set_environment};
use crate::{
    blob,
    crypto::Keyring,
    schedule, session,
    valkey::{BUCKETS, Depot, Walk, new_store_id},
};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// The environment that the database says it is of.
    pub from: String,
    /// The one that it is to be of.
    pub to: String,
    /// Sessions and blobs go along.
    pub keep_sessions: bool,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Adopted {
    /// The new id.
    pub store_id: String,
    /// Keys that have another name now.
    pub renamed: u64,
    /// Keys of sessions and blobs that are gone.
    pub dropped: u64,
    /// Queues that are paused, and their crons with them.
    pub paused: u64,
}

/// An adoption under way, as `pannier:environment` has it.
struct Work<'a> {
    depot: &'a mut Depot,
    adoption: &'a Adoption,
    old_id: String,
    new_id: String,
    done: Adopted,
}

impl Adoption {
    /// Does it, or what is left of it.
    ///
    /// # Errors
    /// See [`Stopped`]. Run again it goes on where it was.
    pub async fn run(
        &self,
        depot: &mut Depot,
        keyring: &Keyring,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Adopted, Stopped> {
        let (old_id, new_id) = self.begin(depot, keyring).await?;
        let mut work = Work { depot, adoption: self, old_id, new_id, done: Adopted::default() };
        work.run(progress).await?;
        let Work { mut done, new_id, .. } = work;
        done.store_id = new_id;
        Ok(done)
    }

    fn keeps(&self) -> &'static str {
        if self.keep_sessions { "keep" } else { "drop" }
    }

    /// Takes the database, or takes it up again; gives its id before and after.
    async fn begin(&self, depot: &Depot, keyring: &Keyring) -> Result<(String, String), Stopped> {
        let refused = |why: String| Err(Stopped::Refused(why));
        let Self { from, to, .. } = self;
        let there = environment(depot).await?;
        let words: Vec<&str> = there.split('/').collect();
        if let ["adopting", its_from, its_to, its_keeps, old, new] = &words[..] {
            if (*its_from, *its_to, *its_keeps) != (from, to, self.keeps()) {
                let keep = if *its_keeps == "keep" { " --keep-sessions" } else { "" };
                return refused(format!(
                    "another adoption of it was begun and not finished: run it again with --from {its_from} --to {its_to}{keep}"
                ));
            }
            return Ok(((*old).to_owned(), (*new).to_owned()));
        }
        let old = match there.split_once(' ') {
            Some((found, id)) if found == from => id.to_owned(),
            Some((found, _)) if found == to => {
                return refused(format!("it belongs to environment {to:?} already: nothing to do"));
            }
            Some((found, _)) => return refused(format!("it belongs to environment {found:?}, not {from:?}")),
            None if there.is_empty() => return refused("the database is empty".into()),
            None => {
                return refused(
                    "a migration into it is not finished: run `pannier migrate` again first".into(),
                );
            }
        };
        refuse_while_in_use(depot, keyring, from).await?;
        let mut walk = Walk::default();
        while let Some(keys) = depot.walk(&mut walk, &format!("pannier:{to}:*")).await? {
            if !keys.is_empty() {
                return refused(format!("it has keys of environment {to:?} beside those of {from:?}"));
            }
        }
        let new = new_store_id()?;
        set_environment(depot, &format!("adopting/{from}/{to}/{}/{old}/{new}", self.keeps())).await?;
        Ok((old, new))
    }
}

impl Work<'_> {
    /// Each step can be done again. `meta`, and the index that says which owners go, come last.
    async fn run(&mut self, progress: &dyn Fn(u64, u64)) -> Result<(), Stopped> {
        let going = self.going().await?;
        let total = self.depot.size().await?;
        let (mut seen, mut walk) = (0, Walk::default());
        let from = prefix(&self.adoption.from);
        while let Some(keys) = self.depot.walk(&mut walk, &format!("{from}*")).await? {
            seen += u64::try_from(keys.len()).unwrap_or(0);
            self.step(&keys, &going).await?;
            progress(seen, total.max(seen));
        }
        self.rest().await?;
        self.meta().await?;
        if !self.adoption.keep_sessions {
            let indexes = [session::KIND, blob::KIND]
                .into_iter()
                .flat_map(|kind| (0..BUCKETS).map(move |bucket| format!("idx:{kind}:{{{bucket}}}")));
            let gone: Vec<Cmd> =
                indexes.map(|name| on("UNLINK", format!("{from}{name}").as_bytes())).collect();
            self.all(gone).await?;
        }
        self.all(vec![on("UNLINK", format!("{from}meta").as_bytes())]).await?;
        self.depot.remember(&self.new_id)?;
        let value = format!("{} {}", self.adoption.to, self.new_id);
        set_environment(self.depot, &value).await?;
        Ok(())
    }

    async fn all(&self, commands: Vec<Cmd>) -> Result<Vec<Value>, String> {
        let replies = self.depot.send(commands).await?;
        replies.into_iter().collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    /// The tags of the owners that are dropped: an owner is listed before it is made and until it is gone.
    async fn going(&self) -> Result<HashSet<Vec<u8>>, String> {
        if self.adoption.keep_sessions {
            return Ok(HashSet::new());
        }
        self.tags(&self.adoption.from, &[session::KIND, blob::KIND]).await
    }

    async fn tags(&self, env: &str, kinds: &[&str]) -> Result<HashSet<Vec<u8>>, String> {
        let mut tags = HashSet::new();
        for kind in kinds {
            let reads = (0..BUCKETS).map(|bucket| {
                let mut read = on("ZRANGE", format!("{}idx:{kind}:{{{bucket}}}", prefix(env)).as_bytes());
                read.arg(0).arg(-1);
                read
            });
            for reply in self.all(reads.collect()).await? {
                tags.extend(
                    crate::owner::catalog::tags(&reply).iter().map(|tag| tag.to_string().into_bytes()),
                );
            }
        }
        Ok(tags)
    }

    /// Renames some keys, and drops what is to go.
    async fn step(&mut self, keys: &[Vec<u8>], going: &HashSet<Vec<u8>>) -> Result<(), String> {
        let (from, to) = (prefix(&self.adoption.from), prefix(&self.adoption.to));
        let (mut renames, mut unlinks) = (Vec::new(), Vec::new());
        for key in keys {
            let Some(rest) = key.strip_prefix(from.as_bytes()) else { continue };
            if stays_till_the_end(rest, self.adoption.keep_sessions) {
                continue;
            }
            if is_of_running_sidecars(rest) {
                self.all(vec![on("UNLINK", key)]).await?;
            } else if tag(rest).is_some_and(|tag| going.contains(tag)) {
                unlinks.push(on("UNLINK", key));
            } else {
                let mut rename = on("RENAME", key);
                rename.arg([to.as_bytes(), rest].concat());
                renames.push(rename);
            }
        }
        for reply in self.depot.send(renames).await? {
            match reply {
                Ok(_) => self.done.renamed += 1,
                // It has ended, or the walk came by twice.
                Err(error) if is_no_key(&error) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        for reply in self.all(unlinks).await? {
            if reply == Value::Int(1) {
                self.done.dropped += 1;
            }
        }
        Ok(())
    }

    /// Queues are paused, and their crons put to rest: a copy must not send what the original sends.
    async fn rest(&mut self) -> Result<(), String> {
        let to = self.adoption.to.clone();
        let tags: Vec<_> = self.tags(&to, &[schedule::KIND]).await?.into_iter().collect();
        let keys_of = prefix(&to);
        for tags in tags.chunks(100) {
            let heads: Vec<Vec<u8>> =
                tags.iter().map(|tag| [keys_of.as_bytes(), b"{", tag, b"}:h"].concat()).collect();
            let known = heads.iter().map(|head| {
                let mut known = on("HEXISTS", head);
                known.arg("nm");
                known
            });
            let known = self.all(known.collect()).await?;
            let there = heads.iter().zip(known).filter(|(_, known)| *known == Value::Int(1));
            let pauses: Vec<Cmd> = there
                .map(|(head, _)| {
                    let mut pause = on("HSET", head);
                    for (field, value) in schedule::AT_REST {
                        pause.arg(field).arg(value);
                    }
                    pause
                })
                .collect();
            self.done.paused += u64::try_from(pauses.len()).unwrap_or(0);
            self.all(pauses).await?;
        }
        Ok(())
    }

    /// The hash that says what the database is, under its new name and with the new id; then every index bucket.
    async fn meta(&self) -> Result<(), String> {
        let (from, to) = (prefix(&self.adoption.from), prefix(&self.adoption.to));
        let meta = |prefix: &str| format!("{prefix}meta").into_bytes();
        let fields = match self.depot.ask(on("HGETALL", &meta(&from))).await? {
            Value::Map(fields) if !fields.is_empty() => fields,
            // Written already.
            _ => match self.depot.ask(on("HGETALL", &meta(&to))).await? {
                Value::Map(fields) if !fields.is_empty() => fields,
                _ => return Err("the database's meta hash is gone".into()),
            },
        };
        let mut write = on("HSET", &meta(&to));
        let mut kinds = Vec::new();
        for (name, value) in fields {
            let (Value::BulkString(name), Value::BulkString(value)) = (name, value) else { continue };
            if let Some(kind) = name.strip_prefix(b"kind:") {
                kinds.push(String::from_utf8_lossy(kind).into_owned());
            }
            if name != b"store_id" {
                write.arg(name).arg(value);
            }
        }
        write.arg("store_id").arg(&self.new_id);
        self.depot.ask(write).await?;
        for kind in kinds {
            self.depot.mark(&self.adoption.to, &kind, &self.new_id, &self.old_id).await?;
        }
        Ok(())
    }
}

/// Whether a key, without its prefix, is taken care of when all others are done.
fn stays_till_the_end(rest: &[u8], keep_sessions: bool) -> bool {
    let index = |kind: &str| rest.starts_with(format!("idx:{kind}:").as_bytes());
    rest == b"meta" || (!keep_sessions && (index(session::KIND) || index(blob::KIND)))
}

fn prefix(env: &str) -> String {
    format!("pannier:{env}:")
}

/// The tag in `{tag}:…`.
fn tag(rest: &[u8]) -> Option<&[u8]> {
    let rest = rest.strip_prefix(b"{")?;
    Some(&rest[..rest.iter().position(|byte| *byte == b'}')?])
}

fn is_no_key(error: &crate::valkey::ServerError) -> bool {
    matches!(error, crate::valkey::ServerError::Other { detail, .. } if detail.contains("no such key"))
}
