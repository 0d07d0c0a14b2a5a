//! The API over a real gateway: what it answers to whom, and that its description says the same.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::{Value, json};
use tollgate::clock::Clock;
use tollgate::config::ConfigText;
use tollgate::gateway::Gateway;

use crate::support::{Answer, Client, Config, Origin, START, Validator};

const OPENAPI: &str = include_str!("../../../src/admin/openapi.json");
pub(super) const TOKEN: &str = "token = '0123456789abcdef'";
pub(super) const RIGHT: &str = "Authorization: Bearer 0123456789abcdef\r\n";

/// A gateway that was started from a file.
pub(super) struct OfFile {
    gateway: Gateway,
    pub(super) clock: Clock,
    pub(super) file: PathBuf,
    _folder: tempfile::TempDir,
}

impl OfFile {
    #[track_caller]
    pub(super) fn start(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("gateway.toml");
        fs::write(&file, text).expect("a writable folder");
        let config = ConfigText::of(&file, text);
        let clock = Clock::manual(START);
        let gateway = Gateway::start_with(config, clock.clone(), None, |_| {});
        Self {
            clock,
            gateway: gateway.expect("a good file"),
            file,
            _folder: folder,
        }
    }

    pub(super) fn admin(&self) -> SocketAddr {
        self.gateway.admin_address().expect("it is on")
    }

    pub(super) fn public(&self) -> SocketAddr {
        self.gateway.address("public").expect("it is in the file")
    }

    pub(super) fn rewrite(&self, text: &str) {
        fs::write(&self.file, text).expect("a writable folder");
    }
}

/// Returns a file with an admin port; `token` is a line of `[admin]`, or empty.
pub(super) fn config(quota: &str, token: &str) -> String {
    let config = Config::limited("builtin:echo", &format!("quota = '{quota}'"));
    let text = config.admin("127.0.0.1:0").text();
    let text = text.replace("response_timeout = '24h'\nbody_timeout = '24h'\n", "");
    let text = text
        .replace("connect_timeout = '24h'\n", "")
        .replace("connect_timeout = '24h'", "");
    text.replace("[admin]\n", &format!("[admin]\n{token}\n"))
}

#[track_caller]
pub(super) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    fields: &str,
    content: &str,
) -> Answer {
    let length = content.len();
    let mut client = Client::connect(address);
    client.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n{content}"
    ));
    client.answer()
}

/// Opens a stream of events.
#[track_caller]
pub(super) fn follow(admin: SocketAddr, target: &str) -> Client {
    let mut stream = Client::connect(admin);
    stream.send(format!(
        "GET {target} HTTP/1.0\r\nHost: localhost\r\n{RIGHT}Accept: text/event-stream\r\n\r\n"
    ));
    assert_eq!(stream.head().expect("a head").status, 200, "{target}");
    stream
}

/// Makes a call with the description's example as its content, if there is one.
#[track_caller]
fn ask_example(address: SocketAddr, method: &str, path: &str, fields: &str) -> Answer {
    let of_call = &described()["paths"][path][method.to_lowercase()];
    match &of_call["requestBody"]["content"]["application/json"]["example"] {
        Value::Null => ask(address, method, path, fields, ""),
        example => {
            let fields = format!("{fields}Content-Type: application/json\r\n");
            ask(address, method, path, &fields, &example.to_string())
        }
    }
}

#[track_caller]
fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, "GET", path, "", "")
}

fn described() -> &'static Value {
    static DESCRIBED: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(OPENAPI).expect("JSON"));
    &DESCRIBED
}

/// Returns every method and path of the description.
fn calls() -> Vec<(String, String)> {
    let paths = described()["paths"].as_object().expect("an object");
    let calls = paths.iter().flat_map(|(path, calls)| {
        let calls = calls.as_object().expect("an object");
        let methods = calls.keys().map(|method| method.to_uppercase());
        methods.map(|method| (method, path.clone()))
    });
    calls.collect()
}

/// Checks an answer against its description.
#[track_caller]
pub fn assert_described(method: &str, path: &str, answer: &Answer) {
    let of_call = &described()["paths"][path][method.to_lowercase()];
    let responses = &of_call["responses"];
    let contents = &responses[answer.status.to_string()]["content"];
    let content_type = answer.field("content-type").expect("a type");
    let essence = content_type.split(';').next().unwrap_or_default();
    let schema = &contents[essence]["schema"];
    assert!(
        schema.is_object(),
        "{method} {path}: {} {essence}",
        answer.status
    );
    for (name, value) in &answer.head.fields {
        assert!(!name.starts_with("access-control"), "{name}: {value}");
    }
    if essence.ends_with("json") {
        assert_valid(schema, &answer.json());
    }
}

/// Checks the content of an event against the description's schema of that name.
#[track_caller]
pub(super) fn assert_schema(name: &str, content: &Value) {
    let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
    assert_valid(&schema, content);
}

#[track_caller]
fn assert_valid(schema: &Value, content: &Value) {
    static VALIDATOR: LazyLock<Mutex<Validator>> = LazyLock::new(|| {
        let document = json!({ "components": described()["components"] });
        Mutex::new(Validator::new(&document))
    });
    let mut validator = VALIDATOR.lock().unwrap_or_else(PoisonError::into_inner);
    let wrong = validator.mistakes(schema, content);
    assert_eq!(wrong, Vec::<String>::new(), "{content:#}");
}

#[test]
fn the_description_has_every_call_and_no_other() {
    let (known, described) = (tollgate::admin::calls(), calls());
    let mut known: Vec<_> = known
        .map(|(method, path)| (method.to_string(), path.to_owned()))
        .collect();
    known.sort_by(|(method, path), (other_method, other)| {
        (path, method).cmp(&(other, other_method))
    });
    assert_eq!(known, described);
}

/// A policy under which credits can be granted, as the description's example does.
const CREDITS: &str = "[policies.c]\nquota = 'credits'\nallow_loss = true\n";

/// Returns the status of a good call; an upgrade fails, because a test cannot be started a second time.
fn usual(path: &str) -> u16 {
    match path {
        "/api/upgrade" => 503,
        "/dashboard/{file}" => 404,
        // It can only be had as a stream.
        "/api/trace" => 406,
        _ => 200,
    }
}

#[test]
fn every_answer_is_as_the_description_says() {
    let origin = Origin::mute();
    let text = config("10 per minute", TOKEN);
    let text = text.replace("builtin:echo", &origin.url());
    let more = "[policies.more]\nquota = ['5 per 1s', '50 per minute']\ncandidate = '20 per minute'\nmode = 'shadow'\n\
                count_status = [401]\noverrides = { '10.0.0.0/8' = 'unlimited', '11.0.0.0/8' = 'blocked' }\n\
                [policies.told]\nquota = '9 per 1s'\ncost = 'response-header:x-cost'\n\
                [upstreams.none]\nendpoints = ['http://none.invalid']\n\
                [[routes]]\npath = '/more'\nupstream = 'none'\npolicies = ['p', 'more', 'told']\ncost = { p = 2 }\n";
    let gateway = OfFile::start(&format!("{text}{more}{CREDITS}"));
    let admin = gateway.admin();
    for (method, path) in calls() {
        for (fields, expected) in [("", None), (RIGHT, Some(usual(&path)))] {
            let answer = ask_example(admin, &method, &path, fields);
            assert_described(&method, &path, &answer);
            if let Some(expected) = expected {
                assert_eq!(answer.status, expected, "{method} {path}");
            }
        }
    }
    gateway.rewrite("x");
    let answer = ask(admin, "POST", "/api/reload", RIGHT, "");
    assert_eq!(answer.status, 422);
    assert_described("POST", "/api/reload", &answer);
    let answer = ask(admin, "GET", "/api/reload/preview", RIGHT, "");
    assert_eq!(answer.status, 422);
    assert_described("GET", "/api/reload/preview", &answer);
    assert_described(
        "GET",
        "/api/reload",
        &ask(admin, "GET", "/api/reload", RIGHT, ""),
    );
    assert_described("GET", "/api/overview", &get(admin, "/api/overview"));
}

#[test]
fn what_changes_state_or_names_clients_needs_the_token_that_is_set() {
    const WRONG: [&str; 7] = [
        "",
        "Authorization: Bearer 0123456789abcdee\r\n",
        "Authorization: Bearer 0123456789abcdef0\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: Basic 0123456789abcdef\r\n",
        "Authorization: Bearer 0123456789abcdef\r\nAuthorization: Bearer 0123456789abcdef\r\n",
        "X-Token: 0123456789abcdef\r\n",
    ];
    let (with, without) = (
        OfFile::start(&(config("10 per minute", TOKEN) + CREDITS)),
        OfFile::start(&config("10 per minute", "")),
    );
    let needing = [
        ("GET", "/api/config"),
        ("GET", "/api/events"),
        ("GET", "/api/keys"),
        ("GET", "/api/live"),
        ("GET", "/api/reload"),
        ("GET", "/api/reload/preview"),
        ("GET", "/api/support-dump"),
        ("GET", "/api/trace"),
        ("GET", "/api/usage"),
    ];
    let shows = ["/api/explain", "/api/keys/get"];
    for (method, path) in calls() {
        let is_needed = method == "POST" || needing.contains(&(&*method, &*path));
        let changes_state = method == "POST" && !shows.contains(&&*path);
        for fields in WRONG {
            let answer = ask_example(with.admin(), &method, &path, fields);
            let expected = if is_needed { 401 } else { usual(&path) };
            assert_eq!(answer.status, expected, "{method} {path} {fields}");
            let challenge = answer.field("www-authenticate");
            assert_eq!(challenge.is_some(), is_needed, "{method} {path} {fields}");
        }
        let answer = ask_example(with.admin(), &method, &path, RIGHT);
        assert_eq!(answer.status, usual(&path), "{method} {path}");
        let lower = RIGHT.to_lowercase();
        let answer = ask_example(with.admin(), &method, &path, &lower);
        // The client is no longer blocked, because the call before has unblocked it.
        let again = if path == "/api/keys/unblock" {
            404
        } else {
            usual(&path)
        };
        assert_eq!(answer.status, again, "{method} {path}");
        let answer = ask_example(without.admin(), &method, &path, RIGHT);
        let expected = if changes_state { 403 } else { usual(&path) };
        assert_eq!(
            answer.status, expected,
            "{method} {path} without a token in the file"
        );
        if changes_state {
            let problem = answer.problem();
            let detail = problem["detail"].as_str().expect("text");
            assert!(detail.contains("set `[admin] token`"), "{detail}");
        }
    }
    let reload = get(without.admin(), "/api/reload");
    assert_eq!(reload.json(), json!({ "last": null }));
}

#[test]
fn no_call_is_answered_for_another_site_or_through_a_gateway_whatever_its_token() {
    let gateway = OfFile::start(&config("10 per minute", TOKEN));
    let foreign = [
        ("Host: evil.test\r\n", 403),
        ("Host: localhost\r\nOrigin: http://evil.test\r\n", 403),
        ("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", 403),
        ("Host: localhost\r\nHost: localhost\r\n", 403),
        ("Host: localhost\r\nCDN-Loop: tollgate\r\n", 508),
    ];
    for (method, path) in calls() {
        for (fields, status) in foreign {
            for target in [path.clone(), format!("http://localhost{path}")] {
                let mut client = Client::connect(gateway.admin());
                let answer = client.ask(format!(
                    "{method} {target} HTTP/1.1\r\n{fields}{RIGHT}Content-Length: 0\r\n\r\n"
                ));
                assert_eq!(answer.status, status, "{method} {target} {fields}");
                assert_described(&method, &path, &answer);
            }
        }
        let mut client = Client::connect(gateway.admin());
        let target = format!("http://evil.test{path}");
        let answer = client.ask(format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\n{RIGHT}Content-Length: 0\r\n\r\n"
        ));
        assert_eq!(answer.status, 403, "{method} {target}");
    }
    let last = ask(gateway.admin(), "GET", "/api/reload", RIGHT, "").json();
    assert_eq!(last, json!({ "last": null }));
}

#[test]
fn nothing_of_the_api_is_reachable_through_a_public_listener() {
    let gateway = OfFile::start(&config("10000 per minute", TOKEN));
    for (method, path) in calls() {
        // Through this listener it is a path of the route `/*`, whose upstream echoes it.
        let path = path.replace(['{', '}'], "");
        let echoed = ask(gateway.public(), &method, &path, RIGHT, "").json();
        assert_eq!([&echoed["method"], &echoed["path"]], [&*method, &*path]);
    }
}

#[test]
fn hostile_content_is_refused_and_reloads_nothing() {
    let gateway = OfFile::start(&config("10 per minute", TOKEN));
    let admin = gateway.admin();
    let typed = format!("{RIGHT}Content-Type: application/json; charset=utf-8\r\n");
    let large = format!("{{\"a\":\"{}\"}}", "a".repeat(1 << 20));
    let deep = "[".repeat(100_000);
    for (content, fields, status) in [
        ("{}", RIGHT, 415),
        (
            "dry_run=true",
            "Content-Type: application/x-www-form-urlencoded\r\n",
            401,
        ),
        ("{", &typed, 400),
        ("[]", &typed, 400),
        ("null", &typed, 400),
        ("{\"dry_run\":1}", &typed, 400),
        ("{\"dryrun\":true}", &typed, 400),
        ("{} {}", &typed, 400),
        ("\u{feff}{}", &typed, 400),
        (&deep, &typed, 400),
        (&large, &typed, 413),
    ] {
        let answer = ask(admin, "POST", "/api/reload", fields, content);
        let start = &content[..content.len().min(20)];
        assert_eq!(answer.status, status, "{start}: {}", answer.text());
        assert_described("POST", "/api/reload", &answer);
        assert!(!answer.text().contains("dryrun"), "nothing is reflected");
    }
    for (head, status) in [
        ("Content-Length: 1099511627776\r\n", 413),
        ("Content-Length: 1048577\r\n", 413),
        ("Transfer-Encoding: chunked\r\n", 400),
    ] {
        let mut client = Client::connect(admin);
        let answer = client.ask(format!(
            "POST /api/reload HTTP/1.1\r\nHost: localhost\r\n{typed}{head}\r\nzz\r\n"
        ));
        assert_eq!(answer.status, status, "{head}");
        client.rest();
    }
    let mut client = Client::connect(admin);
    client.send(format!(
        "POST /api/reload HTTP/1.1\r\nHost: localhost\r\n{typed}Transfer-Encoding: chunked\r\n\r\n"
    ));
    let piece = "a".repeat(1 << 16);
    // The gateway may close the connection before all is sent.
    for _ in 0..17 {
        let _ = client
            .wire
            .write(format!("10000\r\n{piece}\r\n").as_bytes());
    }
    assert_eq!(client.answer().status, 413);
    for path in [
        "/api/reload/",
        "//api/reload",
        "/api/../api/reload",
        "/api/%72eload",
        "/API/reload",
        "/api/reload;x",
        "/api/reload%00",
        "/api\\reload",
    ] {
        let answer = ask(admin, "POST", path, RIGHT, "");
        assert!(
            matches!(answer.status, 400 | 404),
            "{path}: {}",
            answer.status
        );
    }
    let last = ask(admin, "GET", "/api/reload", RIGHT, "").json();
    assert_eq!(last, json!({ "last": null }));
}

#[test]
fn a_reload_says_what_changed_and_a_preview_changes_nothing() {
    let gateway = OfFile::start(&config("10 per minute", TOKEN));
    let admin = gateway.admin();
    let quotas = || get(admin, "/api/policies").json()["policies"][0]["quotas"][0]["quota"].clone();
    gateway.rewrite(&config("20 per minute", TOKEN).replace("workers = 2", "workers = 1"));
    let applied = json!({
        "result": "applied",
        "changes": ["policy p: 10 → 20 per minute, counters kept"],
        "needs_restart": ["workers 2 → 1"],
        "warnings": [],
        "time": "2023-11-15T00:00:00.000000Z",
    });
    let without_source = |answer: &Answer| {
        let mut content = answer.json();
        let source = content["source"].take();
        assert!(
            source.as_str().expect("text").starts_with("127.0.0.1:"),
            "{source}"
        );
        content.as_object_mut().expect("an object").remove("source");
        content
    };
    let answer = ask(admin, "GET", "/api/reload/preview", RIGHT, "");
    let mut previewed = without_source(&answer);
    let known = previewed.as_object_mut().expect("an object");
    let known = known.remove("known_clients");
    let nobody = json!({ "known": 0, "refused": 0, "refused_already": 0, "partial": false, "degraded": false, "policies": [] });
    assert_eq!(
        (answer.status, previewed, known),
        (200, applied.clone(), Some(nobody))
    );
    assert_eq!(quotas(), "10 per minute");
    assert_eq!(
        ask(admin, "GET", "/api/reload", RIGHT, "").json(),
        json!({ "last": null })
    );
    let answer = ask(admin, "POST", "/api/reload", RIGHT, "");
    assert_eq!((answer.status, without_source(&answer)), (200, applied));
    assert_eq!(quotas(), "20 per minute");
    gateway.rewrite(&config("many per minute", TOKEN));
    let answer = ask(admin, "POST", "/api/reload", RIGHT, "");
    let content = answer.json();
    assert_eq!(
        (answer.status, &content["result"]),
        (422, &json!("mistakes"))
    );
    let mistake = content["mistakes"][0].as_str().expect("text");
    let file = gateway.file.display().to_string();
    assert!(mistake.starts_with(&file), "{mistake}");
    assert_eq!(quotas(), "20 per minute");
    fs::remove_file(&gateway.file).expect("it is there");
    let answer = ask(admin, "POST", "/api/reload", RIGHT, "");
    let content = answer.json();
    assert_eq!(
        (answer.status, &content["result"]),
        (422, &json!("unreadable"))
    );
    let last = ask(admin, "GET", "/api/reload", RIGHT, "").json();
    assert_eq!(last["last"]["error"], content["error"]);
}

#[test]
fn the_configuration_is_shown_without_secrets() {
    let text = config("10 per minute", TOKEN);
    let more = "[policies.keys]\nquota = '5 per 1s'\npartition = ['header:x-api-key']\n\
                overrides = { 'hunter2-key' = '7 per 1s' }\n\
                [[routes]]\npath = '/keys'\nupstream = 'api'\npolicies = ['keys']\nheaders = { x-secret = 'hunter2' }\n\
                request_headers = { set = { authorization = 'hunter2' } }\n[store]\nkey_secret = 'hunter2-hunter2-hunter2'\n";
    let gateway = OfFile::start(&format!("{text}{more}"));
    let shown = ask(gateway.admin(), "GET", "/api/config", RIGHT, "");
    let content = shown.json();
    let configuration = &content["configuration"];
    assert_eq!(configuration["admin"]["token"], "***");
    assert_eq!(configuration["store"]["key_secret"], "***");
    assert_eq!(
        configuration["policies"]["p"],
        json!({ "quota": "[10 per minute]" })
    );
    assert_eq!(configuration["routes"][1]["policies"], "[keys]");
    let dump = ask(gateway.admin(), "GET", "/api/support-dump", RIGHT, "");
    for answer in [&shown, &dump] {
        let text = answer.text();
        assert!(
            !text.contains("hunter2") && !text.contains("0123456789abcdef"),
            "{text}"
        );
    }
}

#[test]
fn a_support_dump_is_an_archive_that_tar_reads() {
    let gateway = OfFile::start(&config("10 per minute", TOKEN));
    let dump = ask(gateway.admin(), "GET", "/api/support-dump", RIGHT, "");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dump.tar");
    fs::write(&file, &dump.body).expect("a writable folder");
    let mut command = std::process::Command::new("tar");
    let output = command
        .arg("-xvf")
        .arg(&file)
        .current_dir(folder.path())
        .output();
    let output = output.expect("tar is installed");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "version.json\noverview.json\nconfig.json\nreload.json\nconnections.json\npolicies.json\nroutes.json\n\
         store.json\nupstreams.json\nmetrics.txt\nevents.log\n"
    );
    let metrics = fs::read_to_string(folder.path().join("metrics.txt")).expect("it is there");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    let routes = fs::read_to_string(folder.path().join("routes.json")).expect("it is there");
    let routes: Value = serde_json::from_str(&routes).expect("JSON");
    assert_eq!(
        routes["routes"][0]["policies"],
        json!([{ "name": "p", "cost": 1 }])
    );
}
