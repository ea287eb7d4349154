//! Random lives of a session, step by step beside a model of it in memory: every answer must be the model's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

#[path = "session_model/model.rs"]
mod model;
mod support;

use std::collections::{BTreeMap, HashMap};

use model::{Life, Model, Records};
use pannier::proto::v1::{
    self, OnHeld, attach_request::Op, attach_response::Event, delete_session_request::Mode,
};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, Refused, delete, open, put},
    unary::{self, Unary},
};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn place(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

const OWNERS: [&str; 2] = ["first", "second"];
const TYPES: [&str; 3] = ["creds", "session", "own type"];

/// A model, and what is measured against it.
struct Run {
    random: Random,
    model: Model,
    session: String,
    sidecars: [Sidecar; 2],
    streams: [Option<(Attach, u64)>; 2],
    unary: Unary,
    steps: HashMap<&'static str, u32>,
}

impl Run {
    /// The stream still holds the lease.
    fn is_current(&self, owner: usize) -> bool {
        let fence = self.streams[owner].as_ref().map(|(_, fence)| *fence);
        self.model.holder.is_some_and(|(holder, current)| holder == owner && Some(current) == fence)
    }

    fn random_commit(&mut self, writer: &str) -> v1::Commit {
        let random = &mut self.random;
        let last = self.model.writers.get(writer).copied().unwrap_or(0);
        let op_seq = match random.below(10) {
            0 => last.max(1),
            1 => last + 2,
            _ => last + 1,
        };
        let mut names: Vec<(&str, String)> = Vec::new();
        for _ in 0..random.below(6) {
            let name = (TYPES[random.place(3)], random.below(6).to_string());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let (mut puts, mut deletes) = (Vec::new(), Vec::new());
        for (ty, id) in names {
            if random.one_in(4) {
                deletes.push(delete(ty, &id));
                continue;
            }
            let size = if random.one_in(20) { 300_000 } else { random.place(600) };
            let mut put = put(ty, &id, vec![u8::try_from(random.below(256)).unwrap(); size]);
            let stored = self.model.live.as_ref().and_then(|life| life.records.get(&(ty.into(), id)));
            let revision = stored.map_or(0, |(_, revision)| *revision);
            put.if_revision = match random.below(12) {
                0 | 1 => Some(revision),
                2 => Some(revision + 1),
                _ => None,
            };
            puts.push(put);
        }
        let expected_revision = match random.below(12) {
            0 => Some(self.model.revision),
            1 => Some(self.model.revision + 1),
            _ => None,
        };
        v1::Commit { op_seq, puts, deletes, expected_revision, ..Default::default() }
    }

    async fn step(&mut self) {
        let owner = self.random.place(2);
        let what = match self.random.below(100) {
            0..14 => "open",
            14..54 => "commit",
            54..64 => "read",
            64..68 => "clear",
            68..72 => "close",
            72..76 => "delete",
            76..78 => "shred",
            78..84 => "restore",
            84..87 => "break",
            87..97 => "commit from outside",
            _ => "look",
        };
        *self.steps.entry(what).or_default() += 1;
        match what {
            "open" => self.open(owner).await,
            "commit" => self.commit(owner).await,
            "read" => self.read(owner).await,
            "clear" => self.clear(owner).await,
            "close" => self.close(owner).await,
            "delete" => self.delete().await,
            "shred" => self.shred().await,
            "restore" => self.restore().await,
            "break" => self.break_lease().await,
            "commit from outside" => self.commit_from_outside().await,
            _ => self.look().await,
        }
    }

    async fn open(&mut self, owner: usize) {
        let take = self.random.one_in(2);
        let on_held = if take { OnHeld::TakeOver } else { OnHeld::Fail };
        let request = v1::Open { on_held: on_held.into(), ..open(&self.session, OWNERS[owner]) };
        let opened = Attach::open(self.sidecars[owner].channel(), request).await;
        if !take && self.model.holder.is_some_and(|(holder, _)| holder != owner) {
            return assert_eq!(opened.err().unwrap().reason, "SESSION_HELD");
        }
        let opened = opened.unwrap();
        let told = &opened.opened;
        assert!(told.fence > self.model.fence, "{} after {}", told.fence, self.model.fence);
        assert_eq!(told.created, self.model.live.is_none());
        let life = self.model.live.get_or_insert_with(|| Life { incarnation: told.fence, ..Life::default() });
        assert_eq!((told.incarnation, told.revision), (life.incarnation, self.model.revision));
        let last = self.model.writers.get(OWNERS[owner]).copied().unwrap_or(0);
        assert_eq!((told.last_op_seq, told.resumed), (last, false));
        self.model.fence = told.fence;
        self.model.holder = Some((owner, told.fence));
        let fence = told.fence;
        self.streams[owner] = Some((opened, fence));
    }

    /// A stale owner is told that it is; its stream has ended then.
    fn told_stale(&mut self, owner: usize, refused: &Refused) {
        assert_eq!(refused.reason, "FENCED");
        self.streams[owner] = None;
    }

    async fn commit(&mut self, owner: usize) {
        let commit = self.random_commit(OWNERS[owner]);
        let current = self.is_current(owner);
        let Some((stream, _)) = self.streams[owner].as_mut() else { return };
        let answer = stream.commit_as(commit.clone()).await;
        if current {
            let base = self.model.revision;
            match self.model.commit(OWNERS[owner], &commit) {
                Ok((revision, replayed)) => {
                    let committed = answer.unwrap();
                    assert_eq!((committed.revision, committed.replayed), (revision, replayed));
                    assert!(replayed || committed.base_revision == base);
                }
                Err(reason) => assert_eq!(answer.unwrap_err().reason, reason),
            }
            return;
        }
        match answer {
            // It had happened, and the stream has not heard yet that it is stale.
            Ok(committed) => {
                let last = self.model.writers.get(OWNERS[owner]).copied().unwrap_or(0);
                assert!(committed.replayed && commit.op_seq <= last);
            }
            Err(refused) => self.told_stale(owner, &refused),
        }
    }

    async fn read(&mut self, owner: usize) {
        let current = self.is_current(owner);
        let Some((stream, _)) = self.streams[owner].as_mut() else { return };
        let ids: Vec<String> = (0..6).map(|n| n.to_string()).collect();
        let queries = TYPES.map(|ty| v1::Query { r#type: ty.into(), ids: ids.clone() });
        let seq = stream.send(Op::Get(v1::Get { queries: queries.into() })).await;
        match stream.records(seq).await {
            Ok(records) if current => assert_eq!(table(records), self.model.live.clone().unwrap().records),
            // Reads are not fenced, only writes are: it may still see the session as it is.
            Ok(_) => {}
            Err(refused) => {
                assert!(!current, "{refused:?}");
                self.told_stale(owner, &refused);
            }
        }
    }

    async fn clear(&mut self, owner: usize) {
        let op_seq = self.model.writers.get(OWNERS[owner]).copied().unwrap_or(0) + 1;
        let current = self.is_current(owner);
        let Some((stream, fence)) = self.streams[owner].as_mut() else { return };
        match stream.clear(op_seq).await {
            Ok(cleared) => {
                assert!(current && !cleared.replayed && cleared.fence > self.model.fence);
                *fence = cleared.fence;
                assert_eq!(cleared.oldest_archive_dropped, self.model.archive());
                self.model.live = Some(Life { incarnation: cleared.incarnation, ..Life::default() });
                self.model.revision += 1;
                assert_eq!((cleared.incarnation, cleared.revision), (cleared.fence, self.model.revision));
                self.model.writers.insert(OWNERS[owner].into(), op_seq);
                self.model.fence = cleared.fence;
                self.model.holder = Some((owner, cleared.fence));
            }
            Err(refused) => {
                assert!(!current, "{refused:?}");
                self.told_stale(owner, &refused);
            }
        }
    }

    async fn close(&mut self, owner: usize) {
        let current = self.is_current(owner);
        let Some((mut stream, _)) = self.streams[owner].take() else { return };
        let seq = stream.send(Op::Close(v1::Close {})).await;
        match stream.reply(seq).await {
            Ok(event) => assert!(matches!(event, Event::Closed(_))),
            Err(refused) => assert!(!current && refused.reason == "FENCED", "{refused:?}"),
        }
        if current {
            self.model.holder = None;
        }
    }

    async fn delete(&mut self) {
        let deleted = self.unary.delete(&self.session, Mode::Soft).await.unwrap();
        assert_eq!(deleted.deleted, self.model.live.is_some());
        if let Some(live) = self.model.live.as_ref().map(|life| life.incarnation) {
            assert_eq!(deleted.oldest_archive_dropped, self.model.archive());
            assert_eq!(deleted.archive.unwrap().incarnation, live);
            self.model.holder = None;
        }
    }

    async fn shred(&mut self) {
        let deleted = self.unary.delete(&self.session, Mode::Shred).await.unwrap().deleted;
        assert_eq!(deleted, self.model.live.is_some() || !self.model.archives.is_empty());
        self.model = Model { fence: self.model.fence, ..Model::default() };
    }

    async fn restore(&mut self) {
        let replace = self.random.one_in(2);
        let count = self.model.archives.len();
        let which = (count > 0 && self.random.one_in(2)).then(|| self.random.place(count));
        let wanted = which.map_or(0, |at| self.model.archives[at].incarnation);
        let restored = self.unary.restore(&self.session, wanted, replace).await;
        if count == 0 {
            return assert_eq!(restored.unwrap_err().reason, "ARCHIVE_NOT_FOUND");
        }
        if self.model.live.is_some() && !replace {
            return assert_eq!(restored.unwrap_err().reason, "WRONG_STATE");
        }
        let info = restored.unwrap().session.unwrap();
        let life = self.model.archives.remove(which.unwrap_or(self.model.archives.len() - 1));
        self.model.archives.extend(self.model.live.take());
        self.model.revision += 1;
        assert_eq!((info.incarnation, info.revision), (life.incarnation, self.model.revision));
        assert!(info.fence > self.model.fence);
        self.model.fence = info.fence;
        self.model.live = Some(life);
        self.model.holder = None;
    }

    async fn break_lease(&mut self) {
        let broken = self.unary.break_lease(&self.session).await;
        if self.model.live.is_none() {
            return assert_eq!(broken.unwrap_err().reason, "SESSION_NOT_FOUND");
        }
        let broken = broken.unwrap();
        assert_eq!(broken.broken, self.model.holder.is_some());
        assert!(broken.fence > self.model.fence);
        self.model.fence = broken.fence;
        self.model.holder = None;
    }

    async fn commit_from_outside(&mut self) {
        let commit = self.random_commit("admin");
        let held = self.model.holder.map(|(_, fence)| fence);
        let fence = match self.random.below(4) {
            0 => 0,
            1 => self.model.fence.saturating_sub(1).max(1),
            _ => held.unwrap_or(0),
        };
        let request = v1::CommitRecordsRequest {
            fence,
            expected_revision: commit.expected_revision,
            deletes: commit.deletes.clone(),
            ..unary::commit(&self.session, "admin", commit.op_seq, commit.puts.clone())
        };
        let answer = self.unary.commit(request).await;
        let last = self.model.writers.get("admin").copied().unwrap_or(0);
        let expected = if self.model.live.is_none() {
            Err("SESSION_NOT_FOUND")
        } else if commit.op_seq <= last || Some(fence) == held || (fence == 0 && held.is_none()) {
            self.model.commit("admin", &commit)
        } else if fence == 0 {
            Err("SESSION_HELD")
        } else {
            Err("FENCED")
        };
        match (answer, expected) {
            (Ok(committed), Ok((revision, replayed))) => {
                assert_eq!((committed.revision, committed.replayed), (revision, replayed));
            }
            (Err(refused), Err(reason)) => assert_eq!(refused.reason, reason),
            (answer, expected) => panic!("{answer:?}, not {expected:?}"),
        }
    }

    /// Everything that can be seen from outside.
    async fn look(&mut self) {
        let known = self.unary.session(&self.session).await.unwrap();
        assert_eq!(known.exists, self.model.live.is_some());
        let archives: Vec<_> = known.archives.iter().map(|one| one.incarnation).collect();
        assert_eq!(archives, self.model.archives.iter().rev().map(|one| one.incarnation).collect::<Vec<_>>());
        for (known, model) in known.archives.iter().zip(self.model.archives.iter().rev()) {
            assert_eq!(counts(&known.counts), count(&model.records));
        }
        let Some(life) = self.model.live.clone() else { return };
        let info = known.session.unwrap();
        assert_eq!((info.incarnation, info.revision), (life.incarnation, self.model.revision));
        assert_eq!(counts(&info.counts), count(&life.records));
        let lease = info.lease.filter(|lease| lease.live).map(|lease| (lease.owner, lease.fence));
        assert_eq!(lease, self.model.holder.map(|(owner, fence)| (OWNERS[owner].to_owned(), fence)));
        assert_eq!(table(self.unary.walk(&self.session, "", 7).await), life.records);
    }
}

fn table(records: Vec<v1::Record>) -> Records {
    records.into_iter().map(|one| ((one.r#type, one.id), (one.value.to_vec(), one.revision))).collect()
}

fn counts(counts: &[v1::TypeCount]) -> BTreeMap<String, u64> {
    counts.iter().map(|one| (one.r#type.clone(), one.records)).collect()
}

fn count(records: &Records) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (ty, _) in records.keys() {
        *counts.entry(ty.clone()).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn a_session_behaves_like_its_model_through_random_lives() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let one = Sidecar::start(Options::with(&valkey)).await;
    let two = Options {
        dir: Some(one.dir.clone()),
        socket_name: Some("two.sock".into()),
        ..Options::with(&valkey)
    };
    let two = Sidecar::start(two).await;
    let soak =
        std::env::var("PANNIER_SOAK").ok().and_then(|n| n.parse::<u64>().ok()).map_or(1, |n| 10 * n.max(1));
    let seed = std::env::var("PANNIER_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let first = seed.unwrap_or_else(|| u64::from(std::process::id()) * 1000);
    let unary = Unary::of(&one);
    let mut run = Run {
        random: Random(0),
        model: Model::default(),
        session: String::new(),
        sidecars: [one, two],
        streams: [None, None],
        unary,
        steps: HashMap::new(),
    };
    for seed in first..first + 40 * soak {
        eprintln!("PANNIER_SEED={seed}");
        run.random = Random(seed);
        run.model = Model::default();
        run.session = format!("bot-{seed}");
        run.streams = [None, None];
        for _ in 0..150 {
            run.step().await;
        }
        run.look().await;
    }
    assert!(run.steps.len() == 11, "every kind of step: {:?}", run.steps);
}
