//! `tollgate id`: prints what logs call a client.

use std::path::Path;

use crate::support::process::{Ran, tollgate};
use crate::support::{Config, Process, get};

/// Runs `tollgate id` on that file.
fn id(file: &Path, policy: &str, value: &str) -> Ran {
    let file = file.to_str().expect("text");
    tollgate(&["id", policy, value, "--config", file], Path::new("."))
}

fn config(partition: &str, clients: &str, store: &str) -> Config {
    let policy = format!("quota = '9 per day'\npartition = {partition}");
    let config = Config::to("builtin:echo").policy("p", &policy);
    let config = config.route("/items/{id}/*", "policies = ['p']");
    config.with(&format!("[log]\nclients = '{clients}'\n[store]\n{store}"))
}

const SECRET: &str = "key_secret = 'sixteen bytes or more'";

#[test]
fn id_prints_what_the_log_calls_a_client() {
    let key = "X-Api-Key: live_secret\r\n";
    for (partition, clients, value, fields) in [
        ("['header:x-api-key']", "short", "live_secret", key),
        ("['header:x-api-key']", "digest", "live_secret", key),
        (
            "['header:authorization']",
            "short",
            "bearer  abcdef",
            "Authorization: Bearer abcdef\r\n",
        ),
        (
            "['header:authorization']",
            "short",
            "Basic YTpiYw==",
            "Authorization: Basic YTpiYw==\r\n",
        ),
        (
            "['header:x-tenant', 'method']",
            "short",
            "header:x-tenant=acme_1, method=GET",
            "X-Tenant: acme_1\r\n",
        ),
        ("['header:x-api-key | ip']", "short", "ip=127.0.0.1", ""),
        (
            "['header:x-api-key | ip']",
            "short",
            "header:x-api-key=live_secret",
            key,
        ),
        (
            "['cookie:session']",
            "short",
            "abcdef",
            "Cookie: session=abcdef\r\n",
        ),
        (
            "['query:user', 'ip']",
            "digest",
            "query:user=a b, ip=127.0.0.1",
            "",
        ),
        ("['path:id']", "short", "Seven", ""),
        ("['path']", "short", "/items/Seven/a/", ""),
        ("['host']", "short", "A.test", ""),
        ("[]", "short", "anybody", ""),
    ] {
        let process = Process::start(&config(partition, clients, SECRET));
        get(process.public, "/items/Seven/a?user=a%20b", fields);
        let record = &process.wait_for_records(1)[0];
        let logged = record["partitions"][0].as_str().expect("a partition");
        let output = id(process.file(), "p", value);
        let printed = output.stdout;
        assert_eq!(printed, format!("{logged}\n"), "{partition} {value}");
        assert_eq!(output.status, Some(0), "{partition} {value}");
        if (partition, clients) == ("['header:x-api-key']", "digest") {
            // By this name a client is known in Redis and in logs, to every version.
            assert_eq!(logged, "512bc463");
        }
    }
}

#[test]
fn id_says_what_it_needs_and_never_repeats_the_value() {
    let key = "['header:x-api-key']";
    for (partition, store, policy, value, expected, code) in [
        (
            key,
            "",
            "p",
            "live_1",
            "`[store] key_secret` is not set",
            78,
        ),
        (key, SECRET, "pp", "live_1", "there is no policy `pp`", 1),
        (key, SECRET, "p", "live_*", "names several clients", 1),
        (
            "['ip']",
            SECRET,
            "p",
            "10.0.0.0/8",
            "names several clients",
            1,
        ),
        (
            "['ip', 'method']",
            SECRET,
            "p",
            "method=GET",
            "names several clients",
            1,
        ),
        (
            "['ip', 'method']",
            SECRET,
            "p",
            "live_1",
            "does not say which part it is about",
            1,
        ),
        ("['nonsense']", SECRET, "p", "live_1", "nonsense", 78),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("gateway.toml");
        let text = config(partition, "short", store).text();
        std::fs::write(&file, text).expect("a writable folder");
        let output = id(&file, policy, value);
        let said = output.stderr;
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("live_1"), "{said}");
        assert_eq!(output.status, Some(code), "{said}");
    }
}

#[test]
fn addresses_of_one_network_have_the_name_of_their_network() {
    let second = "[listeners.second]\naddress = '127.0.0.1:9'\nipv6_prefix = 56";
    for (more, value, expected) in [
        ("", "2001:db8:1:2::3", "2001:db8:1:2::/64\n"),
        ("", "2001:db8:1:2::/64", "2001:db8:1:2::/64\n"),
        (
            second,
            "2001:db8:1:2::3",
            "2001:db8:1:2::/64\n2001:db8:1::/56\n",
        ),
        (second, "::ffff:203.0.113.9", "203.0.113.9\n"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("gateway.toml");
        let text = config("['ip']", "short", SECRET).with(more).text();
        std::fs::write(&file, text).expect("a writable folder");
        let output = id(&file, "p", value);
        let said = output.stderr;
        assert_eq!(output.stdout, expected, "{said}");
    }
}
