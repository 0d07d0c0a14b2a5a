//! A nemesis: it makes real servers and their network fail, in an order that a seed decides, heals them, and records
//! when it did what.

use std::cell::RefCell;
use std::fmt;
use std::thread::sleep;
use std::time::Duration;

use super::recording::Watch;
use crate::support::redis::{Cluster, Fault, Proxy, Sentinels, Server, Value, listed};
use crate::support::{Client, Draws, Fleet, Metered, Process, eventually, fleet};

/// The Redis deployment in which a fleet keeps its counters.
#[expect(clippy::large_enum_variant, reason = "a test has one")]
pub enum Realm {
    Single { server: Server, proxy: Proxy },
    Sentinels(Sentinels),
    Cluster(Cluster),
}

/// A failure that the nemesis can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// The server is killed, and comes back empty.
    Kill,
    /// The server is stopped, and continued later.
    Stop,
    /// The network holds back what is sent, and delivers it in the end.
    BlackHole,
    /// Every connection is reset, and new ones are refused for a while.
    Refuse,
    /// One connection is closed by the server.
    KillClient,
    /// The server has no memory left for new keys.
    Fill,
    /// Another server takes a primary's place.
    FailOver,
    /// Slots move together with their keys.
    Reshard,
}

/// One failure, from just before it until everything is well again.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub deed: Deed,
    pub since: i64,
    pub until: i64,
}

/// Record of what happened to a fleet.
#[derive(Debug, Default)]
pub struct Trace {
    pub began: i64,
    pub events: Vec<Event>,
    /// Beginnings and ends of quiet times in which a busy machine answered too late.
    pub busy: Vec<(i64, i64)>,
}

/// Checks whether every gateway decides in Redis, on connections of its own.
pub struct Prober<'a> {
    fleet: &'a Fleet,
    realm: &'a Realm,
    clients: RefCell<Vec<Client>>,
    /// Connections that each gateway has to each primary that the prober uses.
    connections: Vec<u64>,
}

/// Number of connections to each gateway: enough that each worker has one.
const CONNECTIONS: usize = 4;
/// Number of names to send requests for: enough that each primary has one.
const NAMES: usize = 16;
/// Shortest and longest (exclusive) time for a fault, and for the quiet between faults, in microseconds.
const FAULT: (i64, i64) = (20_000, 700_000);
const QUIET: (i64, i64) = (200_000, 800_000);
/// Time after which a server that is back has executed everything that was under way to it.
const AFTERMATH: Duration = Duration::from_millis(50);
/// Number of slots that move at a time.
const MOVES: usize = 5;

impl Realm {
    /// Returns the URL of the deployment in `[store]`.
    pub fn url(&self) -> String {
        match self {
            Self::Single { proxy, .. } => format!("redis://{}", proxy.address()),
            Self::Sentinels(group) => {
                format!("redis+sentinel://{}/main", listed(&group.addresses()))
            }
            Self::Cluster(cluster) => format!("redis+cluster://{}", listed(&cluster.addresses())),
        }
    }

    /// Whether a plan over several partitions is decided in one step.
    pub fn is_one_server(&self) -> bool {
        !matches!(self, Self::Cluster(_))
    }

    /// Returns how many primaries have keys of the prober; a reshard may take away a primary's last one.
    fn asked(&self) -> u64 {
        let Self::Cluster(cluster) = self else {
            return 1;
        };
        let names = |node: &&Server| !node.command(&["KEYS", "*:probe"]).list().is_empty();
        let primaries = cluster.nodes.iter().filter(|node| node.role() == "master");
        primaries.filter(names).count() as u64
    }

    fn deeds(&self) -> &'static [Deed] {
        use Deed::{BlackHole, FailOver, Fill, Kill, KillClient, Refuse, Reshard, Stop};
        match self {
            Self::Single { .. } => &[Kill, Stop, BlackHole, Refuse, KillClient, Fill],
            Self::Sentinels(_) => &[FailOver, Stop, KillClient, Fill],
            Self::Cluster(cluster) if cluster.nodes.len() == 3 => {
                &[Stop, BlackHole, Refuse, KillClient, Fill, Reshard]
            }
            Self::Cluster(_) => &[Stop, BlackHole, Refuse, KillClient, Fill, Reshard, FailOver],
        }
    }

    /// Returns a serving primary, and the proxy in front of it, if there is one.
    fn primary(&self, draws: &mut Draws) -> (&Server, Option<&Proxy>) {
        match self {
            Self::Single { server, proxy } => (server, Some(proxy)),
            Self::Sentinels(group) => {
                let primary = eventually("the sentinels agree", || group.primary());
                (primary, None)
            }
            Self::Cluster(cluster) => {
                let mut nodes = cluster
                    .nodes
                    .iter()
                    .zip(&cluster.proxies)
                    .collect::<Vec<_>>();
                nodes.retain(|(node, _)| node.role() == "master");
                let (node, proxy) = nodes[draws.below(nodes.len())];
                (node, Some(proxy))
            }
        }
    }

    /// Causes the failure, and ends it.
    fn suffer(&self, deed: Deed, draws: &mut Draws) {
        let span = draw_span(draws, FAULT);
        let (server, proxy) = self.primary(draws);
        match deed {
            Deed::Kill => {
                server.kill();
                sleep(span);
                server.restart();
            }
            Deed::Stop => {
                server.stop();
                sleep(span);
                server.resume();
            }
            Deed::BlackHole | Deed::Refuse => {
                let proxy = proxy.expect("its network is in between");
                if deed == Deed::Refuse {
                    proxy.set(Fault::Refuse);
                    proxy.reset_all();
                } else {
                    proxy.set(Fault::BlackHole);
                }
                sleep(span);
                proxy.set(Fault::None);
            }
            Deed::KillClient => {
                let clients = server.command(&["CLIENT", "LIST", "TYPE", "normal"]).text();
                let of_gateways = clients.lines().filter(|line| line.contains("user=default"));
                let ids =
                    of_gateways.filter_map(|line| line.split(' ').next()?.strip_prefix("id="));
                let ids: Vec<&str> = ids.collect();
                if !ids.is_empty() {
                    // The connection may have ended by itself.
                    let _ = server.ask(&["CLIENT", "KILL", "ID", ids[draws.below(ids.len())]]);
                }
            }
            Deed::Fill => {
                server.command(&["CONFIG", "SET", "maxmemory", "1"]);
                sleep(span);
                server.command(&["CONFIG", "SET", "maxmemory", "0"]);
            }
            Deed::FailOver => self.fail_over(server),
            Deed::Reshard => self.reshard(draws),
        }
    }

    fn fail_over(&self, primary: &Server) {
        match self {
            Self::Single { .. } => {}
            Self::Sentinels(group) => {
                group.fail_over();
            }
            Self::Cluster(cluster) => {
                let replica = cluster.replicas_of(primary)[0];
                primary.kill();
                cluster.wait_for_primary(replica);
                primary.restart();
                cluster.name_proxies();
                cluster.wait_until_whole();
            }
        }
    }

    fn reshard(&self, draws: &mut Draws) {
        let Self::Cluster(cluster) = self else { return };
        let mut nodes: Vec<&Server> = cluster.nodes.iter().collect();
        nodes.retain(|node| node.role() == "master");
        // In one direction, like `redis-cli --cluster reshard`.
        let from = draws.below(nodes.len());
        let to = (from + 1 + draws.below(nodes.len() - 1)) % nodes.len();
        for _ in 0..MOVES {
            if let Value::Bytes(key) = nodes[from].command(&["RANDOMKEY"]) {
                let slot = cluster.slot_of(&String::from_utf8_lossy(&key));
                cluster.move_slot(slot, nodes[to]);
            }
        }
    }
}

impl Deed {
    /// Whether gateways may decide without Redis in the meantime.
    pub fn is_outage(self) -> bool {
        self != Self::Reshard
    }

    /// Whether Redis may forget what was spent.
    pub fn is_loss(self) -> bool {
        matches!(self, Self::Kill | Self::FailOver)
    }
}

/// Causes failures until `is_over`, but at least one.
pub fn haunt(
    realm: &Realm,
    prober: &Prober<'_>,
    seed: u64,
    watch: Watch,
    is_over: impl Fn() -> bool,
) -> Trace {
    let (mut draws, mut trace) = (Draws(seed), Trace::default());
    let (mut well_since, mut counts) = (watch.now(), prober.undecided());
    trace.began = well_since;
    loop {
        sleep(draw_span(&mut draws, QUIET));
        let since = watch.now();
        note_quiet(&mut trace, (well_since, since), counts, prober.undecided());
        if is_over() && !trace.events.is_empty() {
            return trace;
        }
        let deeds = realm.deeds();
        let deed = deeds[draws.below(deeds.len())];
        let before = prober.undecided();
        realm.suffer(deed, &mut draws);
        prober.wait_until_well();
        sleep(AFTERMATH);
        (well_since, counts) = (watch.now(), prober.undecided());
        if !deed.is_outage() {
            note_quiet(&mut trace, (since, well_since), before, counts);
        }
        trace.events.push(Event {
            deed,
            since,
            until: well_since,
        });
    }
}

/// Records a time in which nothing failed; only if the machine is too busy are there decisions without Redis then.
#[track_caller]
fn note_quiet(trace: &mut Trace, time: (i64, i64), before: [u64; 4], after: [u64; 4]) {
    if after[0] > before[0] {
        trace.busy.push(time);
    } else {
        assert_eq!(after, before, "late, failed, unsent, unasked in {trace}");
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = |time: i64| Duration::from_micros((time - self.began).unsigned_abs());
        for event in &self.events {
            let (from, to) = (since(event.since), since(event.until));
            writeln!(f, "    {:?} from {from:.1?} to {to:.1?}", event.deed)?;
        }
        for (from, to) in &self.busy {
            let (from, to) = (since(*from), since(*to));
            writeln!(f, "    a busy machine from {from:.1?} to {to:.1?}")?;
        }
        Ok(())
    }
}

impl<'a> Prober<'a> {
    /// Lines of `[policies.probe]`; next, the path of its route.
    pub const POLICY: &'static str = "quota = '1000000 per hour'\non_store_failure = 'closed'\n\
        partition = ['header:X-Api-Key']";
    pub const ROUTE: &'static str = "/probe";

    /// Sends requests until each gateway decides in Redis, whichever primary has the key.
    #[track_caller]
    pub fn start(fleet: &'a Fleet, realm: &'a Realm) -> Self {
        let gateways = fleet.addresses().into_iter();
        let clients =
            gateways.flat_map(|gateway| (0..CONNECTIONS).map(move |_| Client::connect(gateway)));
        let mut prober = Self {
            fleet,
            realm,
            clients: RefCell::new(clients.collect()),
            connections: vec![0; fleet.gateways.len()],
        };
        prober.wait_until_well();
        // By now, each worker has used each primary that has a name.
        let (all, primaries) = (prober.numbers("tollgate_store_connections"), realm.asked());
        prober.connections = all.map(|all| all / primaries).collect();
        prober
    }

    #[track_caller]
    fn wait_until_well(&self) {
        eventually("every gateway decides in Redis", || {
            let mut clients = self.clients.borrow_mut();
            let mut asked = clients.iter_mut().enumerate().flat_map(|(index, client)| {
                let gateway = &self.fleet.gateways[index / CONNECTIONS];
                let answers = (0..NAMES).map(|name| is_decided(gateway, client, name));
                answers.collect::<Vec<_>>()
            });
            let connected = self
                .numbers("tollgate_store_connections")
                .zip(&self.connections);
            let primaries = self.realm.asked();
            let is_well = connected
                .into_iter()
                .all(|(now, to_each)| now >= to_each * primaries);
            (asked.all(|is_decided| is_decided) && is_well).then_some(())
        });
    }

    /// Returns how many decisions of the fleet were late, and how many failed for each of three other reasons.
    pub fn undecided(&self) -> [u64; 4] {
        ["late", "failed", "unsent", "unasked"].map(|result| {
            let name = format!("tollgate_store_decisions_total{{result=\"{result}\"}}");
            self.numbers(&name).sum()
        })
    }

    /// Returns the value of that metric for each gateway.
    fn numbers(&self, name: &str) -> impl Iterator<Item = u64> {
        let gateways = self.fleet.gateways.iter();
        gateways.map(move |gateway| gateway.series(name).unwrap_or(0))
    }
}

/// Sends a request for that name, and returns whether Redis decided it.
#[track_caller]
fn is_decided(gateway: &Process, client: &mut Client, name: usize) -> bool {
    let (route, field) = (Prober::ROUTE, fleet::CLIENT);
    client.send(format!(
        "GET {route} HTTP/1.1\r\nHost: a.test\r\n{field}: {name}\r\n\r\n"
    ));
    let answer = client.try_answer();
    let answer = answer.unwrap_or_else(|error| panic!("{error}: {:#?}", gateway.lines()));
    answer.status == 200
}

fn draw_span(draws: &mut Draws, (from, to): (i64, i64)) -> Duration {
    Duration::from_micros((from + draws.below(to - from)).unsigned_abs())
}
