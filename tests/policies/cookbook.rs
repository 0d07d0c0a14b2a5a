//! The recipes of `docs/cookbook.md`: each is short, loads as printed there, and does what it says.

mod plans;
mod ports;
mod providers;
mod tokens;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::stores::on_each_store_text;
use crate::support::issuer::Issuer;
use crate::support::ratelimit::remaining;
use crate::support::{After, Client, Origin, Recorded, Running, secs};

/// Returns a recipe that listens on a free port, with this origin in place of its upstream's.
fn recipe(name: &str, origin: &Origin) -> String {
    let text = fs::read_to_string(folder().join(format!("{name}.toml"))).expect("a recipe");
    let text = text.replace("127.0.0.1:8080", "127.0.0.1:0");
    let text = text.replace("http://127.0.0.1:9000", &origin.url());
    format!("{text}\n[admin]\naddress = \"off\"\n")
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/cookbook")
}

/// An origin that answers with the status and the field that a request asks for: `X-Answer: 401 x-units: 5`.
fn obedient() -> Origin {
    Origin::scripted(|exchange| {
        exchange.read_body()?;
        let wanted = exchange
            .head
            .fields("x-answer")
            .first()
            .map(ToString::to_string);
        let wanted = wanted.unwrap_or_else(|| "200".to_owned());
        let (status, field) = wanted.split_once(' ').unwrap_or((&wanted, "x-none: 0"));
        let answer = format!("HTTP/1.1 {status} x\r\n{field}\r\nContent-Length: 0\r\n\r\n");
        exchange.wire.write(answer.as_bytes())?;
        Ok(After::Keep)
    })
}

/// Sends `count` requests one after the other, and counts those that are answered with `status`.
fn count(client: &mut Client, target: &str, fields: &str, count: usize, status: u16) -> usize {
    let statuses = (0..count).map(|_| client.get(target, fields).status);
    statuses.filter(|one| *one == status).count()
}

/// Tests a recipe on each store.
fn cook(name: &str, taste: impl Fn(&Running, &Origin)) {
    let origin = obedient();
    let text = recipe(name, &origin);
    on_each_store_text(&text, |running| taste(running, &origin));
}

/// Tests a recipe on each store, with a function that makes a token of claims, which the recipe accepts.
fn with_issuer(text: &str, taste: impl Fn(&Running, &dyn Fn(Value) -> String)) {
    let issuer = Issuer::ec();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jwks.json");
    fs::write(&file, json!({ "keys": [issuer.jwk()] }).to_string()).expect("it is writable");
    let text = text.replace("/etc/tollgate/jwks.json", file.to_str().expect("text"));
    on_each_store_text(&text, |running| {
        taste(running, &|mut claims| {
            claims["iss"] = json!("https://id.example.com/");
            issuer.token(&claims)
        });
    });
}

#[test]
fn the_document_has_every_recipe_as_it_is_tested() {
    let document = folder().parent().expect("docs").join("cookbook.md");
    let document = fs::read_to_string(document).expect("the cookbook");
    let mut recipes = 0;
    for entry in fs::read_dir(folder()).expect("recipes") {
        let text = fs::read_to_string(entry.expect("a recipe").path()).expect("a recipe");
        assert!(
            document.contains(&format!("```toml\n{text}```\n")),
            "{text}"
        );
        let most = if text.contains("response-json:") {
            65
        } else {
            24
        };
        assert!(text.lines().count() <= most, "{text}");
        recipes += 1;
    }
    assert_eq!(recipes, 41);
}

#[test]
fn per_ip() {
    cook("per-ip", |running, _| {
        let mut client = Client::connect(running.public);
        assert_eq!(count(&mut client, "/", "", 15, 200), 10);
        let mut other = Client::connect_from([127, 0, 0, 9], running.public);
        assert_eq!(count(&mut other, "/", "", 1, 200), 1);
        for _ in 0..9 {
            running.clock.advance(secs(2));
            assert_eq!(count(&mut client, "/", "", 10, 200), 10);
        }
        running.clock.advance(secs(2));
        assert_eq!(count(&mut client, "/", "", 1, 429), 1);
    });
}

#[test]
fn plans() {
    cook("plans", |running, origin| {
        let mut client = Client::connect(running.public);
        let left = |client: &mut Client, key: &str, name: &str| {
            let answer = client.get("/", &format!("X-Api-Key: {key}\r\n"));
            (answer.status, remaining(&answer, name))
        };
        assert_eq!(left(&mut client, "basic-1", "plan"), (200, 99));
        assert_eq!(left(&mut client, "pro_1", "plan"), (200, 4999));
        assert_eq!(left(&mut client, "max_1", "plan:1h"), (200, 49_999));
        assert_eq!(client.get("/", "").status, 401);
        let tiers: Vec<Vec<String>> = (origin.requests().iter().rev().take(3))
            .map(|request| {
                request
                    .head
                    .fields("tollgate-tier")
                    .iter()
                    .map(ToString::to_string)
                    .collect()
            })
            .collect();
        assert_eq!(
            tiers,
            [vec!["max_*".to_owned()], vec!["pro_*".to_owned()], vec![]]
        );
    });
}

#[test]
fn metered() {
    cook("metered", |running, origin| {
        let mut client = Client::connect(running.public);
        let before = origin.requests().len();
        assert_eq!(count(&mut client, "/", "X-Api-Key: a\r\n", 1003, 200), 1003);
        let is_over = |request: &&Recorded| request.head.fields("tollgate-over") == ["included"];
        let requests = origin.requests();
        let over = requests[before..].iter().filter(is_over);
        assert_eq!(over.count(), 3);
    });
}

#[test]
fn usage() {
    cook("usage", |running, _| {
        let mut client = Client::connect(running.public);
        let key = "X-Api-Key: a\r\n";
        assert_eq!(count(&mut client, "/", key, 3, 200), 3);
        let answer = client.get("/usage?path=/v1/items&method=POST", key);
        assert_eq!(remaining(&answer, "per-key:1m"), 97);
        assert_eq!(remaining(&answer, "per-key:1d"), 9997);
        assert_eq!(
            count(
                &mut client,
                "/usage?path=/v1/items&method=POST",
                key,
                5,
                200
            ),
            5
        );
        assert_eq!(count(&mut client, "/", key, 98, 429), 1);
    });
}

#[test]
fn login() {
    cook("login", |running, _| {
        let mut client = Client::connect(running.public);
        let mut try_to = |answer: &str| {
            let request = format!(
                "POST /login HTTP/1.1\r\nHost: a.test\r\nX-Answer: {answer}\r\nContent-Length: 0\r\n\r\n"
            );
            client.send(request);
            client.answer().status
        };
        for _ in 0..20 {
            assert_eq!(try_to("200"), 200);
        }
        let failures: Vec<u16> = (0..7).map(|_| try_to("401")).collect();
        assert_eq!(failures, [401, 401, 401, 401, 401, 429, 429]);
        assert_eq!(try_to("200"), 429);
        running.clock.advance(secs(60));
        assert_eq!(try_to("403"), 403);
    });
}

#[test]
fn expensive() {
    cook("expensive", |running, _| {
        let mut client = Client::connect(running.public);
        assert_eq!(count(&mut client, "/search", "", 4, 200), 4);
        assert_eq!(count(&mut client, "/", "", 25, 200), 20);
        assert_eq!(count(&mut client, "/search", "", 1, 429), 1);
    });
}

#[test]
fn told_by_answer() {
    cook("told-by-answer", |running, _| {
        let mut client = Client::connect(running.public);
        for (answer, left) in [
            ("200 x-units: 300", 9700),
            ("200 x-units: 2", 9698),
            ("500 x-units: 400", 9698),
            ("200", 9688),
        ] {
            let fields = format!("X-Api-Key: a\r\nX-Answer: {answer}\r\n");
            let answer = client.get("/", &fields);
            assert_eq!(remaining(&answer, "units"), left, "{fields}");
        }
    });
}

#[test]
fn tenants() {
    cook("tenants", |running, _| {
        let mut client = Client::connect(running.public);
        let user = |user: usize| format!("X-Tenant: t\r\nX-User: {user}\r\n");
        for number in 0..10 {
            assert_eq!(count(&mut client, "/", &user(number), 101, 200), 100);
        }
        assert_eq!(count(&mut client, "/", &user(10), 1, 429), 1);
        assert_eq!(
            count(&mut client, "/", "X-Tenant: u\r\nX-User: 1\r\n", 1, 200),
            1
        );
    });
}

#[test]
fn try_first() {
    cook("try-first", |running, _| {
        let mut client = Client::connect(running.public);
        assert_eq!(count(&mut client, "/", "", 110, 200), 100);
    });
}

#[test]
fn exempt() {
    let origin = obedient();
    let text = recipe("exempt", &origin).replace("10.0.0.0/8", "127.0.1.0/24");
    on_each_store_text(&text, |running| {
        let mut client = Client::connect(running.public);
        assert_eq!(count(&mut client, "/", "", 61, 200), 60);
        assert_eq!(count(&mut client, "/healthz", "", 3, 200), 3);
        client.send("OPTIONS / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(client.answer().status, 200);
        let mut internal = Client::connect_from([127, 0, 1, 7], running.public);
        assert_eq!(count(&mut internal, "/", "", 70, 200), 70);
    });
}

#[test]
fn browser() {
    cook("browser", |running, origin| {
        let mut client = Client::connect(running.public);
        let before = origin.requests().len();
        let preflight = "OPTIONS /items HTTP/1.1\r\nHost: a.test\r\nOrigin: https://app.example.com\r\n\
                         Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: x-api-key\r\n\r\n";
        let answer = client.ask(preflight);
        assert_eq!((answer.status, remaining(&answer, "per-ip")), (200, 599));
        assert_eq!(origin.requests().len(), before + 1);
        let fields = "Origin: https://app.example.com\r\nX-Api-Key: a\r\n";
        assert_eq!(count(&mut client, "/items", fields, 100, 200), 100);
        let refused = client.get("/items", fields);
        assert_eq!(
            (refused.status, refused.field("retry-after").is_some()),
            (429, true)
        );
        let unknown = client.get("/items", "Origin: https://app.example.com\r\n");
        assert_eq!(unknown.status, 401);
        for answer in [refused, unknown] {
            let allowed = answer.field("access-control-allow-origin");
            assert_eq!(allowed, Some("https://app.example.com"));
            let exposed = answer.field("access-control-expose-headers");
            assert_eq!(exposed, Some("Retry-After, RateLimit, RateLimit-Policy"));
        }
    });
}

#[test]
fn jwks() {
    with_issuer(&recipe("jwks", &obedient()), |running, token| {
        let mut client = Client::connect(running.public);
        let mut left = |plan: &str, audience: &str| {
            let token = token(json!({ "sub": "u", "plan": plan, "aud": audience }));
            let answer = client.get("/", &format!("Authorization: Bearer {token}\r\n"));
            let reported = (answer.status == 200).then(|| remaining(&answer, "plan"));
            (answer.status, reported)
        };
        assert_eq!(left("free", "api"), (200, Some(59)));
        assert_eq!(left("pro", "api"), (200, Some(598)));
        assert_eq!(left("pro", "another"), (401, None));
    });
}

#[test]
fn partner() {
    cook("partner", |running, _| {
        let mut client = Client::connect(running.public);
        assert_eq!(count(&mut client, "/", "X-Api-Key: a\r\n", 101, 200), 100);
        let partner = client.get("/", "X-Api-Key: partner-7f3a9c\r\n");
        assert_eq!(remaining(&partner, "per-key"), 5999);
        let blocked = client.get("/", "X-Api-Key: leaked-51d0e2\r\n");
        assert_eq!((blocked.status, blocked.field("retry-after")), (403, None));
        assert_eq!(count(&mut client, "/", "", 101, 200), 100);
    });
}

#[test]
fn test_keys() {
    cook("test-keys", |running, _| {
        let mut client = Client::connect(running.public);
        assert_eq!(
            count(&mut client, "/", "X-Api-Key: test_1\r\n", 12, 200),
            10
        );
        assert_eq!(
            count(&mut client, "/", "X-Api-Key: live_1\r\n", 50, 200),
            50
        );
        let live = client.get("/", "X-Api-Key: live_1\r\n");
        let limits = live.head.fields("ratelimit").join(", ");
        assert!(!limits.contains("per-key"), "{limits}");
        assert_eq!(remaining(&live, "per-address"), 600 - 61);
    });
}

#[test]
fn promotion() {
    cook("promotion", |running, _| {
        let mut client = Client::connect(running.public);
        // 19 times 500 cents leave 500, enough to reserve one more, whose answer then reports only 1.
        let redeem = |client: &mut Client, cents: u64| {
            let fields = format!("X-Answer: 200 x-cents: {cents}\r\n");
            let answer = client.get("/redeem", &fields);
            (answer.status, remaining(&answer, "budget"))
        };
        for redeemed in 1..20 {
            assert_eq!(redeem(&mut client, 500), (200, 10_000 - 500 * redeemed));
        }
        assert_eq!(redeem(&mut client, 1), (200, 499));
        assert_eq!(redeem(&mut client, 1), (429, 499));
    });
}
