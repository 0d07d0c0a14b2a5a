//! What a pipeline says about failures, in errors and in the log.

use std::io;
use std::sync::{LazyLock, Mutex};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

use super::*;
use crate::store::redis::connect::DialError;
use crate::store::redis::servers::Server;
use crate::store::settings::Password;

#[tokio::test(flavor = "local")]
async fn each_change_is_logged_once_and_no_secret_is() {
    let (log, _logging) = captured();
    let server = Server::start_with(&["requirepass right"]);
    let with = |password: &str| {
        PrimaryResolver::Fixed(DialTarget {
            password: Some(Password::new(password)),
            ..target(server.address())
        })
    };
    let pipeline = Pipeline::open(with("right"), context());
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    server.kill();
    becomes(&pipeline, PipelineState::Down).await;
    // This leaves time for several attempts, which all fail alike.
    sleep(Duration::from_secs(1)).await;
    server.restart();
    becomes(&pipeline, PipelineState::Up).await;
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    pipeline.reconfigure(with("wrong-secret"));
    becomes(&pipeline, PipelineState::Down).await;
    let text = log.text();
    let lines = ["connected to Redis", "no connection", "again", "rejects"];
    assert_eq!(text.lines().count(), lines.len(), "{text}");
    for (line, what) in text.lines().zip(lines) {
        assert!(line.contains(what), "{text}");
    }
    assert!(
        !text.contains("secret") && !text.contains("right"),
        "{text}"
    );
}

#[tokio::test(flavor = "local")]
async fn right_that_lacks_is_told_once_with_what_to_do() {
    for (lost, said) in [
        ("-evalsha", "NOPERM"),
        ("-eval", "NOPERM"),
        ("-set", "can't run this command"),
        ("resetkeys", "NOPERM"),
    ] {
        let (log, _logging) = captured();
        let server = Server::start();
        server.command(&["ACL", "SETUSER", "default", lost]);
        let pipeline = connected(&server).await;
        for _ in 0..3 {
            let denied = pipeline.asked(plan("k", 1)).await;
            assert!(denied.is_err(), "{lost}: {denied:?}");
        }
        let text = log.text();
        let errors: Vec<_> = (text.lines())
            .filter(|line| line.contains("ERROR"))
            .collect();
        let [error] = errors[..] else {
            panic!("{lost}: {text}")
        };
        assert!(error.contains("grant the permissions"), "{error}");
        assert!(error.contains(said), "{error}");
    }
}

#[tokio::test(flavor = "local")]
async fn eviction_is_told_once_per_change_whichever_worker_finds_it() {
    let (log, _logging) = captured();
    let server = Server::start();
    let context = context();
    let open = || {
        Pipeline::open(
            PrimaryResolver::Fixed(target(server.address())),
            context.clone(),
        )
    };
    let pipelines = [open(), open()];
    let warned = "may evict keys";
    for (policy, lines) in [
        ("noeviction", &[][..]),
        ("volatile-lru", &[warned]),
        ("volatile-lru", &[warned]),
        ("allkeys-lru", &[warned, "may evict any key"]),
        (
            "noeviction",
            &[warned, "may evict any key", "no longer evicts keys"],
        ),
        (
            "noeviction",
            &[warned, "may evict any key", "no longer evicts keys"],
        ),
    ] {
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy]);
        server.command(&["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
        for pipeline in &pipelines {
            while pipeline.asked(plan("k", 1)).await.is_err() {
                sleep(Duration::from_millis(5)).await;
            }
        }
        let text = log.text();
        let said: Vec<_> = text.lines().filter(|line| line.contains("evict")).collect();
        assert_eq!(said.len(), lines.len(), "{policy}: {text}");
        for (line, what) in said.iter().zip(lines) {
            assert!(line.contains(what), "{policy}: {text}");
        }
    }
}

#[test]
fn what_a_server_says_is_shown_in_one_line_of_bounded_length() {
    let said = format!("-{}\u{1b} {}\r\n", "E".repeat(5_000), "x".repeat(5_000));
    let Ok(Value::ServerError(error)) = redis::parse_redis_value(said.as_bytes()) else {
        panic!("it is an error");
    };
    for shown in [
        CallError::from_server(&error).to_string(),
        DialError::from_server(&error).to_string(),
        DialError::from(redis::RedisError::from(error)).to_string(),
    ] {
        assert!(shown.len() < 300 && !shown.contains('\u{1b}'), "{shown}");
    }
}

/// Captures what this thread logs, until the guard is dropped.
pub(super) fn captured() -> (CapturedLog, impl Drop) {
    // With only one subscriber, a log statement is disabled for good once a thread without that subscriber reaches it.
    static SECOND: LazyLock<tracing::Dispatch> = LazyLock::new(|| {
        tracing::Dispatch::new(tracing_subscriber::registry().with(LevelFilter::OFF))
    });
    LazyLock::force(&SECOND);
    let log = CapturedLog::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}

/// What was logged on one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    pub(super) fn text(&self) -> String {
        let bytes = self.0.lock().expect("nobody panics with it");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics with it").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
