//! What the gateway reveals about itself and the request when it refuses, and about its file when that is wrong.

use crate::support::{Client, Config, Process, Refusing, eventually, start};

/// Text in requests that must not come back in answers; part of it is markup.
const MARK: &str = "MARK<script>";

#[test]
fn refusals_reflect_nothing_and_say_nothing_of_the_gateway() {
    let refusing = Refusing::new();
    let limited = "policies = ['p']";
    let config = Config::to(refusing.url())
        .policy("p", "quota = '1 per hour'\npartition = []")
        .policy(
            "key",
            "quota = '9 per hour'\npartition = ['header:x-key']\non_missing = 'refuse'",
        )
        .listener("max_body_bytes = '9B'")
        .with("[upstreams.echo]\nendpoints = ['builtin:status/204']")
        .with(&format!(
            "[[routes]]\npath = '/limited'\nupstream = 'echo'\n{limited}"
        ))
        .with("[[routes]]\npath = '/keyed'\nupstream = 'echo'\npolicies = ['key']")
        .with("[[routes]]\npath = '/get'\nmethods = ['GET']\nupstream = 'echo'")
        .route("/down/*", "");
    let running = start(&config);
    let host = format!("Host: mark.test\r\nX-Mark: {MARK}\r\nUser-Agent: {MARK}\r\n");
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\n{host}\r\n");
    let spent = Client::connect(running.public).ask(get("/limited"));
    assert_eq!(spent.status, 204);
    let cases = [
        (400, get("/MARK%00")),
        (400, get("/MARK%zz?MARK")),
        (400, format!("GET / HTTP/1.1\r\nHost: mark@{MARK}\r\n\r\n")),
        (400, format!("GET /MARK HTTP/1.1\r\nX: {MARK}\r\n\r\n")),
        (400, format!("get /get HTTP/1.1\r\n{host}\r\n")),
        (400, format!("MARK<> / HTTP/1.1\r\n{host}\r\n")),
        (
            400,
            format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding: MARK, chunked\r\n\r\n"),
        ),
        (400, format!("GET / HTTP/1.1\r\n{host}{MARK} : x\r\n\r\n")),
        (401, get("/keyed?MARK")),
        (404, get("/MARK?MARK")),
        (
            404,
            "GET http://mark.test/MARK HTTP/1.1\r\nHost: mark.test\r\n\r\n".to_owned(),
        ),
        (
            413,
            format!("POST /down/MARK HTTP/1.1\r\n{host}Content-Length: 10\r\n\r\n"),
        ),
        (
            417,
            format!("POST /down/MARK HTTP/1.1\r\n{host}Expect: {MARK}\r\n\r\n"),
        ),
        (429, get("/limited?MARK")),
        (431, get(&format!("/{}", "MARK".repeat(10_000)))),
        (501, format!("TRACE /MARK HTTP/1.1\r\n{host}\r\n")),
        (502, get("/down/MARK?MARK")),
    ];
    let mut wrong = Vec::new();
    for (status, request) in cases {
        let mut client = Client::connect(running.public);
        client.send(&request);
        let answer = client.answer();
        let told = format!("{:?} {}", answer.head, answer.text()).to_ascii_lowercase();
        // The realm of a 401 is documented, and is the only mention of the name.
        let told = told.replace(r#"apikey realm=\"tollgate\""#, "");
        let is_clean = [
            "mark", "script", "hyper", "tollgate", "server\"", "panick", ".rs:",
        ]
        .iter()
        .all(|part| !told.contains(part));
        if answer.status != status || !is_clean {
            wrong.push(format!("{request:.60?}: {told}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// A file with several mistakes, and a secret close to each of them.
const SECRETS: &str = "\
[listeners.public]
address = \"127.0.0.1:0\"
[admin]
token = \"hunter2\"
[store]
url = \"redis://:hunter2@127.0.0.1:6379/x\"
password = ['hunter2']
key_secret = [\"\"\"hunter2\"\"\"]
[upstreams.api]
endpoints = [\"http://user:hunter2@127.0.0.1:9000\"]
[[routes]]
path = \"/*\"
upstream = \"apii\"
";

#[test]
fn a_rejected_reload_does_not_log_the_secrets_of_its_file() {
    let process = Process::start(&Config::to("builtin:echo").route("/*", ""));
    process.rewrite_text(SECRETS);
    process.signal("HUP");
    eventually("the reload is rejected", || {
        let lines = process.lines();
        let told = lines.iter().filter(|line| line.contains("cannot reload"));
        (told.count() >= 5).then_some(())
    });
    for line in process.lines() {
        assert!(!line.contains("hunter2"), "{line}");
    }
}
