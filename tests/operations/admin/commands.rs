//! The commands that speak to the admin port, as an operator runs them: whole outputs.

use std::fs;
use std::path::Path;

use crate::support::redis::{Cluster, Server, listed};
use crate::support::{Client, Config, Process, eventually, get, process};

const TOKEN: &str = "[admin]\ntoken = '0123456789abcdef'\n";

/// Runs a command on a file; returns its exit status, and what it prints to stdout and stderr.
fn tollgate(file: &Path, arguments: &[&str]) -> (i32, String, String) {
    let path = file.to_str().expect("text");
    let ran = process::tollgate(&[arguments, &["--config", path]].concat(), Path::new("."));
    // Paths and ports differ from run to run.
    let folder = file.parent().expect("a folder").display().to_string() + "/";
    let said = |text: &str| text.replace(&folder, "");
    let status = ran.status.expect("it exits");
    (status, said(&ran.stdout), said(&ran.stderr))
}

fn said(status: i32, stdout: &str, stderr: &str) -> (i32, String, String) {
    (status, stdout.to_owned(), stderr.to_owned())
}

fn config(quota: &str) -> Config {
    Config::limited("http://127.0.0.1:9", &format!("quota = '{quota}'"))
}

/// Adds the token to the file of a gateway.
fn with_token(process: &Process) {
    let text = fs::read_to_string(process.file()).expect("a file");
    process.rewrite_text(&text.replace("[admin]\n", TOKEN));
}

#[test]
fn reload_waits_and_prints_what_changed_or_what_is_wrong() {
    let process = Process::start(&config("10 per minute"));
    let file = process.file();
    let no_token = "tollgate: the gateway refused: the file sets no `[admin] token`, and without one nothing can be \
                    changed through its port\ntollgate: to reload, send SIGHUP instead: `kill -HUP PID`, or `systemctl \
                    reload tollgate`\n";
    assert_eq!(tollgate(file, &["reload"]), said(1, "", no_token));
    // The check changes nothing, so it needs no token if the gateway has none.
    let against = ["check", "--against", "running"];
    let nothing = "a reload would change nothing\n0 of 0 known clients would be refused now (0 with the running \
                   configuration)\n";
    assert_eq!(tollgate(file, &against), said(0, nothing, ""));
    with_token(&process);
    let refused = "tollgate: the gateway refused: This changes state, which needs a token, and none is configured: set \
                   `[admin] token` and reload the file with SIGHUP.\ntollgate: to reload, send SIGHUP instead: `kill -HUP \
                   PID`, or `systemctl reload tollgate`\n";
    assert_eq!(tollgate(file, &["reload"]), said(1, "", refused));
    process.signal("HUP");
    process.wait_for_line(&["the new configuration is in effect"]);
    let nothing = said(0, "reloaded, which changed nothing\n", "");
    assert_eq!(tollgate(file, &["reload"]), nothing);
    process.rewrite(&config("20 per minute").one_worker());
    with_token(&process);
    let preview = "a reload would change\n  policy p: 10 → 20 per minute, counters kept\nneeds a restart, and would keep \
                   its old value until then\n  workers 2 → 1\n0 of 0 known clients would be refused now (0 with the \
                   running configuration)\n";
    let (status, stdout, stderr) = tollgate(file, &against);
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert_eq!(stdout, preview);
    let changed = "reloaded, which changed\n  policy p: 10 → 20 per minute, counters kept\nneeds a restart, and keeps its old value until \
                   then\n  workers 2 → 1\n";
    assert_eq!(tollgate(file, &["reload"]), said(0, changed, ""));
    process.rewrite(&config("many per minute"));
    with_token(&process);
    let mistake = tollgate(file, &["reload"]);
    insta::assert_snapshot!(mistake.2);
    assert_eq!((mistake.0, mistake.1.as_str()), (78, ""));
    let mistake = tollgate(file, &against);
    assert_eq!((mistake.0, mistake.1.as_str()), (78, ""));
    process.rewrite(&config("20 per minute"));
    let other = fs::read_to_string(file).expect("a file");
    let token = TOKEN.replace("abcdef", "abcdee");
    process.rewrite_text(&other.replace("[admin]\n", &token));
    let admin = process.admin;
    let rotated = format!(
        "tollgate: the gateway at {admin} has another token than the file: if it has changed, reload with SIGHUP\n"
    );
    assert_eq!(tollgate(file, &["reload"]), said(1, "", &rotated));
}

/// Three policies: by key with overrides, by key with overrides by plan, and by address.
fn limited_by_three(keys: &str, plans: &str) -> Config {
    let policy = |partition: &str, rest: &str| {
        format!("algorithm = 'fixed-window'\npartition = ['{partition}']\n{rest}")
    };
    let plans = format!("overrides_by = 'header:x-plan'\n{plans}");
    Config::to("builtin:status/200")
        .policy("keys", &policy("header:x-api-key", keys))
        .policy("plans", &policy("header:x-api-key", &plans))
        .policy("addresses", &policy("ip", "quota = '1000 per 366d'"))
        .route("/*", "policies = ['keys', 'plans', 'addresses']")
}

#[test]
fn check_against_running_says_how_many_known_clients_would_be_refused() {
    let redis = Server::start();
    let before = limited_by_three(
        "quota = '10 per 366d'\noverrides = { vip = '100 per day' }",
        "quota = '100 per 366d'\noverrides = { pro = '200 per day' }",
    );
    let after = limited_by_three(
        "quota = '9 per 366d'\noverrides = { vip = '100 per day', blo = 'blocked' }",
        "quota = '5 per 366d'\noverrides = { pro = '200 per day' }",
    );
    let cluster = Cluster::start(3, 0);
    let on = |url: String| format!("[store]\nurl = '{url}'\ntimeout = '10s'");
    let stores = [
        String::new(),
        on(format!("redis+cluster://{}", listed(&cluster.addresses()))),
        on(format!("redis://{}", redis.address())),
    ];
    let mut processes: Vec<Process> = Vec::new();
    for store in stores {
        let process = Process::start(&before.clone().with(&store));
        with_token(&process);
        process.signal("HUP");
        process.wait_for_line(&["the new configuration is in effect"]);
        for (key, plan, count) in [
            ("all", "", 11),
            ("some", "", 8),
            ("few", "", 2),
            ("vip", "pro", 20),
            ("blo", "pro", 1),
        ] {
            let mut client = Client::connect(process.public);
            for _ in 0..count {
                client.get("/", &format!("X-Api-Key: {key}\r\nX-Plan: {plan}\r\n"));
            }
        }
        process.rewrite(&after.clone().with(&store));
        with_token(&process);
        let (status, stdout, stderr) = tollgate(process.file(), &["check", "--against", "running"]);
        assert_eq!((status, stderr.as_str()), (0, ""));
        let of_any_store = stdout.lines().filter(|line| !line.starts_with("  store: "));
        insta::assert_snapshot!(
            "judged_clients",
            of_any_store.collect::<Vec<_>>().join("\n")
        );
        processes.push(process);
    }
    redis.kill();
    let on_redis = processes.last().expect("there are three");
    let (status, stdout, stderr) = tollgate(on_redis.file(), &["check", "--against", "running"]);
    assert_eq!((status, stderr.as_str()), (0, ""));
    let judged = stdout
        .lines()
        .skip_while(|line| !line.contains("known clients"));
    let judged: Vec<&str> = judged.collect();
    let expected = [
        "1 of 11 known clients would be refused now (0 with the running configuration)",
        "  Redis cannot be asked: these are this gateway's own counts",
        "  keys: 1 of 5 would be refused now (0 with the running configuration)",
    ];
    assert_eq!(judged, expected);
}

#[test]
fn reload_says_why_the_gateway_cannot_be_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gateway.toml");
    let write = |admin: &str| {
        let text = config("10 per minute").text();
        let text = text.replace(
            "[admin]\naddress = \"off\"\n",
            &format!("[admin]\n{admin}\n"),
        );
        fs::write(&file, text).expect("a writable folder");
    };
    write("address = 'off'\ntoken = '0123456789abcdef'");
    let off = "tollgate: `[admin] address` is \"off\"\ntollgate: to reload, send SIGHUP instead: `kill -HUP PID`, or \
               `systemctl reload tollgate`\n";
    assert_eq!(tollgate(&file, &["reload"]), said(1, "", off));
    write("address = '127.0.0.1:1'\ntoken = '0123456789abcdef'");
    let nobody = "tollgate: no gateway listens at 127.0.0.1:1 (Connection refused (os error 111)): does one run with this \
                  file?\n";
    assert_eq!(tollgate(&file, &["reload"]), said(1, "", nobody));
    write("address = '127.0.0.1:1'\ntoken = 'short'");
    let (status, stdout, stderr) = tollgate(&file, &["reload"]);
    assert_eq!((status, stdout.as_str()), (78, ""));
    insta::assert_snapshot!(stderr);
    fs::remove_file(&file).expect("it is there");
    assert_eq!(tollgate(&file, &["reload"]).0, 78);
}

#[test]
fn check_says_what_another_file_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, config: &Config| {
        let file = folder.path().join(name);
        fs::write(&file, config.text()).expect("a writable folder");
        file
    };
    let old = write("old.toml", &config("10 per minute"));
    let new = write(
        "new.toml",
        &config("20 per minute")
            .one_worker()
            .route("/new", "policies = ['p']"),
    );
    let bad = write("bad.toml", &config("many per minute"));
    let against = old.to_str().expect("a path");
    let changed = "against old.toml, a reload would change\n  policy p: 10 → 20 per minute, counters kept\n  \
                   route /new added\nneeds a restart, and would keep its old value until then\n  workers 2 → 1\n";
    assert_eq!(
        tollgate(&new, &["check", "--against", against]),
        said(0, changed, "")
    );
    let same = "against old.toml, a reload would change nothing\n";
    assert_eq!(
        tollgate(&old, &["check", "--against", against]),
        said(0, same, "")
    );
    assert_eq!(tollgate(&bad, &["check", "--against", against]).0, 78);
    let bad = bad.to_str().expect("a path");
    assert_eq!(tollgate(&old, &["check", "--against", bad]).0, 78);
}

/// Replaces every time and every span of seconds by one word.
fn timeless(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n', ')']).map(|word| {
        let bare = word.trim_end_matches([' ', '\n', ')', ',', ';']);
        let is_time = bare.ends_with('Z') && bare.contains('T');
        let is_span = bare
            .strip_suffix('s')
            .is_some_and(|seconds| seconds.parse::<u64>().is_ok());
        if is_time || is_span {
            word.replace(bare, "TIME")
        } else {
            word.to_owned()
        }
    });
    words.collect()
}

#[test]
fn keys_say_what_a_client_has_and_what_was_done() {
    let config = Config::to("builtin:status/204")
        .policy(
            "p",
            "quota = '5 per hour'\npartition = ['header:x-api-key']\ncandidate = '3 per hour'",
        )
        .policy(
            "tried",
            "quota = '5 per hour'\npartition = ['ip']\nmode = 'shadow'",
        )
        .route("/*", "policies = ['p', 'tried']")
        .with("[store]\nkey_secret = 'sixteen bytes or more'")
        .admin_token("0123456789abcdef");
    let process = Process::start(&config);
    let file = process.file();
    let keys = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["keys"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let (status, stdout, stderr) = tollgate(file, &arguments);
        (status, timeless(&stdout) + &stderr)
    };
    get(process.public, "/", "X-Api-Key: live_123\r\n");
    let mut transcript = String::new();
    for arguments in [
        &["get", "p", "live_123"][..],
        &[
            "set",
            "p",
            "live_123",
            "50 per hour",
            "9 per minute",
            "--for",
            "8h",
        ],
        &["get", "p", "live_123"],
        &["adjust", "p", "live_123", "-2"],
        &["adjust", "p", "live_123", "+1"],
        &["block", "tried", "10.0.0.0/8", "--for", "1h"],
        &["block", "p", "live_*", "--everywhere"],
        &["list"],
        &["get", "p", "live_123"],
        &["unblock", "p", "live_*"],
        &["set", "p", "live_123", "--end"],
        &["reset", "p", "live_123"],
        &["unblock", "p", "live_123"],
        &["get", "q", "live_123"],
        &["get", "p", "live_*"],
        &["set", "p", "live_123", "5 per hour", "--for", "400d"],
    ] {
        let (status, said) = keys(arguments);
        let written = arguments.join(" ");
        let all = [
            "$ tollgate keys ",
            &written,
            "
",
            &said,
            "exit status ",
            &status.to_string(),
            "

",
        ];
        transcript.extend(all);
    }
    insta::assert_snapshot!(transcript);
    // The log names clients, but a support dump, which is meant for others, does not.
    process.wait_for_line(&["an operator acted on a client", "10.0.0.0/8"]);
    let mut client = Client::connect(process.admin);
    let fields = "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n";
    let dump = client.ask(format!("GET /api/support-dump HTTP/1.1\r\n{fields}\r\n"));
    let dump = String::from_utf8_lossy(&dump.body).into_owned();
    assert!(dump.contains("\"message\":\"listening\""), "{dump}");
    for named in ["e5146d1a", "10.0.0.0/8", "live_"] {
        assert!(!dump.contains(named), "{named}");
    }
}

#[test]
fn top_prints_who_is_refused_and_needs_a_terminal_to_follow_it() {
    let process = Process::start(&config("2 per hour"));
    let file = process.file();
    let mut client = Client::connect(process.public);
    for _ in 0..5 {
        client.get("/", "");
    }
    let shown = eventually("what was counted", || {
        let (status, stdout, stderr) = tollgate(file, &["top", "--once"]);
        assert_eq!((status, stderr.as_str()), (0, ""));
        let is_counted = stdout.contains("\n3 of 5 ") && stdout.contains("; 2 failed\n");
        is_counted.then_some(stdout)
    });
    assert!(!shown.contains('\u{1b}'), "{shown}");
    for (begin, end) in [
        ("tollgate ", "Z"),
        (
            "3 of 5 requests in the last ",
            " s were refused, by p; 2 failed",
        ),
        ("refused ", "/s"),
        ("store     Counters are in this gateway's memory.", ""),
        (
            "endpoints 1 of 1 take requests: api 127.0.0.1:9: requests fail since ",
            " UTC",
        ),
        ("reload    none since the start at ", ""),
        ("p ", ""),
        ("/* ", ""),
        ("3            p                         127.0.0.1", ""),
        (
            "100.0 % 0 of 2           p                         127.0.0.1",
            "",
        ),
    ] {
        let is_there = |line: &str| line.starts_with(begin) && line.ends_with(end);
        assert!(shown.lines().any(is_there), "{begin} … {end}:\n{shown}");
    }
    let no_terminal = "tollgate: standard output is not a terminal: `tollgate top --once` prints how things stand as \
                       text, and `GET /api/live` of the admin port has it as JSON\n";
    assert_eq!(tollgate(file, &["top"]), said(1, "", no_terminal));
    with_token(&process);
    let (status, stdout, _) = tollgate(file, &["top", "--once"]);
    assert_eq!((status, stdout.is_empty()), (0, false));
}

#[test]
fn trace_shows_the_next_requests_step_by_step() {
    let process = Process::start(&config("1 per minute"));
    get(process.public, "/", "");
    let arguments = ["trace", "--refused", "--policy", "p", "--count", "1"];
    let file = process.file().to_owned();
    let tracing = std::thread::spawn(move || tollgate(&file, &arguments));
    // Nothing shows when the command begins to watch, so requests are sent until one is traced.
    eventually("a request is traced", || {
        get(process.public, "/items", "");
        tracing.is_finished().then_some(())
    });
    let traced = tracing.join().expect("it ends");
    let (status, shown, waiting) = traced;
    assert_eq!((status, &*waiting), (0, "tollgate: waiting for requests\n"));
    let mut lines = shown.lines();
    let first = lines.next().expect("a line");
    assert!(first.starts_with("GET a.test/items → 429 in "), "{shown}");
    assert!(
        first.contains(", client 127.0.0.1, route /*, request "),
        "{shown}"
    );
    let names = lines.filter_map(|line| line.split_once(" µs  "));
    let names: Vec<&str> = names.map(|(_, step)| step[..10].trim_end()).collect();
    let expected = ["received", "client", "route", "quota", "decision", "answer"];
    assert_eq!(names, expected, "{shown}");
    let unknown = tollgate(process.file(), &["trace", "--policy", "q"]);
    let refused = "tollgate: the gateway refused: There is no such policy\n";
    assert_eq!(unknown, said(1, "", refused));
}
