//! What a request costs: told by a header, settled once it is answered, given back where it does not count.

use super::stores::on_each_store;
use crate::support::ratelimit::remaining;
use crate::support::{After, Client, Config, Origin, Refusing, Unreachable, eventually, get, secs};

/// An origin whose answers have the status and field in the path: `/200/x-cost: 5` is answered with 200 and that field.
fn reporting() -> Origin {
    Origin::scripted(|exchange| {
        exchange.read_body()?;
        let target = exchange.target();
        let target = target.replace("%20", " ");
        let mut parts = target.trim_start_matches('/').splitn(2, '/');
        let status = parts.next().unwrap_or("200").to_owned();
        let field = parts.next().filter(|field| !field.is_empty());
        let field = field.map_or(String::new(), |field| format!("{field}\r\n"));
        let answer = format!("HTTP/1.1 {status} x\r\n{field}Content-Length: 0\r\n\r\n");
        exchange.wire.write(answer.as_bytes())?;
        Ok(After::Keep)
    })
}

fn ask(client: &mut Client, target: &str) -> (u16, i64) {
    let answer = client.get(target, "");
    (answer.status, remaining(&answer, "p"))
}

#[test]
fn a_request_header_tells_the_cost_within_its_bounds() {
    on_each_store(|start| {
        let policy = "quota = '2000 per hour'\nalgorithm = 'fixed-window'\npartition = []\n\
                      cost = 'request-header:x-cost'\nreserve = 3\nmin_cost = 2\nmax_cost = 1000";
        let origin = Origin::plain();
        let running = start(Config::limited(origin.url(), policy));
        let mut left = 2000;
        for (fields, cost) in [
            ("", Some(3)),
            ("X-Cost: 7\r\n", Some(7)),
            ("X-Cost: 0\r\n", Some(2)),
            ("X-Cost: 18446744073709551616\r\n", Some(1000)),
            ("X-Cost: 1e9\r\n", None),
            ("X-Cost: -1\r\n", None),
            ("X-Cost: 01\r\n", None),
            ("X-Cost: 1.5\r\n", None),
            ("X-Cost:\r\n", None),
            ("X-Cost: 1\r\nX-Cost: 1\r\n", None),
            ("X_Cost: 500\r\n", Some(3)),
        ] {
            let before = origin.requests().len();
            let answer = Client::connect(running.public).get("/", fields);
            let Some(cost) = cost else {
                assert_eq!(answer.status, 400, "{fields:?}");
                assert_eq!(origin.requests().len(), before, "{fields:?}");
                continue;
            };
            left -= cost;
            assert_eq!(
                (answer.status, remaining(&answer, "p")),
                (200, left),
                "{fields:?}"
            );
            let seen = origin.requests().pop().expect("it was forwarded").head;
            assert!(
                seen.fields("x_cost").is_empty(),
                "it reads as the field that was counted"
            );
        }
    });
}

#[test]
fn a_routes_cost_is_spent_of_each_policy_or_of_those_that_it_names() {
    on_each_store(|start| {
        let policy = |cost| format!("quota = '100 per hour'\npartition = []\ncost = {cost}");
        let both = "policies = ['a', 'b']";
        let config = Config::to("builtin:status/204")
            .policy("a", &policy(1))
            .policy("b", &policy(2))
            .route("/*", both)
            .route("/each", &format!("{both}\ncost = 10"))
            .route("/one", &format!("{both}\ncost = {{ b = 10 }}"))
            .route("/table", &format!("{both}\n[routes.cost]\na = 0\nb = 5"));
        let running = start(config);
        let mut client = Client::connect(running.public);
        let (mut a, mut b) = (100, 100);
        for (target, of_a, of_b) in [
            ("/", 1, 2),
            ("/each", 10, 10),
            ("/one", 1, 10),
            ("/table", 0, 5),
        ] {
            (a, b) = (a - of_a, b - of_b);
            let answer = client.get(target, "");
            let left = ["a", "b"].map(|name| remaining(&answer, name));
            assert_eq!(left, [a, b], "{target}");
        }
    });
}

#[test]
fn a_response_header_settles_what_was_reserved() {
    on_each_store(|start| {
        let origin = reporting();
        let policy = "quota = '100 per hour'\nalgorithm = 'fixed-window'\npartition = []\n\
                      cost = 'response-header:x-cost'\nreserve = 10\nmax_cost = 50";
        let config = Config::limited(origin.url(), policy).admin("127.0.0.1:0");
        let running = start(config.one_worker());
        let mut client = Client::connect(running.public);
        for (target, left) in [
            ("/200/x-cost:%2025", 75),
            ("/200/x-cost:%203", 72),
            ("/200/x-cost:%2099", 22),
            // The cost is unreadable or missing: the reserve stays.
            ("/200/x-cost:%201.5", 12),
            ("/200", 2),
        ] {
            assert_eq!(ask(&mut client, target), (200, left), "{target}");
        }
        // The reserve does not fit any more.
        assert_eq!(ask(&mut client, "/200/x-cost:%201"), (429, 2));
        let missing = "tollgate_cost_missing_total{policy=\"p\",reason=\"header\"} 2";
        let admin = running.gateway.admin_address().expect("an admin port");
        let metrics = get(admin, "/metrics", "").text();
        assert!(metrics.lines().any(|line| line == missing), "{metrics}");
    });
}

#[test]
fn a_cost_above_the_reserve_overshoots_and_then_refuses() {
    on_each_store(|start| {
        let origin = reporting();
        let policy = "quota = '10 per minute'\nalgorithm = 'sliding-log'\npartition = []\n\
                      cost = 'response-header:x-cost'";
        let running = start(Config::limited(origin.url(), policy).one_worker());
        let mut client = Client::connect(running.public);
        assert_eq!(ask(&mut client, "/200/x-cost:%208"), (200, 2));
        assert_eq!(ask(&mut client, "/200/x-cost:%2030"), (200, 0));
        let refused = client.get("/200", "");
        assert_eq!((refused.status, remaining(&refused, "p")), (429, 0));
        running.clock.advance(secs(60));
        assert_eq!(ask(&mut client, "/200/x-cost:%201"), (200, 9));
    });
}

#[test]
fn only_the_answers_of_count_status_count() {
    on_each_store(|start| {
        let origin = reporting();
        let policy =
            "quota = '3 per minute'\nalgorithm = 'fixed-window'\ncount_status = [401, 403]";
        let running = start(Config::limited(origin.url(), policy).one_worker());
        let mut client = Client::connect(running.public);
        let asked = [
            "/200", "/401", "/204", "/500", "/403", "/200", "/401", "/200",
        ];
        let answers = asked.map(|target| ask(&mut client, target));
        let expected = [
            (200, 3),
            (401, 2),
            (204, 2),
            (500, 2),
            (403, 1),
            (200, 1),
            (401, 0),
            (429, 0),
        ];
        assert_eq!(answers, expected);
    });
}

#[test]
fn what_refund_on_names_comes_back() {
    on_each_store(|start| {
        let origin = reporting();
        let refusing = Refusing::new();
        let policy =
            "quota = '5 per minute'\nalgorithm = 'gcra'\nrefund_on = [503, '4xx', 'connect']";
        let config = Config::limited(origin.url(), policy).one_worker().beside(
            "away",
            &refusing.url(),
            "/away",
            "policies = ['p']",
        );
        let running = start(config);
        let mut client = Client::connect(running.public);
        let asked = ["/503", "/404", "/500", "/away", "/200"];
        let answers = asked.map(|target| ask(&mut client, target));
        assert_eq!(answers, [(503, 5), (404, 5), (500, 4), (502, 4), (200, 3)]);
    });
}

#[test]
fn a_client_that_leaves_before_its_request_reached_an_upstream_spends_nothing() {
    on_each_store(|start| {
        let origin = Origin::mute();
        let policy = "quota = '5 per minute'\nalgorithm = 'fixed-window'\npartition = []";
        let unreachable = Unreachable::new();
        let config = Config::limited(unreachable.url(), policy)
            .one_worker()
            .beside("mute", &origin.url(), "/mute", "policies = ['p']")
            .beside(
                "here",
                "builtin:status/200",
                "/look",
                "policies = ['p']\ncost = 0",
            );
        let running = start(config);
        let mut client = Client::connect(running.public);
        let mut look_until = |left| {
            eventually("what is left changes", || {
                let answer = client.get("/look", "");
                (remaining(&answer, "p") == left).then_some(())
            });
        };
        let ask = |target| Client::asking(running.public, target, "");
        let sent = ask("/mute");
        origin.wait_for_requests(1);
        look_until(4);
        let unsent = ask("/unreachable");
        look_until(3);
        drop((sent, unsent));
        look_until(4);
        running.clock.advance(secs(1));
        look_until(4);
    });
}
