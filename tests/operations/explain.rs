//! `tollgate explain`: what a file makes of a request, as an operator asks for it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::support::process::{Ran, tollgate};
use crate::support::{Config, Process, get};

fn explain(folder: &Path, file: &str, arguments: &[&str]) -> Ran {
    tollgate(
        &[&["explain", "--config", file], arguments].concat(),
        folder,
    )
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/operations/explain")
}

/// `GOLDEN=write cargo test --test operations explain` writes the output anew; read the difference.
fn assert_golden(name: &str, said: &str) {
    let path = folder().join(name);
    if std::env::var("GOLDEN").is_ok_and(|how| how == "write") {
        fs::write(&path, said).expect("it is writable");
    }
    let expected = fs::read_to_string(&path).expect("it is there");
    assert_eq!(said, expected, "{name}");
}

/// What each case is about, and its arguments.
const ASKED: &[(&str, &[&str])] = &[
    (
        "A client with an override.",
        &[
            "--header",
            "x-api-key: live_123",
            "--from",
            "203.0.113.9",
            "https://api.example.com/v1//items/./7?x=1",
        ],
    ),
    (
        "A trusted proxy names a client, whom an override blocks.",
        &[
            "--header",
            "x-api-key: bad",
            "--header",
            "X-Forwarded-For: 1.2.3.4",
            "--from",
            "10.0.0.1",
            "/v1/items/7",
        ],
    ),
    (
        "A trusted proxy names nobody.",
        &[
            "--header",
            "x-api-key: free",
            "--from",
            "10.0.0.1",
            "/v1/items/7",
        ],
    ),
    ("A client that does not identify itself.", &["/v1/items/7"]),
    (
        "Two values of what names the client.",
        &["--header", "cookie: s=1; s=2", "/v1/sessions"],
    ),
    (
        "A cookie that is missing.",
        &["--header", "cookie: t=1", "/v1/sessions"],
    ),
    (
        "A CORS preflight.",
        &[
            "--method",
            "OPTIONS",
            "--header",
            "origin: https://app.example.com",
            "--header",
            "access-control-request-method: GET",
            "/v1/items/7",
        ],
    ),
    (
        "What looks like a CORS preflight, but says more.",
        &[
            "--method",
            "OPTIONS",
            "--header",
            "origin: https://app.example.com",
            "--header",
            "cookie: s=1",
            "--header",
            "access-control-request-method: GET",
            "/v1/items/7",
        ],
    ),
    (
        "A body that is too large.",
        &[
            "--method",
            "POST",
            "--header",
            "content-length: 1025",
            "--listener",
            "internal",
            "/v1/x",
        ],
    ),
    (
        "A body that fits.",
        &[
            "--method",
            "POST",
            "--header",
            "content-length: 1024",
            "--listener",
            "internal",
            "/v1/x",
        ],
    ),
    (
        "A cost that the body tells.",
        &[
            "--method",
            "POST",
            "--header",
            "content-length: 4000",
            "http://127.0.0.1:8081/v1/chat",
        ],
    ),
    (
        "A cost that the client tells badly.",
        &["--header", "x-cost: many", "/v1/declared"],
    ),
    (
        "A method in the wrong case.",
        &["--method", "get", "/v1/items/7"],
    ),
    (
        "A header with another value.",
        &[
            "--header",
            "x-api-key: a",
            "--header",
            "x-version: 3",
            "/v1/items/7",
        ],
    ),
    (
        "A header with the right value, on a host of its own.",
        &[
            "--header",
            "x-version: 2",
            "http://a.example.org/v1/items/7",
        ],
    ),
    ("A path that no route takes, of many.", &["/many/0/x"]),
    ("A path that is refused.", &["/v1/..%2fx"]),
    (
        "A host that is refused.",
        &["--header", "host: a b", "/v1/x"],
    ),
    ("A method that is refused.", &["--method", "TRACE", "/v1/x"]),
    (
        "Connection names what is read.",
        &[
            "--header",
            "connection: x-api-key",
            "--header",
            "x-api-key: a",
            "/v1/items/7",
        ],
    ),
];

#[test]
fn explain_says_what_becomes_of_a_request_and_why() {
    let mut said = String::new();
    for (about, arguments) in ASKED {
        let output = explain(&folder(), "gateway.toml", arguments);
        assert_eq!(output.status, Some(0), "{about}: {output:?}");
        assert_eq!(output.stderr, "", "{about}");
        let text = output.stdout;
        let quoted = arguments.iter().map(|argument| {
            if argument.contains(' ') {
                format!("'{argument}'")
            } else {
                (*argument).to_owned()
            }
        });
        let arguments = quoted.collect::<Vec<_>>().join(" ");
        writeln!(said, "# {about}\n$ tollgate explain {arguments}\n{text}")
            .expect("memory takes every byte");
    }
    assert_golden("requests.txt", &said);
}

#[test]
fn explain_says_of_a_file_without_a_secret_what_its_digests_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = "[listeners.public]\naddress = '127.0.0.1:8080'\n[upstreams.a]\nendpoints = ['builtin:echo']\n\
                [policies.p]\nquota = '1 per day'\npartition = ['header:x-api-key']\n\
                [[routes]]\npath = '/*'\nupstream = 'a'\npolicies = ['p']\n";
    fs::write(folder.path().join("a.toml"), file).expect("it is writable");
    let output = explain(
        folder.path(),
        "a.toml",
        &["--header", "x-api-key: live_1", "/"],
    );
    let said = output.stdout;
    assert!(said.contains("client: live~"), "{said}");
    assert!(!said.contains("id:") && !said.contains("live_1"), "{said}");
    assert!(said.contains("`[store] key_secret` is not set"), "{said}");
}

#[test]
fn a_running_gateway_says_what_is_left() {
    let config = Config::limited(
        "builtin:status/200",
        "quota = '2 per 366d'\nalgorithm = 'fixed-window'",
    );
    let mut process = Process::start(&config);
    assert_eq!(get(process.public, "/", "").status, 200);
    let file = process.file().to_str().expect("text").to_owned();
    for _ in 0..2 {
        let output = explain(&folder(), &file, &["--live", "/"]);
        assert_eq!(output.status, Some(0), "{output:?}");
        let said = output.stdout;
        assert!(
            said.contains("2 per 366d, fixed-window: 1 left, more in "),
            "{said}"
        );
        assert!(said.ends_with("result\n  admitted now\n"), "{said}");
    }
    let output = explain(&folder(), &file, &["--live", "--listener", "edge", "/"]);
    assert_eq!(output.status, Some(1), "{output:?}");
    process.signal("KILL");
    process.wait();
    let output = explain(&folder(), &file, &["--live", "/"]);
    assert_eq!(output.status, Some(1), "{output:?}");
    let said = output.stderr;
    assert!(said.contains("no gateway listens at"), "{said}");
}

#[test]
fn what_cannot_be_explained_is_said_with_an_exit_status() {
    for (file, arguments, status, expected) in [
        ("gateway.toml", &["a b"][..], 2, "this is not a URL"),
        ("gateway.toml", &["ftp://a/b"], 2, "this is not a URL"),
        (
            "gateway.toml",
            &["--header", "x", "/"],
            2,
            "this is not a header",
        ),
        (
            "gateway.toml",
            &["--header", "a b: c", "/"],
            2,
            "this is not a header",
        ),
        (
            "gateway.toml",
            &["--method", "G T", "/"],
            2,
            "this is not a method",
        ),
        (
            "gateway.toml",
            &["--from", "localhost", "/"],
            2,
            "this is not where a request comes from",
        ),
        (
            "gateway.toml",
            &["--listener", "edge", "/"],
            2,
            "no listener `edge`: the file has `public`, `internal`",
        ),
        ("missing.toml", &["/"], 78, "there is no file"),
        ("requests.txt", &["/"], 78, "requests.txt"),
    ] {
        let output = explain(&folder(), file, arguments);
        let said = output.stderr;
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(output.status, Some(status), "{arguments:?}");
        assert_eq!(output.stdout, "", "{arguments:?}");
    }
}
