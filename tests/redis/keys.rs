//! Directives for single clients, on gateways that share a Redis.

use serde_json::{Value, json};

use crate::support::fleet::{CLIENT, Fleet};
use crate::support::origin::{After, Gate as Door, Origin};
use crate::support::redis::{Cluster, Fault, Proxy, Sentinels, Server, listed};
use crate::support::{Client, Config, Process, TOKEN, eventually, get, order};

/// Key under which Redis keeps the directives.
const KEY: &str = "tollgate:{nodes}:directives1";

/// A file with a policy by key and one by address, and a token for the admin port.
fn config(url: &str, upstream: &str) -> Config {
    Config::to(upstream)
        .policy(
            "per-key",
            &format!("quota = '5 per hour'\npartition = ['header:{CLIENT}']\nrefund_on = ['4xx']"),
        )
        .policy("per-ip", "quota = '1000 per hour'\npartition = ['ip']")
        .route("/*", "policies = ['per-key', 'per-ip']")
        .with(&format!(
            "[log]\nformat = 'json'\n[store]\nurl = '{url}'\ntimeout = '10s'"
        ))
        .one_worker()
        .admin_token(TOKEN)
}

/// Starts three gateways with that file.
fn fleet(url: &str, upstream: &str) -> Fleet {
    Fleet::of(3, &config(url, upstream))
}

fn command(gateway: &Process, command: &str, content: &Value) -> Value {
    let answer = order(gateway.admin, command, content);
    assert_eq!(answer.status, 200, "{command} {content}: {}", answer.text());
    answer.json()
}

fn status(gateway: &Process, key: &str) -> u16 {
    get(gateway.public, "/", &format!("{CLIENT}: {key}\r\n")).status
}

/// Waits until every gateway lists `orders` directives, and checks how each answers a client.
#[track_caller]
fn all_answer(fleet: &Fleet, orders: usize, key: &str, expected: u16) {
    for gateway in &fleet.gateways {
        eventually(&format!("{orders} orders are known"), || {
            let mut client = Client::connect(gateway.admin);
            let listed = client.ask(format!(
                "GET /api/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            ));
            let listed = listed.json()["directives"].as_array().map(Vec::len);
            (listed == Some(orders)).then_some(())
        });
        assert_eq!(status(gateway, key), expected);
    }
}

fn is_known(gateway: &Process) -> bool {
    let ready = get(gateway.admin, "/readyz", "").text();
    ready.starts_with("ok") && !ready.contains("not known")
}

fn ready(fleet: &Fleet) {
    for gateway in &fleet.gateways {
        eventually("the directives are known", || {
            is_known(gateway).then_some(())
        });
    }
}

/// A directive given at one gateway is in force at all of them, and any of them can end it.
fn orders_reach_every_gateway(url: &str) {
    let fleet = fleet(url, "builtin:status/204");
    ready(&fleet);
    let [one, two, three] = &*fleet.gateways else {
        panic!("three gateways");
    };
    let alice = |more: Value| {
        let mut content = json!({ "policy": "per-key", "value": "alice" });
        if let (Value::Object(content), Value::Object(more)) = (&mut content, more) {
            content.extend(more);
        }
        content
    };
    command(one, "block", &alice(json!({ "for": "1h" })));
    all_answer(&fleet, 1, "alice", 403);
    assert_eq!(status(two, "bob"), 204);
    command(three, "unblock", &alice(json!({})));
    all_answer(&fleet, 0, "alice", 204);
    while status(one, "alice") == 204 {}
    assert_eq!(status(two, "alice"), 429);
    command(
        two,
        "set",
        &alice(json!({ "quota": "50 per hour", "for": "1h" })),
    );
    all_answer(&fleet, 1, "alice", 204);
    command(three, "set", &alice(json!({ "end": true })));
    all_answer(&fleet, 0, "alice", 429);
    // Every gateway remembers the refusal, and forgets it on the reset.
    let reset = command(one, "reset", &alice(json!({})));
    assert_eq!(reset["before"]["quotas"][0]["remaining"], 0);
    for (gateway, expected) in [one, two, three, one, two, three]
        .iter()
        .zip([204, 204, 204, 204, 204, 429])
    {
        assert_eq!(status(gateway, "alice"), expected);
    }
    let left = command(one, "adjust", &alice(json!({ "units": 2 })));
    assert_eq!(left["quotas"][0]["remaining"], 2);
    let statuses: Vec<u16> = (0..3).map(|_| status(one, "alice")).collect();
    assert_eq!(statuses, [204, 204, 429]);
    let everywhere = json!({ "policy": "per-ip", "value": "127.0.0.0/8", "everywhere": true });
    command(one, "block", &everywhere);
    all_answer(&fleet, 1, "bob", 403);
}

#[test]
fn orders_reach_every_gateway_of_one_redis() {
    let server = Server::start();
    orders_reach_every_gateway(&format!("redis://{}", server.address()));
}

#[test]
fn orders_reach_every_gateway_of_a_cluster() {
    let cluster = Cluster::start(3, 0);
    orders_reach_every_gateway(&format!("redis+cluster://{}", listed(&cluster.addresses())));
}

#[test]
fn orders_reach_every_gateway_of_sentinels() {
    let group = Sentinels::start();
    orders_reach_every_gateway(&format!(
        "redis+sentinel://{}/main",
        listed(&group.addresses())
    ));
}

#[test]
fn orders_stay_while_redis_is_away_and_are_written_back_when_it_has_lost_them() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let fleet = fleet(
        &format!("redis://{}", proxy.address()),
        "builtin:status/204",
    );
    ready(&fleet);
    let alice = json!({ "policy": "per-key", "value": "alice", "for": "1h" });
    command(&fleet.gateways[0], "block", &alice);
    all_answer(&fleet, 1, "alice", 403);
    proxy.set(Fault::Refuse);
    proxy.reset_all();
    all_answer(&fleet, 1, "alice", 403);
    server.command(&["FLUSHALL"]);
    proxy.set(Fault::None);
    eventually("the block is written back", || {
        let keys = server.command(&["HLEN", KEY]);
        (keys.integer() == 3).then_some(())
    });
    all_answer(&fleet, 1, "alice", 403);
    // A server that took another one's place may have missed the latest directive.
    let alice = json!({ "policy": "per-key", "value": "alice" });
    eventually("the second gateway reaches Redis again, too", || {
        let answer = order(fleet.gateways[1].admin, "unblock", &alice);
        (answer.status == 200).then_some(())
    });
    all_answer(&fleet, 0, "carol", 204);
    server.command(&[
        "HSET",
        KEY,
        "version",
        "1",
        "old",
        "\0\u{1}\0\0\0\0\0not of this version",
    ]);
    eventually("the unblocking is written back", || {
        let old = server.command(&["HEXISTS", KEY, "old"]);
        (old.integer() == 0).then_some(())
    });
    all_answer(&fleet, 0, "alice", 204);
}

#[test]
fn a_gateway_that_starts_while_redis_is_away_says_that_it_knows_no_orders() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let url = format!("redis://{}", proxy.address());
    let fleet = fleet(&url, "builtin:status/204");
    ready(&fleet);
    let alice = json!({ "policy": "per-key", "value": "alice", "for": "1h" });
    command(&fleet.gateways[0], "block", &alice);
    proxy.set(Fault::Refuse);
    let late = Process::start(&config(&url, "builtin:status/204"));
    let ordered = "directives for single clients";
    late.wait_for_line(&[ordered, "are not known yet"]);
    assert!(!is_known(&late));
    assert_eq!(status(&late, "alice"), 204);
    proxy.set(Fault::None);
    late.wait_for_line(&[ordered, "are known"]);
    assert!(is_known(&late));
    eventually("the block holds there", || {
        (status(&late, "alice") == 403).then_some(())
    });
}

#[test]
fn what_was_charged_before_a_reset_gives_nothing_back_after_it() {
    let server = Server::start();
    let door = Door::default();
    let opened = door.clone();
    let origin = Origin::scripted(move |exchange| {
        if exchange.target() == "/held" {
            opened.wait();
            exchange.write("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
        } else {
            exchange.write("HTTP/1.1 204 No Content\r\n\r\n")?;
        }
        Ok(After::Keep)
    });
    let fleet = fleet(&format!("redis://{}", server.address()), &origin.url());
    ready(&fleet);
    let [one, two, _] = &*fleet.gateways else {
        panic!("three gateways");
    };
    let mut held: Vec<Client> = (0..3)
        .map(|_| Client::asking(one.public, "/held", &format!("{CLIENT}: alice\r\n")))
        .collect();
    let alice = json!({ "policy": "per-key", "value": "alice" });
    eventually("three are charged", || {
        let left = command(two, "get", &alice);
        (left["quotas"][0]["remaining"] == 2).then_some(())
    });
    command(two, "reset", &alice);
    let admitted = (0..6).filter(|_| status(two, "alice") == 204).count();
    assert_eq!(admitted, 5);
    door.open();
    for client in &mut held {
        assert_eq!(client.answer().status, 404);
    }
    // One worker settles in order: when this later charge is back, so are all earlier ones.
    let fields = format!("{CLIENT}: carol\r\n");
    assert_eq!(get(one.public, "/held", &fields).status, 404);
    let carol = json!({ "policy": "per-key", "value": "carol" });
    eventually("a later charge has come back", || {
        let left = command(two, "get", &carol);
        (left["quotas"][0]["remaining"] == 5).then_some(())
    });
    assert_eq!(status(one, "alice"), 429);
}
