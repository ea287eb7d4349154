//! A cluster, or a Sentinel trio, of the test's own: real nodes on loopback, killed and frozen at will.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::valkey::{Valkey, ValkeyOptions, free_port};

/// What a node may be silent for before the others call it failed.
pub const NODE_TIMEOUT: Duration = Duration::from_secs(1);
const SLOTS: usize = 16_384;

/// Some primaries, each with its replicas. Nodes keep their place in `nodes`, whatever their role becomes.
pub struct Cluster {
    pub nodes: Vec<Valkey>,
}

impl Cluster {
    /// `primaries` nodes that share the slots, then `replicas` for each of them.
    pub fn start(primaries: usize, replicas: usize) -> Self {
        Self::start_with(primaries, replicas, &ValkeyOptions::default())
    }

    pub fn start_with(primaries: usize, replicas: usize, options: &ValkeyOptions) -> Self {
        let nodes = (0..primaries * (1 + replicas)).map(|_| node(options)).collect();
        let cluster = Self { nodes };
        for (at, node) in cluster.nodes[..primaries].iter().enumerate() {
            let (first, last) = (at * SLOTS / primaries, (at + 1) * SLOTS / primaries - 1);
            node.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            node.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
        }
        for node in &cluster.nodes[1..] {
            cluster.meet(node);
        }
        cluster.wait("all know all", |cluster| {
            cluster
                .nodes
                .iter()
                .all(|node| node.info("cluster_known_nodes") == cluster.nodes.len().to_string())
        });
        for (at, node) in cluster.nodes[primaries..].iter().enumerate() {
            let primary = cluster.nodes[at % primaries].id();
            node.command::<()>(&["CLUSTER", "REPLICATE", &primary]);
        }
        cluster.wait_whole();
        cluster.wait("the replicas have caught up", |cluster| {
            cluster.nodes[primaries..].iter().all(|node| {
                let info: redis::InfoDict = node.command(&["INFO", "replication"]);
                info.get::<String>("master_link_status").as_deref() == Some("up")
            })
        });
        cluster
    }

    /// One more node, without slots.
    pub fn add(&mut self) -> usize {
        self.nodes.push(node(&ValkeyOptions::default()));
        let count = self.nodes.len();
        self.meet(&self.nodes[count - 1]);
        self.wait("all know all", |cluster| {
            cluster.nodes.iter().all(|node| node.info("cluster_known_nodes") == count.to_string())
        });
        self.wait_whole();
        count - 1
    }

    fn meet(&self, node: &Valkey) {
        let bus = node.setting("cluster-port").unwrap();
        self.nodes[0].command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string(), &bus]);
    }

    /// For `--valkey-url`, with `--cluster`: the first nodes.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.nodes.iter().take(2).map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("valkey://{}", hosts.join(","))
    }

    /// Waits until every living node calls the cluster whole.
    pub fn wait_whole(&self) {
        self.wait("the cluster is whole", |cluster| {
            cluster.nodes.iter().filter(|node| node.is_running()).all(|node| {
                node.info("cluster_state") == "ok" && node.info("cluster_slots_ok") == SLOTS.to_string()
            })
        });
    }

    fn wait(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(30);
        while !done(self) {
            assert!(Instant::now() < until, "not in 30 s: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Which node serves a slot, as `teller` says.
    pub fn owner_of(&self, teller: usize, slot: u16) -> Option<usize> {
        let ranges: Vec<redis::Value> = self.nodes[teller].command(&["CLUSTER", "SLOTS"]);
        let port = ranges.into_iter().find_map(|range| {
            let redis::Value::Array(range) = range else { return None };
            let [redis::Value::Int(first), redis::Value::Int(last), redis::Value::Array(primary), ..] =
                &range[..]
            else {
                return None;
            };
            let redis::Value::Int(port) = primary[1] else { return None };
            (*first..=*last).contains(&i64::from(slot)).then_some(port)
        })?;
        self.nodes.iter().position(|node| i64::from(node.port) == port)
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &str) -> u16 {
        self.nodes[0].command(&["CLUSTER", "KEYSLOT", key])
    }

    /// The slots that hold at least `count` keys, those with the most first.
    pub fn slots_with(&self, count: usize) -> Vec<u16> {
        let mut held = std::collections::BTreeMap::<u16, usize>::new();
        for node in self.nodes.iter().filter(|node| node.is_running() && node.is_primary()) {
            let mut connection = node.connection();
            let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
            for key in keys {
                let slot = redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut connection).unwrap();
                *held.entry(slot).or_default() += 1;
            }
        }
        let mut held: Vec<_> = held.into_iter().filter(|(_, keys)| *keys >= count).collect();
        held.sort_by_key(|(_, keys)| std::cmp::Reverse(*keys));
        held.into_iter().map(|(slot, _)| slot).collect()
    }

    /// Waits until `slot` is served by another node than `not`, which may be dead; gives which.
    pub fn wait_other(&self, slot: u16, not: usize) -> usize {
        let teller = (0..self.nodes.len()).find(|at| *at != not && self.nodes[*at].is_running()).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            match self.owner_of(teller, slot) {
                Some(owner) if owner != not => return owner,
                _ => assert!(Instant::now() < until, "no other node took the slot over"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Moves a slot key by key, as `valkey-cli --cluster reshard` does, `pause` between two keys.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize, pause: Duration) {
        self.begin_move(slot, from, to);
        loop {
            let keys = self.keys_in(from, slot, 1);
            if keys.is_empty() {
                break;
            }
            for key in keys {
                self.move_key(from, to, &key);
                std::thread::sleep(pause);
            }
        }
        self.end_move(slot, from, to);
    }

    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let slot = slot.to_string();
        target.command::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source.id()]);
        source.command::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target.id()]);
    }

    pub fn keys_in(&self, node: usize, slot: u16, count: u32) -> Vec<Vec<u8>> {
        self.nodes[node].command(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), &count.to_string()])
    }

    pub fn move_key(&self, from: usize, to: usize, key: &[u8]) {
        let mut migrate = redis::cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(self.nodes[to].port).arg(key).arg(0).arg(5000);
        let moved: String = migrate.query(&mut self.nodes[from].connection()).unwrap();
        assert!(["OK", "NOKEY"].contains(&moved.as_str()), "{moved}");
    }

    /// Tells every primary, first the new owner, as `valkey-cli` does, and waits until all know.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        let (number, id) = (slot.to_string(), self.nodes[to].id());
        let others = (0..self.nodes.len()).filter(|at| *at != to && *at != from);
        for at in [to, from].into_iter().chain(others) {
            if self.nodes[at].is_running() && self.nodes[at].is_primary() {
                self.nodes[at].command::<()>(&["CLUSTER", "SETSLOT", &number, "NODE", &id]);
            }
        }
        self.wait("all know where the slot is", |cluster| {
            (0..cluster.nodes.len())
                .all(|at| !cluster.nodes[at].is_running() || cluster.owner_of(at, slot) == Some(to))
        });
        // A node that takes a slot over counts its epoch up by itself. One that has not heard of the last may choose the same, and
        // of two with the same one loses what it serves.
        self.wait("all know the newest epoch", |cluster| {
            let running = cluster.nodes.iter().filter(|node| node.is_running());
            let mut epochs: Vec<String> = running.map(|node| node.info("cluster_current_epoch")).collect();
            epochs.dedup();
            epochs.len() == 1
        });
    }

    /// All keys of all primaries.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys = Vec::new();
        for node in self.nodes.iter().filter(|node| node.is_running() && node.is_primary()) {
            keys.extend(node.keys(pattern));
        }
        keys.sort();
        keys
    }
}

impl Cluster {
    /// Nodes that speak TLS only. They call themselves by their addresses; `certificate` need not be for those.
    pub fn start_tls(primaries: usize, ca: &Path, certificate: &Path, key: &Path) -> Self {
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let options = ValkeyOptions::default()
            .set("tls-cluster", "yes")
            .set("tls-replication", "yes")
            .set("tls-auth-clients", "no")
            .set("tls-ca-cert-file", &path(ca))
            .set("tls-cert-file", &path(certificate))
            .set("tls-key-file", &path(key));
        Self::start_with(primaries, 0, &options)
    }
}

fn node(options: &ValkeyOptions) -> Valkey {
    let options = ValkeyOptions { tcp: true, ..options.clone() }
        .set("cluster-enabled", "yes")
        .set("cluster-port", &free_port().to_string())
        .set("cluster-node-timeout", &NODE_TIMEOUT.as_millis().to_string())
        .set("cluster-replica-validity-factor", "0")
        .set("cluster-allow-replica-migration", "no")
        .set("repl-diskless-sync-delay", "0");
    let mut node = Valkey::stopped(options);
    if node.setting("tls-cluster").is_some() {
        node.configure("port", "0");
        node.configure("tls-port", &node.port.to_string());
    }
    node.spawn();
    node
}

impl Valkey {
    fn id(&self) -> String {
        self.command(&["CLUSTER", "MYID"])
    }

    /// A line of CLUSTER INFO.
    fn info(&self, name: &str) -> String {
        let info: String = self.command(&["CLUSTER", "INFO"]);
        let line =
            info.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}:")).map(str::to_owned));
        line.unwrap_or_default()
    }

    pub fn is_primary(&self) -> bool {
        // While its role changes it closes connections.
        let role =
            self.try_connection().and_then(|mut c| redis::cmd("ROLE").query::<Vec<redis::Value>>(&mut c));
        role.is_ok_and(|role| matches!(&role[0], redis::Value::BulkString(role) if role == b"master"))
    }
}
