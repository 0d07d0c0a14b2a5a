//! Hostile tokens: a claim that is not verified names nobody.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{AGAIN, Cases, FIRST, ONCE};
use crate::support::gateway::START;
use crate::support::issuer::encoded;
use crate::support::{Client, Config, Issuer, Origin, jwks, start};

/// Status of a request without a verified token.
const NOBODY: u16 = 401;

/// An issuer of each kind, and a file with the keys of all of them.
struct Bench {
    rsa: Issuer,
    ec: Issuer,
    ed: Issuer,
    hmac: Issuer,
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let (rsa, ec, ed) = (Issuer::rsa(), Issuer::ec(), Issuer::ed());
        let hmac = Issuer::hmac(*b"a secret of more than thirty-two bytes");
        let folder = tempfile::tempdir().expect("a folder for keys");
        let keys = jwks(&[
            (&rsa, json!({"kid": "rsa"})),
            (&ec, json!({"kid": "ec"})),
            (&ed, json!({"kid": "ed"})),
            (&hmac, json!({"kid": "hmac"})),
        ]);
        fs::write(folder.path().join("keys"), keys).expect("the folder is writable");
        Self {
            rsa,
            ec,
            ed,
            hmac,
            folder,
        }
    }

    fn config(&self, origin: &Origin, missing: &str) -> Config {
        let keys = self.folder.path().join("keys").display().to_string();
        let policy = format!("{ONCE}\npartition = ['jwt:sub']\non_missing = '{missing}'");
        Config::limited(origin.url(), &policy)
            .listener("max_header_bytes = '1MiB'")
            .with(&format!("[jwt]\nkeys = ['{keys}']"))
    }

    /// Returns tokens that must not verify, each of which claims to be of `alice`.
    fn hostile(&self) -> Vec<(&'static str, String)> {
        let mut tokens = self.of_other_algorithms();
        tokens.extend(self.of_other_shapes());
        tokens.extend(self.of_other_content());
        tokens
    }

    fn of_other_algorithms(&self) -> Vec<(&'static str, String)> {
        let alice = json!({"sub": "alice"});
        let unsigned = |header: Value| {
            let parts = [header.to_string(), alice.to_string()].map(encoded);
            format!("{}.{}.", parts[0], parts[1])
        };
        let jwk = self.rsa.jwk();
        let der = self
            .rsa
            .pem()
            .lines()
            .filter(|line| !line.starts_with('-'))
            .collect::<String>();
        let der = STANDARD.decode(der).expect("base64");
        let confused = |secret: Vec<u8>, kid: &str| {
            let header = json!({"alg": "HS256", "kid": kid}).to_string();
            Issuer::hmac(secret).raw_token(&header, alice.to_string())
        };
        let relabelled = |issuer: &Issuer, alg: &str| {
            issuer.raw_token(&json!({ "alg": alg }).to_string(), alice.to_string())
        };
        let own = Issuer::ec();
        let own_key = json!({"alg": "ES256", "jwk": own.jwk(), "kid": "ec"});
        let from_url =
            json!({"alg": "ES256", "jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/"});
        vec![
            ("alg none", unsigned(json!({"alg": "none"}))),
            ("alg None", unsigned(json!({"alg": "None", "kid": "ec"}))),
            ("alg empty", unsigned(json!({"alg": ""}))),
            ("no alg", unsigned(json!({"typ": "JWT"}))),
            ("alg a list", unsigned(json!({"alg": ["ES256"]}))),
            ("no signature", unsigned(json!({"alg": "ES256"}))),
            ("no signature, HS256", unsigned(json!({"alg": "HS256"}))),
            (
                "HS256 with the public key's PEM",
                confused(self.rsa.pem().into(), "rsa"),
            ),
            ("HS256 with the public key's DER", confused(der, "rsa")),
            (
                "HS256 with the modulus",
                confused(jwk["n"].to_string().into(), "rsa"),
            ),
            ("HS256 with an empty secret", confused(Vec::new(), "hmac")),
            ("HS256 of nobody's", confused(vec![0; 32], "hmac")),
            ("RS256 said of ES256", relabelled(&self.ec, "RS256")),
            ("HS256 said of EdDSA", relabelled(&self.ed, "HS256")),
            ("ES256 said of HS256", relabelled(&self.hmac, "ES256")),
            ("HS512", relabelled(&self.hmac, "HS512")),
            ("PS256", relabelled(&self.rsa, "PS256")),
            ("ES256K", relabelled(&self.ec, "ES256K")),
            ("es256", relabelled(&self.ec, "es256")),
            ("another issuer", own.token(&alice)),
            (
                "a key of its own",
                own.raw_token(&own_key.to_string(), alice.to_string()),
            ),
            (
                "a key from elsewhere",
                own.raw_token(&from_url.to_string(), alice.to_string()),
            ),
        ]
    }

    fn of_other_shapes(&self) -> Vec<(&'static str, String)> {
        let alice = json!({"sub": "alice"}).to_string();
        let good = self.ec.token(&json!({"sub": "alice"}));
        let with = |header: &str| self.ec.raw_token(header, &alice);
        let kid = |kid: &str| with(&json!({"alg": "ES256", "kid": kid}).to_string());
        let (message, signature) = good.rsplit_once('.').expect("three parts");
        let payload = message.split_once('.').expect("two parts").1;
        let other = self.ec.token(&json!({"sub": "bob"}));
        let nested = format!(
            "{{\"sub\":\"alice\",\"a\":{}{}}}",
            "[".repeat(5000),
            "]".repeat(5000)
        );
        let long = |bytes| json!({"sub": "alice", "x": "x".repeat(bytes)});
        vec![
            ("a kid that is a path", kid("../../../../dev/null")),
            ("a kid that is a query", kid("ec' UNION SELECT 'x")),
            ("a kid that is a command", kid("ec|/bin/true")),
            ("a kid of another key", kid("rsa")),
            ("an empty kid", kid("")),
            (
                "a kid of another type",
                with(r#"{"alg":"ES256","kid":["ec"]}"#),
            ),
            ("alg twice", with(r#"{"alg":"none","alg":"ES256"}"#)),
            ("kid twice", with(r#"{"alg":"ES256","kid":"x","kid":"ec"}"#)),
            ("crit", with(r#"{"alg":"ES256","crit":["exp"]}"#)),
            ("empty crit", with(r#"{"alg":"ES256","crit":[]}"#)),
            (
                "unencoded",
                with(r#"{"alg":"ES256","b64":false,"crit":["b64"]}"#),
            ),
            ("nested token", with(r#"{"alg":"ES256","cty":"JWT"}"#)),
            ("a header that is no object", with(r#"["ES256"]"#)),
            ("a header that is no JSON", with("ES256")),
            ("1 MB", self.ec.token(&long(700_000))),
            ("just too long", self.ec.token(&long(12_300))),
            (
                "nested deeply",
                self.ec.raw_token(r#"{"alg":"ES256"}"#, &nested),
            ),
            ("the claims of one, the signature of another", {
                let other = other.rsplit_once('.').expect("three parts").1;
                format!("{message}.{other}")
            }),
            ("a part too many", format!("{good}.{payload}")),
            ("five parts", format!("{good}.{payload}.{payload}")),
            ("two parts", message.to_owned()),
            ("padded", format!("{good}=")),
            ("a space within", format!("{message} .{signature}")),
            ("a comma and another", format!("{good}, {other}")),
            (
                "not base64url",
                good.replacen(signature, &signature.replace(['-', '_'], "+"), 1) + "+",
            ),
            ("a signature cut short", good[..good.len() - 4].to_owned()),
            ("nothing", String::new()),
            ("dots", "..".to_owned()),
        ]
    }

    fn of_other_content(&self) -> Vec<(&'static str, String)> {
        let header = r#"{"alg":"ES256"}"#;
        let now = START.0 / 1_000_000;
        let raw = |payload: &str| self.ec.raw_token(header, payload);
        let with = |key: &str, value: Value| self.ec.token(&json!({"sub": "alice", key: value}));
        vec![
            ("sub twice", raw(r#"{"sub":"bob","sub":"alice"}"#)),
            (
                "sub twice, escaped",
                raw(r#"{"sub":"bob","\u0073ub":"alice"}"#),
            ),
            (
                "twice further down",
                raw(r#"{"sub":"alice","a":[{"b":1,"b":2}]}"#),
            ),
            (
                "exp twice",
                raw(r#"{"sub":"alice","exp":1,"exp":9999999999}"#),
            ),
            ("claims that are no object", raw(r#"["alice"]"#)),
            ("claims that are no JSON", raw("alice")),
            ("claims and more", raw(r#"{"sub":"alice"}{"sub":"bob"}"#)),
            ("claims cut short", raw(r#"{"sub":"alice""#)),
            (
                "not UTF-8",
                self.ec.raw_token(header, b"{\"sub\":\"\xff\"}"),
            ),
            ("expired", with("exp", json!(now - 61))),
            ("expired just now", with("exp", json!(now - 60))),
            ("exp as text", with("exp", json!((now + 100).to_string()))),
            ("negative exp", with("exp", json!(-1))),
            ("endless exp", raw(r#"{"sub":"alice","exp":1e400}"#)),
            ("null exp", with("exp", json!(null))),
            ("not yet valid", with("nbf", json!(now + 61))),
            ("nbf as text", with("nbf", json!("0"))),
        ]
    }
}

#[test]
fn hostile_tokens_name_nobody_and_share_one_quota_where_they_may() {
    let bench = Bench::new();
    for (missing, first, others) in [("refuse", NOBODY, NOBODY), ("share", FIRST, AGAIN)] {
        let origin = Origin::plain();
        let running = start(&bench.config(&origin, missing));
        let mut cases = Cases::default();
        let ask = |token: &str| {
            let field = format!("Authorization: Bearer {token}\r\n");
            Client::connect(running.public).get("/", &field).status
        };
        let mut expected = first;
        for (name, token) in bench.hostile() {
            cases.expect(name, ask(&token), expected);
            expected = others;
        }
        let forwarded = usize::from(first == FIRST);
        cases.expect("at the origin", origin.requests().len(), forwarded);
        // Nothing of alice's quota is spent, and her tokens from any issuer share it.
        let alice = json!({"sub": "alice"});
        for (issuer, expected) in [
            (&bench.ec, FIRST),
            (&bench.rsa, AGAIN),
            (&bench.ed, AGAIN),
            (&bench.hmac, AGAIN),
        ] {
            cases.expect(issuer.algorithm(), ask(&issuer.token(&alice)), expected);
        }
        cases.end();
    }
}

#[test]
fn two_tokens_are_refused_where_a_policy_reads_them() {
    let bench = Bench::new();
    let origin = Origin::plain();
    let config = bench.config(&origin, "refuse").route("/free", "");
    // A route that matches by the header joins the field's lines.
    let config = config.route(
        "/asked",
        "headers = { authorization = '*' }\npolicies = ['p']",
    );
    let running = start(&config);
    let token = |sub| bench.ec.token(&json!({ "sub": sub }));
    let fields = format!(
        "Authorization: Bearer {}\r\nAuthorization: Bearer {}\r\n",
        token("a"),
        token("b")
    );
    for target in ["/", "/asked"] {
        let mut client = Client::connect(running.public);
        let answer = client.get(target, &fields);
        assert_eq!(
            (answer.status, answer.says_close()),
            (400, false),
            "{target}"
        );
        assert_eq!(client.get("/free", "").status, 200, "{target}");
    }
    assert_eq!(origin.targets(), ["/free", "/free"]);
    assert_eq!(
        Client::connect(running.public).get("/free", &fields).status,
        200
    );
}

#[test]
fn a_token_is_not_taken_from_a_trailer() {
    let bench = Bench::new();
    let origin = Origin::plain();
    let config = bench.config(&origin, "skip");
    let running = start(&Config::with(config, "header = 'x-token'"));
    let answer = Client::connect(running.public).ask(
        "POST / HTTP/1.1\r\nHost: a.test\r\nTrailer: x-token\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\nX-Token: a\r\nX_Token: b\r\nX-Other: c\r\n\r\n",
    );
    assert_eq!(answer.status, 200);
    let trailers = format!("{:?}", origin.only_request().trailers).to_lowercase();
    assert!(!trailers.contains("token"), "{trailers}");
}
