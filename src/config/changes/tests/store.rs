//! Lines of a reload about the store, and which changes of it wait for a restart.

use super::*;
use crate::store::settings::{Location, Password};

/// Loads the base file with a `[store]` table; `CA.pem`, `CERT.pem` and `CERT.key` stand for files of the tests.
fn with_store(store: &str) -> Loaded {
    let store = format!("[store]\n{store}\n[listeners.public]");
    loaded(
        &BASE
            .replacen("[listeners.public]", &store, 1)
            .replace("CA.pem", "tests/config/tls/redis-ca.pem")
            .replace("CERT.pem", "tests/config/tls/gateway.pem")
            .replace("CERT.key", "tests/config/tls/gateway.key"),
    )
}

#[test]
fn secrets_and_certificates_of_a_store_are_called_changed_and_never_shown() {
    let cases: [(&str, &str, &[&str]); 10] = [
        ("url = 'redis://h'", "url = 'valkey://h'", &[]),
        (
            "url = 'redis://:secret@h'",
            "url = 'redis://:hidden@h:6379/0'",
            &["store: password changed"],
        ),
        (
            "url = 'redis://h'",
            "url = 'redis://h'\nusername = 'me'\npassword = 'secret'",
            &["store: username none → me", "store: password set"],
        ),
        (
            "url = 'redis://me:secret@h'",
            "url = 'redis://h'",
            &["store: username me → none", "store: password removed"],
        ),
        (
            "url = 'redis://me:secret@h'",
            "url = 'redis://h'\nusername = 'me'\npassword = 'secret'",
            &[],
        ),
        (
            "url = 'redis+sentinel://h/m'\nsentinel_password = 'secret'",
            "url = 'redis+sentinel://h/m'\nsentinel_password = 'hidden'",
            &["store: sentinel_password changed"],
        ),
        (
            "url = 'redis+sentinel://h/m'\nsentinel_password = 'secret'",
            "url = 'redis+sentinel://h/m'\nsentinel_username = 'me'\nsentinel_password = 'secret'",
            &["store: sentinel_username none → me"],
        ),
        (
            "url = 'rediss://h'\ntls = { ca = 'CA.pem' }",
            "url = 'rediss://h'\ntls = { ca = 'CA.pem', certificate = 'CERT.pem', key = 'CERT.key' }",
            &[
                "store: tls.certificate none → tests/config/tls/gateway.pem",
                "store: tls.key none → tests/config/tls/gateway.key",
            ],
        ),
        (
            "key_secret = 'secret'",
            "key_secret = 'hidden'",
            &["store: key_secret changed, counters start afresh"],
        ),
        (
            "",
            "key_secret = 'hidden'",
            &["store: key_secret set, counters start afresh"],
        ),
    ];
    for (old, new, lines) in cases {
        let (old, new) = (with_store(old), with_store(new));
        assert_eq!(changes(&old.file, &new.file), applied(lines));
        let settings = new.snapshot.store.clone();
        let (same, kept) = kept(&old, new);
        assert_eq!(kept.snapshot.store, settings);
        assert_eq!(same, applied(lines));
    }
}

#[test]
fn numbers_of_a_store_apply_at_once() {
    let new = "timeout = '100ms'\nmin_nodes = 3\nmax_memory = '1GiB'\nrefusal_cache = '0s'\n\
               breaker = { failures = 9, failure_ratio = 0.25, window = '1m', cooldown = '500ms' }";
    assert_eq!(
        changes(&with_store("").file, &with_store(new).file),
        applied(&[
            "store: timeout 50ms → 100ms",
            "store: min_nodes 1 → 3",
            "store: max_memory 256MiB → 1GiB",
            "store: refusal_cache 1s → 0s",
            "store: breaker.failures 5 → 9",
            "store: breaker.failure_ratio 0.5 → 0.25",
            "store: breaker.window 10s → 60s",
            "store: breaker.cooldown 2s → 500ms",
        ])
    );
}

#[test]
fn servers_of_a_store_and_its_prefix_wait_for_a_restart() {
    let cases: [(&str, &str, &[&str]); 8] = [
        (
            "",
            "url = 'redis://me:secret@h'\nprefix = 'a'",
            &["store: url memory: → redis://h:6379"],
        ),
        (
            "url = 'unix:/run/redis.sock?db=2'",
            "",
            &["store: url unix:/run/redis.sock?db=2 → memory:"],
        ),
        (
            "url = 'redis://h/1'",
            "url = 'redis://[::1]:7/2'",
            &["store: url redis://h:6379/1 → redis://[::1]:7/2"],
        ),
        (
            "url = 'redis://h'",
            "url = 'rediss://h'\ntls = { ca = 'CA.pem' }",
            &[
                "store: url redis://h:6379 → rediss://h:6379",
                "store: tls.ca the system's → tests/config/tls/redis-ca.pem",
            ],
        ),
        (
            "url = 'redis+cluster://:secret@a'",
            "url = 'redis+cluster://:hidden@a,b'",
            &[
                "store: url redis+cluster://a:6379 → redis+cluster://a:6379,b:6379",
                "store: password changed",
            ],
        ),
        (
            "url = 'redis+sentinel://a/m'",
            "url = 'redis+sentinel://a/n/1'",
            &["store: url redis+sentinel://a:26379/m → redis+sentinel://a:26379/n/1"],
        ),
        (
            "url = 'redis://h'",
            "url = 'redis://h'\nprefix = 'other'",
            &["store: prefix tollgate → other"],
        ),
        (
            "url = 'redis://h'",
            "url = 'redis+cluster://h'\nprefix = 'other'",
            &[
                "store: url redis://h:6379 → redis+cluster://h:6379",
                "store: prefix tollgate → other",
            ],
        ),
    ];
    for (old, new, lines) in cases {
        let (old, new) = (with_store(old), with_store(new));
        assert_eq!(changes(&old.file, &new.file), restart(lines));
        let (changes, kept) = kept(&old, new);
        assert_eq!(kept.snapshot.store, old.snapshot.store);
        assert_eq!(changes, Changes::default());
    }
}

#[test]
fn a_prefix_that_waits_does_not_keep_a_password_waiting() {
    let old = with_store("url = 'redis://:secret@h'");
    let new = with_store("url = 'redis://:hidden@h'\nprefix = 'other'\ntimeout = '1s'");
    let (_, kept) = kept(&old, new);
    let expected = with_store("url = 'redis://:hidden@h'\ntimeout = '1s'");
    assert_eq!(kept.snapshot.store, expected.snapshot.store);
}

/// Passwords are read again without a reload when a server refuses an old one.
#[test]
fn passwords_in_force_change_with_their_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    let write = |content: &str| std::fs::write(&path, content).expect("a file");
    let file = format!("${{file:{}}}", path.display());
    for (store, content, changed, expected) in [
        (
            format!("url = 'redis://h'\npassword = '{file}'"),
            "one",
            "two\n",
            "two",
        ),
        (
            format!("url = 'redis://h'\npassword = '{file}'"),
            "one",
            "",
            "one",
        ),
        (
            format!("url = 'redis://h'\npassword = 'a-{file}'"),
            "one",
            "two",
            "a-two",
        ),
        (
            format!("url = 'redis://:{file}@h'"),
            "one",
            "%40two",
            "@two",
        ),
        (
            format!("url = '{file}'"),
            "redis://:one@h",
            "redis://:two@h",
            "two",
        ),
        (
            format!("url = '{file}'"),
            "redis://:one@h",
            "redis://h",
            "one",
        ),
        ("url = 'redis://:one@h'".to_owned(), "", "", "one"),
    ] {
        write(content);
        let loaded = with_store(&store);
        let Location::Redis(redis) = &loaded.snapshot.store.location else {
            panic!("{store}");
        };
        write(changed);
        redis.refresh_passwords();
        let text = redis.password.as_ref().map(Password::text);
        assert_eq!(text.as_deref(), Some(expected), "{store}");
        if expected.contains("two") {
            // A password that was read again in between is not a change at the next reload.
            assert_eq!(
                changes(&loaded.file, &with_store(&store).file),
                Changes::default()
            );
        }
    }
}

#[test]
fn a_password_and_certificates_are_read_again_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ca, password) = (folder.path().join("ca.pem"), folder.path().join("password"));
    let write = |authority: &str, secret: &str| {
        let authority = format!("tests/config/tls/{authority}");
        std::fs::copy(authority, &ca).expect("a copy");
        std::fs::write(&password, secret).expect("a file");
    };
    let read = || {
        with_store(&format!(
            "url = 'rediss://h'\npassword = '${{file:{}}}'\ntls = {{ ca = '{}' }}",
            password.display(),
            ca.display()
        ))
    };
    write("redis-ca.pem", "secret");
    let old = read();
    assert_eq!(changes(&old.file, &read().file), Changes::default());
    write("other-ca.pem", "hidden\n");
    assert_eq!(
        changes(&old.file, &read().file),
        applied(&["store: password changed", "store: tls.ca changed"])
    );
}
