//! What URLs of stores mean, and what is wrong with others.

use super::*;

fn redis(text: &str) -> RedisUrl {
    match store_url(text) {
        Ok(StoreUrl::Redis(url)) => url,
        other => panic!("{text} is {other:?}"),
    }
}

fn host(host: &str, port: u16) -> Address {
    let host = host.into();
    Address { host, port }
}

fn single(name: &str, port: u16) -> Deployment {
    Deployment::Single(host(name, port))
}

fn cluster(hosts: &[(&str, u16)]) -> Deployment {
    Deployment::Cluster(hosts.iter().map(|(name, port)| host(name, *port)).collect())
}

fn sentinel(hosts: &[(&str, u16)], name: &str) -> Deployment {
    Deployment::Sentinel {
        sentinels: hosts.iter().map(|(name, port)| host(name, *port)).collect(),
        name: name.into(),
    }
}

#[test]
fn a_url_names_servers_a_database_and_whether_to_encrypt() {
    use Encryption::{Needless, Plain, Tls};
    let socket = || Deployment::Unix(PathBuf::from("/run/redis.sock"));
    let cases = [
        ("redis://h", single("h", 6379), 0, Plain),
        (
            "redis://H.Example:7000/",
            single("h.example", 7000),
            0,
            Plain,
        ),
        ("redis://10.0.0.1:1/15", single("10.0.0.1", 1), 15, Plain),
        (
            "rediss://redis_1.local.",
            single("redis_1.local.", 6379),
            0,
            Tls,
        ),
        ("redis://[::1]", single("::1", 6379), 0, Plain),
        (
            "rediss://[2001:DB8::0:1]:7/1",
            single("2001:db8::1", 7),
            1,
            Tls,
        ),
        (
            "redis+cluster://a:1,b,[::1]:65535",
            cluster(&[("a", 1), ("b", 6379), ("::1", 65535)]),
            0,
            Plain,
        ),
        ("rediss+cluster://a/", cluster(&[("a", 6379)]), 0, Tls),
        (
            "redis+sentinel://a,b:5/main-1",
            sentinel(&[("a", 26379), ("b", 5)], "main-1"),
            0,
            Plain,
        ),
        (
            "rediss+sentinel://a/m.y_r/3",
            sentinel(&[("a", 26379)], "m.y_r"),
            3,
            Tls,
        ),
        ("unix:/run/redis.sock", socket(), 0, Needless),
        ("unix:///run/redis.sock?db=2", socket(), 2, Needless),
        ("unix:////run/redis.sock", socket(), 0, Needless),
        (
            "unix:redis.sock",
            Deployment::Unix(PathBuf::from("redis.sock")),
            0,
            Needless,
        ),
    ];
    for (text, deployment, database, encryption) in cases {
        let expected = RedisUrl {
            deployment,
            database,
            encryption,
            username: None,
            password: None,
        };
        assert_eq!(redis(text), expected, "{text}");
    }
    assert_eq!(store_url("memory:"), Ok(StoreUrl::Memory));
}

#[test]
fn credentials_are_what_their_escapes_stand_for() {
    for (text, username, password) in [
        ("redis://:pw@h", None, Some("pw")),
        ("redis://me:pw@h", Some("me"), Some("pw")),
        ("redis://me@h", Some("me"), None),
        ("redis://me:a:b@h", Some("me"), Some("a:b")),
        (
            "redis://m%65:%40%2f%3F%23%25%C3%a9@h/1",
            Some("me"),
            Some("@/?#%é"),
        ),
        ("redis+cluster://me:pw@a,b", Some("me"), Some("pw")),
        ("redis+sentinel://:+@a,b/main", None, Some("+")),
    ] {
        let url = redis(text);
        let secret = url.password.as_ref().map(Password::text);
        assert_eq!(
            (url.username.as_deref(), secret.as_deref()),
            (username, password),
            "{text}"
        );
    }
}

#[test]
fn valkey_is_another_word_for_redis() {
    for rest in [
        "://me:pw@h:1/2",
        "s://h",
        "+cluster://a,b",
        "s+cluster://a",
        "+sentinel://a/main",
        "s+sentinel://a/main",
    ] {
        let [valkey, redis] = ["valkey", "redis"].map(|name| store_url(&format!("{name}{rest}")));
        assert!(redis.is_ok(), "{rest}");
        assert_eq!(valkey, redis, "{rest}");
    }
}

fn refused(cases: &[(&str, &str)]) {
    for (text, problem) in cases {
        let wrong = store_url(text).expect_err(text);
        assert_eq!(wrong.problem, *problem, "{text}");
        assert!(wrong.subject.is_some(), "{text} is repeated");
    }
}

#[test]
fn servers_that_cannot_be_are_refused() {
    let hosts: Vec<_> = (0..65).map(|n| format!("h{n}")).collect();
    let many = format!("redis+cluster://{}", hosts.join(","));
    let (no_port, no_host) = (
        "has a port that is not a number from 1 to 65535",
        "has a host that cannot be one",
    );
    refused(&[
        ("redis://", "lacks a host"),
        ("redis:///1", "lacks a host"),
        ("redis://:6379", "lacks a host"),
        ("redis+cluster://a,", "lacks a host"),
        ("redis://h:", no_port),
        ("redis://h:0", no_port),
        ("redis://h:+1", no_port),
        ("redis://h:65536", no_port),
        ("redis://[::1]6379", no_port),
        ("redis://[h]", "has no IPv6 address in its brackets"),
        ("redis://[::1", "has no IPv6 address in its brackets"),
        ("redis://::1", no_host),
        ("redis://h h", no_host),
        ("redis://a..b", no_host),
        ("redis://-a", no_host),
        ("redis://1.2.3.4.5", no_host),
        ("redis://256.1.1.1", no_host),
        ("redis://h\u{1b}[2J", no_host),
        ("redis://a,b", "has more than one host"),
        ("redis+cluster://a,A:6379", "has a host twice"),
        (&many, "has too many hosts"),
    ]);
}

#[test]
fn a_url_that_means_nothing_says_why() {
    let long = format!("unix:/{}", "a".repeat(107));
    refused(&[
        ("", "has no known scheme"),
        ("http://h", "has no known scheme"),
        ("memory://", "has no known scheme"),
        ("redis:h", "has no known scheme"),
        ("REDIS://h", "has no known scheme"),
        ("redis://h/x", "has a database that is not a number"),
        ("redis://h/-1", "has a database that is not a number"),
        ("redis://h/1/2", "has a database that is not a number"),
        (
            "redis://h/2147483648",
            "has a database that is not a number",
        ),
        ("redis+cluster://a/1", "has a database"),
        ("redis+sentinel://a", "lacks the name of the primary"),
        ("redis+sentinel://a//1", "lacks the name of the primary"),
        (
            "redis+sentinel://a/my%20name",
            "lacks the name of the primary",
        ),
        ("redis://h?protocol=3", "has a query or a fragment"),
        ("redis://h/0#x", "has a query or a fragment"),
        ("redis://:a/b@h", "has `/`, `?` or `#` before its `@`"),
        ("redis://:a#b@h", "has `/`, `?` or `#` before its `@`"),
        ("redis://:a@b@h", "has more than one `@`"),
        ("redis+cluster://u:p@a,u:p@b", "has more than one `@`"),
        ("redis://:%zz@h", "has a `%` that is not an escape"),
        ("redis://:a%4@h", "has a `%` that is not an escape"),
        ("redis://:%é@h", "has a `%` that is not an escape"),
        ("redis://:%ff@h", "has escapes that are not UTF-8"),
        ("redis://:@h", "has an empty password"),
        ("redis://@h", "has nothing before its `@`"),
        ("redis://a%20b:c@h", "has a user that Redis does not allow"),
        ("unix:", "has no socket path"),
        ("unix:/a\0b", "has no socket path"),
        ("unix://h/a", "names a host"),
        ("unix:/a?x=1", "has a query"),
        ("unix:/a?db=", "has a query"),
        ("unix:/a?db=x", "has a database that is not a number"),
        (&long, "has a path that is too long"),
    ]);
}

#[test]
fn a_scheme_that_is_nearly_right_is_recognized() {
    for (text, hint) in [
        (
            "h",
            "it begins with a scheme, as `redis://127.0.0.1:6379` does",
        ),
        ("redis-cluster://h", "did you mean `redis+cluster://`?"),
        ("redis-sentinel://h", "did you mean `redis+sentinel://`?"),
        ("valkey-cluster://h", "did you mean `redis+cluster://`?"),
        ("redis+unix:///h", "did you mean `unix:/PATH`?"),
        (
            "http://h",
            "schemes are `memory:`, `unix:`, `redis://`, `rediss://`, `redis+cluster://`, \
             `rediss+cluster://`, `redis+sentinel://`, `rediss+sentinel://`",
        ),
    ] {
        let wrong = store_url(text).expect_err(text);
        assert_eq!(wrong.hint.as_deref(), Some(hint), "{text}");
    }
}

/// Holds whatever is wrong with the URL, and wherever in it the secret is.
#[test]
fn nothing_of_a_url_is_repeated() {
    let secret = "hunter2";
    for text in [
        "hunter2",
        "hunter2://h",
        "hunter2:hunter2@h",
        "redis://hunter2@hunter2@h",
        "redis://:hunter2/x@h",
        "redis://hunter2:%zz@h",
        "redis://:%ffhunter2@h",
        "redis://h/hunter2",
        "redis://h:hunter2",
        "redis://hunter2?hunter2",
        "redis://[hunter2]",
        "redis+cluster://hunter2,hunter2",
        "redis+sentinel://hunter2/",
        "unix://hunter2",
        "unix:hunter2?hunter2",
    ] {
        let wrong = store_url(text).expect_err(text);
        assert!(!format!("{wrong:?}").contains(secret), "{wrong:?}");
    }
    let url = redis("redis://me:hunter2@h");
    assert!(!format!("{url:?}").contains(secret), "{url:?}");
    for wrong in [
        username("hun ter2").expect_err("no user"),
        super::secret("").expect_err("none"),
    ] {
        assert!(wrong.subject.is_some());
    }
}

#[test]
fn a_prefix_cannot_break_a_key() {
    for text in ["tollgate", "a", "prod:eu/1.2_x-y"] {
        assert_eq!(prefix(text).as_deref(), Ok(text));
    }
    let long = "a".repeat(65);
    for text in [
        "", "a{b", "a}b", "a b", "a\nb", "a*", "a?", "a[b", "a\\b", "é", "a\0", &long,
    ] {
        assert_eq!(
            prefix(text).expect_err(text).problem,
            "cannot be a prefix of keys"
        );
    }
}
