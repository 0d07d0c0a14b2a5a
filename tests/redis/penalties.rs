//! Penalties that a fleet shares, on one server, and over several slots of a Cluster.

use serde_json::json;

use crate::support::redis::{Cluster, Server, listed};
use crate::support::{Config, Process, TOKEN, get, order};

const ALICE: &str = "X-Api-Key: alice\r\n";

/// Starts two gateways with a penalty by key, and with a limit by tenant.
fn gateways(url: &str) -> [Process; 2] {
    let policy = "quota = '2 per second'\nalgorithm = 'fixed-window'\npenalty = '1h'\n\
                  partition = ['header:x-api-key']";
    let config = Config::to("builtin:status/204")
        .policy("p", policy)
        .policy(
            "tenant",
            "quota = '1000 per hour'\npartition = ['header:x-tenant']",
        )
        .route("/*", "policies = ['tenant', 'p']")
        .with(&format!("[store]\nurl = '{url}'\ntimeout = '10s'"))
        .one_worker()
        .admin_token(TOKEN);
    [(), ()].map(|()| Process::start(&config))
}

/// Sends requests to one gateway until it refuses, and then to the other one, which must refuse because of the penalty.
fn one_refusal_is_known_to_all(url: &str) {
    let [one, two] = gateways(url);
    let ask = |gateway: &Process, tenant: &str| {
        get(
            gateway.public,
            "/",
            &format!("{ALICE}X-Tenant: {tenant}\r\n"),
        )
    };
    let first = loop {
        let answer = ask(&one, "a");
        if answer.status != 204 {
            break answer;
        }
    };
    let wait = |answer: &crate::support::Answer| -> u64 {
        assert_eq!(answer.status, 429);
        answer
            .field("retry-after")
            .expect("a wait")
            .parse()
            .expect("seconds")
    };
    assert!(wait(&first) > 3_500, "{first:?}");
    for tenant in ["a", "b", "c", "d", "e"] {
        let answer = ask(&two, tenant);
        assert!(wait(&answer) > 3_500, "{answer:?}");
        assert!(answer.text().contains("abnormal-usage-detected"));
    }
    let bob = get(two.public, "/", "X-Api-Key: bob\r\n");
    assert_eq!(bob.status, 204);
    let alice = json!({ "policy": "p", "value": "alice" });
    let reset = order(one.admin, "reset", &alice);
    assert_eq!(reset.status, 200, "{}", reset.text());
    assert_eq!(ask(&two, "a").status, 204);
    assert_eq!(ask(&one, "a").status, 204);
}

#[test]
fn a_refusal_punishes_at_every_gateway() {
    let server = Server::start();
    one_refusal_is_known_to_all(&format!("redis://{}", server.address()));
}

#[test]
fn a_refusal_of_a_plan_in_several_slots_punishes_at_every_gateway() {
    let cluster = Cluster::start(3, 0);
    one_refusal_is_known_to_all(&format!("redis+cluster://{}", listed(&cluster.addresses())));
}
