//! Recipes for limits in tokens and in money, in front of an origin that answers in the shapes of the providers.

use serde_json::json;

use super::providers::{TOTAL, model, provider};
use super::{on_each_store_text, with_issuer};
use crate::support::ratelimit::remaining;
use crate::support::{After, Answer, Client, Origin, Running, eventually};

/// One of the recipes, and how its clients speak to it.
struct Recipe<'a> {
    name: &'a str,
    endpoint: &'a str,
    /// The variable that holds the provider's key, and the field in which the upstream finds the key.
    secret: (&'a str, &'a str),
    /// The field line that says who a client is.
    client: &'a str,
    policy: &'a str,
}

/// A request's target and body, what it reserves, and what it costs.
type Call<'a> = (&'a str, &'a str, i64, i64);

impl Recipe<'_> {
    fn text(&self, origin: &Origin) -> String {
        let text = super::recipe(self.name, origin).replace(self.endpoint, &origin.url());
        text.replace(&format!("${{{}}}", self.secret.0), "the-real-key")
    }

    /// Sends the calls one after the other on one connection, and checks what is left of the quota. Returns the
    /// connection, because a request on another one might come before the last call is settled.
    fn serves(&self, running: &Running, origin: &Origin, quota: i64, calls: &[Call]) -> Client {
        let mut client = Client::connect(running.public);
        let mut left = quota;
        for (target, body, reserved, cost) in calls {
            let answer = client.post(target, self.client, body);
            let status = if body.contains("fail") { 400 } else { 200 };
            assert_eq!(answer.status, status, "{target} {body}");
            let reported = remaining(&answer, self.policy);
            assert_eq!(left - reported, *reserved, "{target} {body}");
            let (status, content_type, whole) = model(target, body.as_bytes());
            assert_eq!(answer.text(), whole);
            assert_eq!(answer.field("content-type"), Some(content_type), "{status}");
            left -= cost;
            let seen = origin.requests().pop().expect("it was forwarded");
            let (_, field) = self.secret;
            let key = seen.head.fields(field).join(" ");
            assert_eq!(key.trim_start_matches("Bearer "), "the-real-key");
            let host = origin.url().replace("http://", "");
            assert_eq!(seen.head.fields("host"), [&*host]);
        }
        client
    }

    /// Asserts that other requests cost a unit each, and that an error in place of an answer costs nothing.
    fn serves_besides(&self, mut client: Client, target: &str, others: &[(&str, &str)]) {
        let mut left = |method: &str, target: &str, body: &str| {
            let answer = match method {
                "GET" => client.get(target, self.client),
                _ => client.post(target, self.client, body),
            };
            assert_eq!(answer.status, 200, "{method} {target}");
            remaining(&answer, self.policy)
        };
        let mut before = left(others[0].0, others[0].1, "{}");
        left("POST", target, r#"{"overloaded":1}"#);
        for (method, target) in others {
            let now = left(method, target, "{}");
            assert_eq!(now, before - 1, "{method} {target}");
            before = now;
        }
    }

    /// Asserts that other methods, other paths, and clients without a known key are refused.
    fn refuses_strangers(&self, running: &Running, target: &str) {
        let mut client = Client::connect(running.public);
        assert_eq!(client.get(target, self.client).status, 404);
        assert_eq!(client.post("/v1/files", self.client, "{}").status, 404);
        let (field, _) = self.client.split_once(": ").expect("a field");
        let stranger = format!("{field}: Bearer another\r\n");
        for (fields, status) in [("", 401), (&*stranger, 403)] {
            let answer = Client::connect(running.public).post(target, fields, "{}");
            assert_eq!(answer.status, status, "{fields}");
        }
    }
}

/// Returns the refusal of a request that reserves its team's whole quota, after another has spent some of it.
fn refusal(running: &Running, recipe: &Recipe, target: &str, body: &str) -> Answer {
    let team = recipe.client.replace("team-a-7f3a9c", "team-b-51d0e2");
    let mut client = Client::connect(running.public);
    assert_eq!(client.post(target, &team, body).status, 200);
    let answer = client.post(target, &team, body);
    assert_eq!(answer.status, 429);
    assert_eq!(answer.field("content-type"), Some("application/json"));
    answer
}

/// A quarter of the body's bytes, rounded up.
fn quarter(body: &str) -> i64 {
    i64::try_from(body.len().div_ceil(4)).expect("a short body")
}

#[test]
fn openai_chat_completions() {
    let recipe = Recipe {
        name: "openai-chat",
        endpoint: "https://api.openai.com",
        secret: ("OPENAI_API_KEY", "authorization"),
        client: "Authorization: Bearer team-a-7f3a9c\r\n",
        policy: "tokens",
    };
    let target = "/v1/chat/completions";
    let origin = provider();
    let whole = r#"{"model":"gpt","messages":[],"max_tokens":1000}"#;
    let with_usage =
        r#"{"max_completion_tokens":2000,"stream":true,"stream_options":{"include_usage":true}}"#;
    let without_usage = r#"{"max_completion_tokens":2000,"stream":true}"#;
    let failing = r#"{"max_tokens":1000,"fail":1}"#;
    on_each_store_text(&recipe.text(&origin), |running| {
        let silent = 2000 + quarter(without_usage);
        let calls = [
            (target, whole, 1000 + quarter(whole), TOTAL),
            (target, "{}", 4097, TOTAL),
            (target, with_usage, 2000 + quarter(with_usage), TOTAL),
            (target, without_usage, silent, silent),
            (target, failing, 0, 0),
            (target, "no JSON", 250_000, TOTAL),
        ];
        let client = recipe.serves(running, &origin, 1_000_000, &calls);
        recipe.serves_besides(
            client,
            target,
            &[("GET", "/v1/models"), ("GET", "/v1/models/gpt")],
        );
        recipe.refuses_strangers(running, target);
        let answer = refusal(running, &recipe, target, r#"{"max_tokens":249900}"#);
        assert_eq!(answer.json()["error"]["code"], "rate_limit_exceeded");
        assert_eq!(
            answer.json()["error"]["message"],
            "tokens: 250000 per 1m is used up"
        );
    });
}

#[test]
fn openai_responses_api() {
    let recipe = Recipe {
        name: "openai-responses",
        endpoint: "https://api.openai.com",
        secret: ("OPENAI_API_KEY", "authorization"),
        client: "Authorization: Bearer team-a-7f3a9c\r\n",
        policy: "tokens",
    };
    let target = "/v1/responses";
    let origin = provider();
    let stream = r#"{"max_output_tokens":2000,"stream":true}"#;
    on_each_store_text(&recipe.text(&origin), |running| {
        let calls = [
            (target, r#"{"max_output_tokens":9}"#, 15, TOTAL),
            (target, stream, 2000 + quarter(stream), TOTAL),
            (target, "{}", 4097, TOTAL),
        ];
        let client = recipe.serves(running, &origin, 1_000_000, &calls);
        let others = [
            ("GET", "/v1/models"),
            ("POST", "/v1/responses/input_tokens"),
        ];
        recipe.serves_besides(client, target, &others);
        recipe.refuses_strangers(running, target);
        let answer = refusal(running, &recipe, target, r#"{"max_output_tokens":249900}"#);
        assert_eq!(answer.json()["error"]["code"], "rate_limit_exceeded");
    });
}

#[test]
fn anthropic_messages() {
    let recipe = Recipe {
        name: "anthropic",
        endpoint: "https://api.anthropic.com",
        secret: ("ANTHROPIC_API_KEY", "x-api-key"),
        client: "X-Api-Key: team-a-7f3a9c\r\n",
        policy: "tokens",
    };
    let target = "/v1/messages";
    let origin = provider();
    let stream = r#"{"max_tokens":2000,"stream":true}"#;
    on_each_store_text(&recipe.text(&origin), |running| {
        let calls = [
            (target, r#"{"max_tokens":1000}"#, 1005, TOTAL),
            (target, stream, 2000 + quarter(stream), TOTAL),
            // The provider requires `max_tokens`; a request without it reserves the default.
            (target, "{}", 250_000, TOTAL),
        ];
        let client = recipe.serves(running, &origin, 1_000_000, &calls);
        let others = [("GET", "/v1/models"), ("POST", "/v1/messages/count_tokens")];
        recipe.serves_besides(client, target, &others);
        recipe.refuses_strangers(running, target);
        let answer = refusal(running, &recipe, target, r#"{"max_tokens":249900}"#);
        assert_eq!(answer.json()["error"]["type"], "rate_limit_error");
        assert_eq!(
            answer.json()["error"]["message"],
            "tokens: 250000 per 1m is used up"
        );
        let (key, token) = (recipe.client, "Authorization: Bearer team-a-7f3a9c\r\n");
        for fields in [
            key,
            token,
            &format!("{key}{token}"),
            &format!("{key}Authorization: Bearer other\r\n"),
        ] {
            let answer = Client::connect(running.public).post(target, fields, stream);
            assert_eq!(answer.status, 200, "{fields}");
            let seen = origin.requests().pop().expect("it was forwarded").head;
            assert_eq!(seen.fields("x-api-key"), ["the-real-key"], "{fields}");
            assert!(seen.fields("authorization").is_empty(), "{fields}");
        }
    });
}

#[test]
fn leaving_a_stream_before_its_usage_is_not_cheaper() {
    const TOKENS: i64 = 20_000;
    let origin = Origin::scripted(|exchange| {
        exchange.read_body()?;
        let tokens = "data: {\"delta\":\"so\"}\n\n".repeat(20_000) + "data: LAST\n\n";
        let head =
            "HTTP/1.1 200 x\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked";
        let bytes = tokens.len();
        if exchange.target().contains("models") {
            exchange.write("HTTP/1.1 200 x\r\nContent-Length: 0\r\n\r\n")?;
            return Ok(After::Keep);
        }
        exchange.write(format!("{head}\r\n\r\n{bytes:x}\r\n{tokens}\r\n"))?;
        exchange.until_closed();
        Ok(After::Close)
    });
    for (name, endpoint, target) in [
        (
            "openai-chat",
            "https://api.openai.com",
            "/v1/chat/completions",
        ),
        (
            "openai-responses",
            "https://api.openai.com",
            "/v1/responses",
        ),
    ] {
        let text = super::recipe(name, &origin).replace(endpoint, &origin.url());
        let text = text.replace("${OPENAI_API_KEY}", "the-real-key");
        on_each_store_text(&text, |running| {
            let team = "Authorization: Bearer team-a-7f3a9c\r\n";
            let mut leaving = Client::connect(running.public);
            leaving.send(format!(
                "POST {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n{team}\r\n{{}}"
            ));
            leaving.until("LAST");
            drop(leaving);
            let mut client = Client::connect(running.public);
            eventually("the charge", || {
                let left = remaining(&client.get("/v1/models", team), "tokens");
                (left <= 1_000_000 - TOKENS).then_some(())
            });
        });
    }
}

#[test]
fn gemini_generate_content() {
    let recipe = Recipe {
        name: "gemini",
        endpoint: "https://generativelanguage.googleapis.com",
        secret: ("GEMINI_API_KEY", "x-goog-api-key"),
        client: "X-Goog-Api-Key: team-a-7f3a9c\r\n",
        policy: "tokens",
    };
    let call = |method: &str| format!("/v1beta/models/gemini-2.5-pro:{method}");
    let [whole, array, events] = [
        "generateContent",
        "streamGenerateContent",
        "streamGenerateContent?alt=sse",
    ]
    .map(call);
    let origin = provider();
    let camel = r#"{"generationConfig":{"maxOutputTokens":1000}}"#;
    // Google's servers accept both spellings.
    let snake = r#"{"generation_config":{"max_output_tokens":2000}}"#;
    on_each_store_text(&recipe.text(&origin), |running| {
        let calls = [
            (&*whole, camel, 1000 + quarter(camel), TOTAL),
            (&*array, snake, 2000 + quarter(snake), TOTAL),
            (&*events, "{}", 8193, TOTAL),
        ];
        let client = recipe.serves(running, &origin, 1_000_000, &calls);
        recipe.refuses_strangers(running, &whole);
        let others = [
            ("GET", "/v1beta/models"),
            ("POST", "/v1/models/gemini-2.5-pro:countTokens"),
        ];
        recipe.serves_besides(client, &whole, &others);
        let too_much = r#"{"generationConfig":{"maxOutputTokens":249900}}"#;
        let answer = refusal(running, &recipe, &whole, too_much);
        assert_eq!(answer.json()["error"]["status"], "RESOURCE_EXHAUSTED");
    });
}

#[test]
fn prices_per_model() {
    let recipe = Recipe {
        name: "model-prices",
        endpoint: "https://example.openai.azure.com",
        secret: ("AZURE_OPENAI_API_KEY", "api-key"),
        client: "Api-Key: team-a-7f3a9c\r\n",
        policy: "money",
    };
    let target = "/openai/v1/chat/completions";
    let origin = provider();
    // A request reserves its bytes times a quarter of the input's price, and its maximum of tokens times the output's.
    let large = r#"{"model":"gpt-5","max_tokens":500}"#;
    let dated = r#"{"model":"gpt-5-2025-08-07"}"#;
    let small = r#"{"model":"gpt-5-mini","max_tokens":500}"#;
    let nano = r#"{"model":"gpt-5-nano-2025-08-07","max_tokens":500}"#;
    let unknown = r#"{"model":"o9","max_completion_tokens":500}"#;
    let silent = r#"{"model":"gpt-5-mini","max_tokens":500,"stream":true}"#;
    let reserved = |body: &str, quarters: f64, output: f64| {
        let bytes = f64::from(u32::try_from(body.len()).expect("a short body"));
        format!("{:.0}", (bytes * quarters + output).ceil())
            .parse()
            .expect("a number")
    };
    on_each_store_text(&recipe.text(&origin), |running| {
        let of_silent = reserved(silent, 0.0625, 1000.0);
        let calls = [
            // 120 × 1.25 − 80 × 1.125 + 300 × 10.
            (target, large, reserved(large, 0.3125, 5000.0), 3060),
            (target, dated, reserved(dated, 0.3125, 40_960.0), 3060),
            // A fifth of that.
            (target, small, reserved(small, 0.0625, 1000.0), 612),
            // 120 × 0.05 − 80 × 0.045 + 300 × 0.4, rounded up.
            (target, nano, reserved(nano, 0.0125, 200.0), 123),
            // The largest of all: 120 × 1.25 − 80 × 0.045 + 300 × 10, rounded up.
            (target, unknown, reserved(unknown, 0.3125, 5000.0), 3147),
            (target, silent, of_silent, of_silent),
            (target, "no JSON", 4_000_000, 3147),
            (target, r#"{"model":"gpt-5","fail":1}"#, 0, 0),
        ];
        let client = recipe.serves(running, &origin, 50_000_000, &calls);
        recipe.serves_besides(
            client,
            target,
            &[
                ("GET", "/openai/v1/models"),
                ("GET", "/openai/v1/models/gpt-5"),
            ],
        );
        recipe.refuses_strangers(running, target);
        // A request reserves at most what one may cost (`max_cost`), which is the other team's whole quota.
        let much = r#"{"model":"gpt-5","max_tokens":1999900}"#;
        let answer = refusal(running, &recipe, target, much);
        assert_eq!(answer.json()["error"]["code"], "429");
    });
}

/// Returns a recipe whose clients have tokens instead of keys.
fn with_tokens<'a>(name: &'a str, policy: &'a str) -> Recipe<'a> {
    Recipe {
        name,
        endpoint: "https://api.openai.com",
        secret: ("OPENAI_API_KEY", "authorization"),
        client: "",
        policy,
    }
}

#[test]
fn requests_and_tokens_and_a_budget() {
    let origin = provider();
    let text = with_tokens("token-plans", "tokens").text(&origin);
    with_issuer(&text, |running, token| {
        let mut client = Client::connect(running.public);
        let mut left = |user: &str, plan: &str, body: &str| {
            let token = token(json!({ "sub": user, "plan": plan, "aud": "llm" }));
            let fields = format!("Authorization: Bearer {token}\r\n");
            let answer = client.post("/v1/chat/completions", &fields, body);
            if answer.status == 429 {
                assert_eq!(answer.json()["error"]["code"], "rate_limit_exceeded");
            }
            let policies = ["requests", "tokens:1m", "tokens:30d"];
            (
                answer.status,
                policies.map(|policy| remaining(&answer, policy)),
            )
        };
        let body = r#"{"max_tokens":994}"#;
        assert_eq!(left("u", "free", body), (200, [19, 39_001, 999_001]));
        assert_eq!(left("u", "free", body), (200, [18, 38_581, 998_581]));
        // A request that one of the quotas refuses costs the others nothing.
        let too_much = r#"{"max_tokens":39500}"#;
        assert_eq!(left("u", "free", too_much), (429, [18, 39_160, 999_160]));
        assert_eq!(left("u", "free", body), (200, [17, 38_161, 998_161]));
        assert_eq!(left("v", "pro", body), (200, [199, 399_001, 49_999_001]));
    });
}

#[test]
fn users_within_the_budget_of_their_tenant() {
    let origin = provider();
    let text = with_tokens("token-tenants", "tenant").text(&origin);
    with_issuer(&text, |running, token| {
        let mut client = Client::connect(running.public);
        let mut left = |tenant: &str, user: &str| {
            let token = token(json!({ "tenant": tenant, "sub": user, "aud": "llm" }));
            let fields = format!("Authorization: Bearer {token}\r\n");
            let answer = client.post("/v1/chat/completions", &fields, "{}");
            assert_eq!(answer.status, 200);
            ["tenant", "user"].map(|policy| remaining(&answer, policy))
        };
        assert_eq!(left("t", "u"), [19_900_000, 900_000]);
        assert_eq!(left("t", "v"), [19_900_000 - TOTAL, 900_000]);
        assert_eq!(left("t", "u"), [19_900_000 - 2 * TOTAL, 900_000 - TOTAL]);
        assert_eq!(left("s", "u"), [19_900_000, 900_000]);
    });
    let spent = text.replace("1000000 per day", "100000 per day");
    with_issuer(&spent, |running, token| {
        let token = token(json!({ "tenant": "t", "sub": "u", "aud": "llm" }));
        let fields = format!("Authorization: Bearer {token}\r\n");
        let mut client = Client::connect(running.public);
        let answers = [0, 1].map(|_| client.post("/v1/chat/completions", &fields, "{}"));
        assert_eq!(
            answers.each_ref().map(|each_ref| each_ref.status),
            [200, 429]
        );
        let error = answers[1].json()["error"].clone();
        assert_eq!(error["message"], "Your budget is spent");
    });
}
