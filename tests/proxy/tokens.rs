//! Clients named by verified tokens.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate::clock::Micros;

use crate::support::gateway::START;
use crate::support::{Client, Config, Issuer, Process, Running, eventually, jwks, secs, start};

/// Statuses under a quota of one: the first request of a client, one too many, and a request without a client.
const FIRST: u16 = 200;
const AGAIN: u16 = 429;
const NOBODY: u16 = 401;

/// Creates a folder with a file `keys`.
fn folder(keys: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder for keys");
    fs::write(folder.path().join("keys"), keys).expect("the folder is writable");
    folder
}

/// A file that allows one request per 366 days to each client that `part` names.
fn config(folder: &Path, part: &str, rules: &str) -> Config {
    let policy = format!(
        "quota = '1 per 366 days'\nalgorithm = 'fixed-window'\npartition = ['{part}']\non_missing = 'refuse'"
    );
    let keys = folder.join("keys").display().to_string();
    Config::limited("builtin:echo", &policy).with(&format!("[jwt]\nkeys = '{keys}'\n{rules}"))
}

fn send(running: &Running, token: &str) -> u16 {
    let field = format!("Authorization: Bearer {token}\r\n");
    Client::connect(running.public).get("/", &field).status
}

#[test]
fn tokens_of_each_algorithm_name_their_client() {
    for issuer in [
        Issuer::rsa(),
        Issuer::ec(),
        Issuer::ed(),
        Issuer::hmac([7; 32]),
    ] {
        let mut files = vec![jwks(&[(&issuer, json!({}))])];
        if !matches!(issuer, Issuer::Hmac(_)) {
            files.push(issuer.pem());
        }
        for file in files {
            let folder = folder(&file);
            let running = start(&config(folder.path(), "jwt:sub", ""));
            for (claims, expected) in [
                (json!({"sub": "alice"}), FIRST),
                (json!({"sub": "alice"}), AGAIN),
                (json!({"sub": "alice", "exp": 2_000_000_000}), AGAIN),
                (json!({"sub": "bob"}), FIRST),
                (json!({}), NOBODY),
            ] {
                let status = send(&running, &issuer.token(&claims));
                assert_eq!(status, expected, "{} {claims} {file}", issuer.algorithm());
            }
        }
    }
}

#[test]
fn a_token_comes_in_the_header_that_is_named_with_or_without_bearer() {
    let issuer = Issuer::ec();
    let folder = folder(&issuer.pem());
    let (alice, bob) = (json!({"sub": "alice"}), json!({"sub": "bob"}));
    let (alice, bob) = (issuer.token(&alice), issuer.token(&bob));
    let rules = "header = 'X-Token'";
    let running = start(&config(folder.path(), "jwt:sub", rules));
    let mut client = Client::connect(running.public);
    for (field, expected) in [
        (format!("X-Token: {alice}"), FIRST),
        (format!("x-token: bearer {alice}"), AGAIN),
        (format!("X-Token: BEARER \t {alice}  "), AGAIN),
        (format!("Authorization: Bearer {bob}"), NOBODY),
        (format!("X_Token: {bob}"), NOBODY),
        (format!("X-Token: Basic {bob}"), NOBODY),
        (format!("X-Token: {bob}"), FIRST),
    ] {
        let status = client.get("/", &format!("{field}\r\n")).status;
        assert_eq!(status, expected, "{field}");
    }
}

/// Start of the gateway's clock, in seconds since 1970.
fn now() -> u64 {
    START.0 / 1_000_000
}

#[test]
fn a_token_is_valid_by_the_clock_of_the_gateway() {
    let issuer = Issuer::ec();
    let folder = folder(&issuer.pem());
    let running = start(&config(folder.path(), "jwt:sub", "leeway = '5s'"));
    let (from, until) = (now() + 100, now() + 200);
    let claims = json!({"sub": "alice", "nbf": from, "exp": until});
    let token = issuer.token(&claims);
    // Later requests may find their token in the cache, which must respect its times, too.
    for (after_us, expected) in [
        (94_999_999, NOBODY),
        (95_000_000, FIRST),
        (150_000_000, AGAIN),
        (204_999_999, AGAIN),
        (205_000_000, NOBODY),
        (94_000_000, NOBODY),
        (300_000_000, NOBODY),
    ] {
        running.clock.set(START + Micros(after_us));
        assert_eq!(send(&running, &token), expected, "after {after_us} us");
    }
    let numbers =
        json!({"sub": "bob", "exp": 205.5 + f64::from(u32::try_from(now()).expect("fits"))});
    running.clock.set(START + secs(210));
    assert_eq!(
        send(&running, &issuer.token(&numbers)),
        FIRST,
        "decimals are seconds too"
    );
}

/// The clock of the limits takes hours to follow a step of wall time, or a machine that slept.
#[test]
fn a_token_is_valid_by_wall_time_even_where_the_clock_of_limits_is_another() {
    let issuer = Issuer::ec();
    let folder = folder(&issuer.pem());
    let running = start(&config(folder.path(), "jwt:sub", "leeway = '5s'"));
    let claims = |sub: &str| json!({"sub": sub, "nbf": now() + 100, "exp": now() + 200});
    let (seen, unseen) = (issuer.token(&claims("a")), issuer.token(&claims("b")));
    for (ahead_secs, token, expected) in [
        (0, &seen, NOBODY),
        (100, &seen, FIRST),
        (150, &seen, AGAIN),
        (3_600, &seen, NOBODY),
        (3_600, &unseen, NOBODY),
        (-3_600, &seen, NOBODY),
        (100, &unseen, FIRST),
    ] {
        running.clock.set_wall_ahead(ahead_secs * 1_000_000);
        assert_eq!(send(&running, token), expected, "{ahead_secs} s ahead");
    }
}

#[test]
fn the_issuer_and_the_audience_must_be_those_of_the_file() {
    let issuer = Issuer::ec();
    let folder = folder(&issuer.pem());
    let rules = "issuer = 'https://login.example/'\naudience = ['api', 'admin']";
    let running = start(&config(folder.path(), "jwt:sub", rules));
    let iss = "https://login.example/";
    for (name, claims, expected) in [
        ("both", json!({"iss": iss, "aud": "api"}), FIRST),
        (
            "one of several",
            json!({"iss": iss, "aud": ["other", "admin"]}),
            FIRST,
        ),
        (
            "another issuer",
            json!({"iss": "https://login.example", "aud": "api"}),
            NOBODY,
        ),
        ("no issuer", json!({"aud": "api"}), NOBODY),
        ("no audience", json!({"iss": iss}), NOBODY),
        (
            "another audience",
            json!({"iss": iss, "aud": ["other"]}),
            NOBODY,
        ),
        (
            "a number among them",
            json!({"iss": iss, "aud": ["api", 1]}),
            NOBODY,
        ),
        (
            "a list of issuers",
            json!({"iss": [iss], "aud": "api"}),
            NOBODY,
        ),
    ] {
        let mut claims = claims;
        claims["sub"] = Value::from(name);
        assert_eq!(send(&running, &issuer.token(&claims)), expected, "{name}");
    }
    // If the file names no issuers and audiences, those of a token do not matter.
    let running = start(&config(folder.path(), "jwt:sub", ""));
    let claims = json!({"sub": "a", "iss": "x", "aud": "y"});
    assert_eq!(send(&running, &issuer.token(&claims)), FIRST);
}

#[test]
fn of_a_key_set_those_that_may_verify_do() {
    let (one, other) = (Issuer::ec(), Issuer::ec());
    let with = |issuer: &Issuer, kid: Value, claims: Value| {
        let mut header = json!({"alg": issuer.algorithm()});
        if !kid.is_null() {
            header["kid"] = kid;
        }
        issuer.raw_token(&header.to_string(), claims.to_string())
    };
    let set = |more: Value| jwks(&[(&one, more), (&other, json!({"kid": "other"}))]);
    for (more, kid, expected) in [
        (json!({"kid": "one"}), json!("one"), FIRST),
        (json!({"kid": "one"}), json!(null), FIRST),
        (json!({"kid": "one"}), json!("other"), NOBODY),
        (json!({"kid": "one"}), json!("../one"), NOBODY),
        (json!({"kid": "one"}), json!(1), NOBODY),
        (json!({}), json!("anything"), FIRST),
        (json!({"use": "sig", "alg": "ES256"}), json!(null), FIRST),
        (json!({"key_ops": ["verify"]}), json!(null), FIRST),
        (json!({"use": "enc"}), json!(null), NOBODY),
        (json!({"key_ops": ["sign"]}), json!(null), NOBODY),
        (json!({"alg": "ES384"}), json!(null), NOBODY),
        (json!({"kty": "unknown"}), json!(null), NOBODY),
    ] {
        let folder = folder(&set(more.clone()));
        let running = start(&config(folder.path(), "jwt:sub", ""));
        let token = with(&one, kid.clone(), json!({"sub": "a"}));
        assert_eq!(send(&running, &token), expected, "{more} {kid}");
        let of_other = with(&other, json!("other"), json!({"sub": "b"}));
        assert_eq!(send(&running, &of_other), FIRST, "{more}");
    }
}

#[test]
fn only_the_algorithms_that_are_named_verify() {
    let (ec, ed) = (Issuer::ec(), Issuer::ed());
    let folder = folder(&format!("{}{}", ec.pem(), ed.pem()));
    for (rules, expected) in [
        ("", [FIRST, FIRST]),
        ("algorithms = ['ES256']", [FIRST, NOBODY]),
        ("algorithms = ['EdDSA', 'RS256']", [NOBODY, FIRST]),
    ] {
        let running = start(&config(folder.path(), "jwt:sub", rules));
        let statuses = [&ec, &ed].map(|issuer| {
            let claims = json!({"sub": issuer.algorithm()});
            send(&running, &issuer.token(&claims))
        });
        assert_eq!(statuses, expected, "{rules}");
    }
}

/// A tier is a claim like any other: only a verified one counts.
#[test]
fn a_claim_chooses_the_tier_only_if_it_is_verified() {
    let (issuer, other) = (Issuer::ec(), Issuer::ec());
    let folder = folder(&issuer.pem());
    let keys = folder.path().join("keys").display().to_string();
    let policy = "quota = '1 per 366 days'\nalgorithm = 'fixed-window'\npartition = ['ip']\n\
                  overrides_by = 'jwt:plan'\noverrides = { paid = '3 per 366 days', banned = 'blocked' }";
    let config = Config::limited("builtin:echo", policy);
    let running = start(&config.with(&format!("[jwt]\nkeys = ['{keys}']")));
    let plan = |issuer: &Issuer, plan: &str| issuer.token(&json!({ "plan": plan }));
    for (token, expected) in [
        (plan(&issuer, "paid"), FIRST),
        (plan(&issuer, "paid"), FIRST),
        (plan(&other, "paid"), AGAIN),
        (plan(&issuer, "free"), AGAIN),
        (String::new(), AGAIN),
        (plan(&other, "banned"), AGAIN),
        (plan(&issuer, "banned"), 403),
        (plan(&issuer, "paid"), FIRST),
        (plan(&issuer, "paid"), AGAIN),
    ] {
        assert_eq!(send(&running, &token), expected, "{token}");
    }
}

/// In production, a timer fetches the keys and sends SIGHUP.
#[test]
fn keys_are_read_again_on_sighup_and_tokens_of_old_ones_are_forgotten() {
    let (old, new) = (Issuer::ec(), Issuer::ec());
    let folder = folder(&jwks(&[(&old, json!({"kid": "1"}))]));
    let config = config(folder.path(), "jwt:sub", "").top("ratelimit_headers = 'off'");
    let process = Process::start(&config);
    let ask = |token: &str| {
        let field = format!("Authorization: Bearer {token}\r\n");
        Client::connect(process.public).get("/", &field).status
    };
    let [of_old, of_new] =
        [&old, &new].map(|value| value.token(&json!({"sub": value.algorithm()})));
    assert_eq!([ask(&of_old), ask(&of_new)], [FIRST, NOBODY]);

    let keys = folder.path().join("keys");
    let reload = |file: String, told: &str| {
        fs::write(&keys, file).expect("the folder is writable");
        process.signal("HUP");
        process.wait_for_line(&[told]);
    };
    let both = jwks(&[(&old, json!({"kid": "1"})), (&new, json!({"kid": "2"}))]);
    reload(both, "jwt: keys changed");
    eventually("the new key verifies", || {
        (ask(&of_new) != NOBODY).then_some(())
    });
    assert_eq!(
        [ask(&of_old), ask(&of_new)],
        [AGAIN, AGAIN],
        "one client by either key"
    );

    reload(
        jwks(&[(&new, json!({"kid": "2"}))]),
        "the new configuration is in effect",
    );
    eventually("the old key is forgotten", || {
        (ask(&of_old) == NOBODY).then_some(())
    });
    assert_eq!(ask(&of_new), AGAIN);

    // A file that cannot be used changes nothing, and no key material is shown.
    reload(
        "{\"keys\": []}".to_owned(),
        "holds no key that can verify a token",
    );
    assert_eq!([ask(&of_old), ask(&of_new)], [NOBODY, AGAIN]);
    let shown = process.lines().join("\n");
    for issuer in [&old, &new] {
        let key = issuer.jwk();
        assert!(!shown.contains(key["x"].as_str().expect("text")), "{shown}");
    }
    assert!(!shown.contains(&of_old[..40]), "{shown}");
}
