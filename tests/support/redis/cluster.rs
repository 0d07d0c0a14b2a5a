//! A Redis Cluster: primaries that share the slots, and their replicas.

use std::net::SocketAddr;

use super::connection::Value;
use super::host::Port;
use super::proxy::Proxy;
use super::server::{Encryption, HARNESS, Server};
use super::wait_for;

/// How long a node must be silent until the others call it dead, in a Cluster with replicas. With a shorter time, a
/// busy machine would get nodes called dead.
const NODE_TIMEOUT_MS: u32 = 2_000;
/// The same in a Cluster without replicas, where no test waits for it and many clients may slow a node down.
const NODE_TIMEOUT_ALONE_MS: u32 = 15_000;
/// How many times a replica's role is polled until it is asked again to take over: about a second.
const POLLS_PER_QUESTION: u32 = 100;
const SLOTS: u32 = 16_384;

/// A running Cluster; its nodes are killed when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// The nodes: first those that began as primaries, in the order of their slots, then the
    /// replicas, in the order of their primaries.
    pub nodes: Vec<Server>,
    /// The proxies in front of the nodes, in the order of the nodes; empty if clients reach the nodes directly.
    pub proxies: Vec<Proxy>,
}

impl Cluster {
    /// Starts a Cluster with this many primaries, and this many replicas of each.
    #[track_caller]
    pub fn start(primaries: usize, replicas: usize) -> Self {
        Self::start_with(primaries, replicas, Encryption::None, &[])
    }

    /// Starts a Cluster whose ports use `encryption`, with these lines of configuration in every node.
    #[track_caller]
    pub fn start_with(
        primaries: usize,
        replicas: usize,
        encryption: Encryption<'_>,
        lines: &[&str],
    ) -> Self {
        let timeout = if replicas == 0 {
            NODE_TIMEOUT_ALONE_MS
        } else {
            NODE_TIMEOUT_MS
        };
        let start = || start_node(timeout, encryption, lines);
        let count = primaries * (1 + replicas);
        let cluster = Self {
            nodes: (0..count).map(|_| start()).collect(),
            proxies: Vec::new(),
        };
        cluster.share_slots(primaries);
        for node in &cluster.nodes[1..] {
            let bus = node.command(&["CONFIG", "GET", "cluster-port"]);
            let (port, bus) = (node.port().to_string(), bus.named("cluster-port").text());
            cluster.nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        wait_for("the nodes know each other", || {
            let knows = |node: &Server| node.figure_of_cluster("cluster_known_nodes") == count;
            cluster.nodes.iter().all(knows).then_some(())
        });
        for (index, replica) in cluster.nodes[primaries..].iter().enumerate() {
            let primary = cluster.nodes[index % primaries].id();
            wait_for("the replica knows its primary", || {
                let answer = replica.ask(&["CLUSTER", "REPLICATE", &primary]).ok()?;
                answer.error().is_none().then_some(())
            });
        }
        cluster.wait_until_whole();
        wait_for("every node knows whose replica each one is", || {
            let knows = |node| cluster.knows_replicas(node, primaries);
            cluster.nodes.iter().all(knows).then_some(())
        });
        // Before that, Valkey 8.0 lists a replica under a shard of its own, and a node that is killed in the meantime
        // does not start again: "corrupted cluster config file".
        wait_for("every node has each replica in its primary's shard", || {
            let shards = |node: &Server| node.command(&["CLUSTER", "SHARDS"]).list().len();
            let mut nodes = cluster.nodes.iter();
            nodes.all(|node| shards(node) == primaries).then_some(())
        });
        cluster
    }

    /// Puts a proxy in front of each node; from then on, the nodes send clients to the proxies.
    #[track_caller]
    pub fn put_behind_proxies(&mut self) {
        let proxies = self.nodes.iter().map(|node| Proxy::to(node.address()));
        self.proxies = proxies.collect();
        self.name_proxies();
        wait_for("every node names the proxies", || {
            let names = |node: &Server| {
                let seen = node.command(&["CLUSTER", "NODES"]).text();
                let mut proxies = self.proxies.iter();
                proxies.all(|proxy| seen.contains(&format!("{}@", proxy.address())))
            };
            self.nodes.iter().all(names).then_some(())
        });
    }

    /// Has each node announce its proxy's port as its own; a node that restarts has forgotten that.
    pub fn name_proxies(&self) {
        for (node, proxy) in self.nodes.iter().zip(&self.proxies) {
            let port = proxy.address().port().to_string();
            node.command(&["CONFIG", "SET", "cluster-announce-port", &port]);
        }
    }

    /// Whether a node knows each replica as the replica of the primary that it began with.
    fn knows_replicas(&self, node: &Server, primaries: usize) -> bool {
        let seen = node.command(&["CLUSTER", "NODES"]).text();
        let mut replicas = self.nodes[primaries..].iter().enumerate();
        replicas.all(|(index, replica)| {
            let (id, of) = (replica.id(), self.nodes[index % primaries].id());
            let mut lines = seen.lines().map(|line| line.split(' '));
            lines.any(|mut words| words.next() == Some(&id) && words.nth(2) == Some(&of))
        })
    }

    fn share_slots(&self, primaries: usize) {
        let count = u32::try_from(primaries).expect("few primaries");
        for (node, index) in self.nodes.iter().zip(0..count) {
            let first = SLOTS * index / count;
            let last = SLOTS * (index + 1) / count - 1;
            let (first, last) = (first.to_string(), last.to_string());
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            // Epochs that differ from the start need not be settled by vote.
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
    }

    /// Waits until every running node sees all slots served and all replicas in step.
    #[track_caller]
    pub fn wait_until_whole(&self) {
        wait_for("the Cluster is whole", || {
            let mut alive = self.nodes.iter().filter(|node| node.is_running());
            alive.all(Server::sees_whole_cluster).then_some(())
        });
    }

    /// Returns the addresses of all nodes, as clients are to use them.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        if self.proxies.is_empty() {
            self.nodes.iter().map(Server::address).collect()
        } else {
            self.proxies.iter().map(Proxy::address).collect()
        }
    }

    /// Returns the slot of a key.
    #[track_caller]
    pub fn slot_of(&self, key: &str) -> u16 {
        let alive = self.any();
        let slot = alive.command(&["CLUSTER", "KEYSLOT", key]).integer();
        u16::try_from(slot).expect("a slot")
    }

    /// Returns the primary that serves a slot, as the running nodes see it.
    #[track_caller]
    pub fn primary_of(&self, slot: u16) -> &Server {
        let primary = self.primary_seen_by(self.any(), slot);
        primary.unwrap_or_else(|| panic!("slot {slot} is in nobody's hands"))
    }

    fn primary_seen_by(&self, node: &Server, slot: u16) -> Option<&Server> {
        let (slots, slot) = (node.command(&["CLUSTER", "SLOTS"]), i64::from(slot));
        let range = slots.list().iter().find(|range| {
            let range = range.list();
            (range[0].integer()..=range[1].integer()).contains(&slot)
        })?;
        Some(self.at(range.list()[2].list()[1].integer()))
    }

    /// Returns the node with that port, its own or its proxy's.
    #[track_caller]
    pub fn at(&self, port: i64) -> &Server {
        let mut ports = self
            .addresses()
            .into_iter()
            .map(|address| i64::from(address.port()));
        let index = ports.position(|known| known == port);
        &self.nodes[index.unwrap_or_else(|| panic!("no node on port {port}"))]
    }

    /// Returns the replicas of `primary`.
    #[track_caller]
    pub fn replicas_of(&self, primary: &Server) -> Vec<&Server> {
        let replicas = primary.command(&["CLUSTER", "REPLICAS", &primary.id()]);
        let replicas = replicas.list().iter().map(|line| {
            let line = line.text();
            let address = line.split([' ', '@']).nth(1).expect("an address");
            let (_, port) = address.rsplit_once(':').expect("a port");
            self.at(port.parse().expect("a number"))
        });
        replicas.collect()
    }

    /// Has a replica take over from its primary by agreement (CLUSTER FAILOVER), and waits until it has.
    #[track_caller]
    pub fn hand_over(&self, replica: &Server) {
        // A node that has just restarted still takes itself for the primary that it was, for a moment.
        wait_for("the replica is one", || {
            (replica.role() == "slave").then_some(())
        });
        let mut polls = 0_u32;
        wait_for("the replica takes over", || {
            if replica.role() == "master" {
                return Some(());
            }
            // The request is lost if one of the two has just restarted.
            if polls.is_multiple_of(POLLS_PER_QUESTION) {
                replica.ask(&["CLUSTER", "FAILOVER"]).ok()?;
            }
            polls += 1;
            None
        });
        self.wait_for_primary(replica);
        self.wait_until_whole();
    }

    /// Waits until `node` is a primary and every running node knows it.
    #[track_caller]
    pub fn wait_for_primary(&self, node: &Server) {
        let id = node.id();
        wait_for("every node knows the new primary", || {
            let knows = |other: &Server| {
                let nodes = other.command(&["CLUSTER", "NODES"]).text();
                let mut lines = nodes.lines();
                lines.any(|line| line.starts_with(&id) && line.contains("master"))
            };
            let mut running = self.nodes.iter().filter(|node| node.is_running());
            running.all(knows).then_some(())
        });
    }

    /// Begins to move a slot: until [`Cluster::finish_move`] the old primary answers ASK for keys that
    /// it no longer has, and TRYAGAIN for several keys of which it has some.
    #[track_caller]
    pub fn begin_move(&self, slot: u16, to: &Server) {
        self.put_ahead(to);
        let (from, slot) = (self.primary_of(slot), slot.to_string());
        to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from.id()]);
        from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to.id()]);
    }

    /// Gives a node the newest epoch, unless it has it already, and waits until all nodes know that epoch.
    ///
    /// So a delayed message of a slot's former owner cannot take the slot away from the node again.
    #[track_caller]
    fn put_ahead(&self, node: &Server) {
        let answer = node.command(&["CLUSTER", "BUMPEPOCH"]).text();
        let epoch = answer
            .split(' ')
            .next_back()
            .and_then(|word| word.parse().ok());
        let epoch: usize = epoch.unwrap_or_else(|| panic!("no epoch in {answer}"));
        wait_for("every node knows the newest epoch", || {
            let knows = |node: &Server| node.figure_of_cluster("cluster_current_epoch") >= epoch;
            let mut running = self.nodes.iter().filter(|node| node.is_running());
            running.all(knows).then_some(())
        });
    }

    /// Moves up to `count` keys of a slot; returns how many were found.
    #[track_caller]
    pub fn move_keys(&self, slot: u16, to: &Server, count: usize) -> usize {
        let (from, port) = (self.primary_of(slot), to.port().to_string());
        let (slot, count) = (slot.to_string(), count.to_string());
        let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, &count]);
        let keys: Vec<String> = keys.list().iter().map(Value::text).collect();
        if !keys.is_empty() {
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
            words.extend(["AUTH2", HARNESS.0, HARNESS.1, "KEYS"]);
            words.extend(keys.iter().map(String::as_str));
            from.command(&words);
        }
        keys.len()
    }

    /// Moves the remaining keys, gives the slot to its new primary, and waits until all nodes agree.
    #[track_caller]
    pub fn finish_move(&self, slot: u16, to: &Server) {
        let from = self.primary_of(slot);
        while self.move_keys(slot, to, 100) > 0 {}
        let (number, slot, id) = (slot, slot.to_string(), to.id());
        // The new primary first, so that no client is sent to a node that does not know of its slot yet.
        for node in [to, from] {
            node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
        let others = self.nodes.iter().filter(|node| node.is_running());
        for node in others.filter(|node| node.role() == "master") {
            node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
        wait_for("every node knows where the slot is", || {
            let mut running = self.nodes.iter().filter(|node| node.is_running());
            let knows = |node: &Server| {
                let primary = self.primary_seen_by(node, number);
                primary.is_some_and(|primary| primary.port() == to.port())
            };
            running.all(knows).then_some(())
        });
    }

    /// Moves a slot together with its keys.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, to: &Server) {
        self.begin_move(slot, to);
        self.finish_move(slot, to);
    }

    fn any(&self) -> &Server {
        let mut nodes = self.nodes.iter();
        let node = nodes.find(|node| node.is_running() && node.sees_whole_cluster());
        node.or_else(|| self.nodes.iter().find(|node| node.is_running()))
            .expect("a node runs")
    }
}

#[track_caller]
fn start_node(timeout: u32, encryption: Encryption<'_>, lines: &[&str]) -> Server {
    let bus = Port::reserve();
    let timeout = format!("cluster-node-timeout {timeout}");
    let bus_line = format!("cluster-port {}", bus.address.port());
    let mut all = vec!["cluster-enabled yes", &timeout, &bus_line];
    if !matches!(encryption, Encryption::None) {
        all.extend(["tls-cluster yes", "tls-replication yes"]);
    }
    all.extend(lines);
    let mut node = Server::start_encrypted(encryption, &all);
    node.bus = Some(bus);
    node
}

impl Server {
    fn id(&self) -> String {
        self.command(&["CLUSTER", "MYID"]).text()
    }

    fn figure_of_cluster(&self, name: &str) -> usize {
        let info = self.command(&["CLUSTER", "INFO"]).text();
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|rest| rest.strip_prefix(':')?.trim_end().parse().ok());
        value.unwrap_or_else(|| panic!("no number {name} in {info}"))
    }

    fn sees_whole_cluster(&self) -> bool {
        let info = self.command(&["CLUSTER", "INFO"]).text();
        let nodes = self.command(&["CLUSTER", "NODES"]).text();
        let in_step = self.role() == "master" || self.is_in_step();
        info.contains("cluster_state:ok")
            && info.contains("cluster_slots_ok:16384")
            && !nodes.contains("handshake")
            && in_step
    }
}
