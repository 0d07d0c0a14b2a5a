//! HTTP/1.1 through TLS does everything it does without: deadlines, early answers, reloads, ends.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;
use std::sync::Arc;

use rustls::ClientConfig;
use serde_json::Value;

use crate::secure::{Secure, tls, trusting};
use crate::support::redis::{Authority, Certificate};
use crate::support::wire::is_reset;
use crate::support::{
    After, Config, Flow, Gate, Origin, Process, Running, eventually, secs, start,
};

fn local() -> (Authority, Certificate, Arc<ClientConfig>) {
    let authority = Authority::new();
    let certificate = authority.sign_local();
    let client = Arc::new(trusting(&authority, None));
    (authority, certificate, client)
}

fn connect(running: &Running, client: &Arc<ClientConfig>) -> Secure {
    Secure::connect(running.public, client, Some("localhost")).expect("a handshake")
}

#[test]
fn a_late_head_is_answered_and_the_connection_ends_properly() {
    let (_authority, certificate, client) = local();
    let config = Config::to("builtin:status/200").listener(&tls(&[&certificate], ""));
    let running = start(&config.route("/*", ""));
    let mut slow = connect(&running, &client);
    slow.send("GET / HTTP/1.1\r\nHost: local")
        .expect("it reads");
    let _flow = Flow::of(&running.clock, secs(1));
    let told = String::from_utf8(slow.rest().expect("an end with close_notify")).expect("text");
    assert!(told.starts_with("HTTP/1.1 408 "), "{told:?}");
}

#[test]
fn answer_to_http_1_0_that_broke_off_has_no_close_notify() {
    let (_authority, certificate, client) = local();
    for (rest, is_whole) in [("0\r\n\r\n", true), ("zz\r\n", false)] {
        let gate = Gate::default();
        let waiting = gate.clone();
        let origin = Origin::scripted(move |exchange| {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            exchange.write(format!("{head}5\r\nhello\r\n"))?;
            waiting.wait();
            exchange.write(rest)?;
            Ok(After::Close)
        });
        let config = Config::to(origin.url()).listener(&tls(&[&certificate], ""));
        let running = start(&config.route("/*", ""));
        let mut asking = connect(&running, &client);
        let asked = asking.send("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
        asked.expect("it reads");
        asking.until("hello").expect("the beginning");
        gate.open();
        match asking.rest() {
            Ok(rest) => assert!(is_whole && rest.is_empty(), "{rest:?}"),
            Err(error) => assert!(!is_whole && is_reset(&error), "{error}"),
        }
    }
}

#[test]
fn whoever_uploads_receives_an_early_answer() {
    let (_authority, certificate, client) = local();
    let config = Config::to("builtin:status/200")
        .listener(&tls(&[&certificate], ""))
        .policy("p", "quota = '1 per week'\npartition = []")
        .route("/*", "policies = ['p']")
        .route("/small", "max_body_bytes = 1000");
    let running = start(&config);
    assert_eq!(
        connect(&running, &client)
            .get("localhost")
            .expect("an answer")
            .0,
        200
    );
    let h2c = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n";
    for (path, fields, status) in [
        ("/", "", 429),
        ("/small", "", 413),
        ("/", h2c, 429),
        ("/small", h2c, 413),
    ] {
        let mut uploading = connect(&running, &client);
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: 100000000\r\n\r\n"
        );
        uploading.send(head).expect("it reads");
        // Far more than all buffers hold; the gateway reads it until the client has read its answer.
        for _ in 0..64 {
            uploading.send(vec![b'x'; 256 * 1024]).expect("it reads on");
        }
        assert_eq!(uploading.answer().expect("an answer").0, status, "{path}");
        assert_eq!(uploading.rest().expect("an end with close_notify"), b"");
    }
}

#[test]
fn a_reload_gives_new_handshakes_the_new_certificate_and_cuts_nobody() {
    let (authority, certificate, client) = local();
    let config = Config::to("builtin:status/200").listener(&tls(&[&certificate], ""));
    let process = Process::start(&config.route("/*", ""));
    let connect =
        || Secure::connect(process.public, &client, Some("localhost")).expect("a handshake");
    let mut old = connect();
    let first = old.certificate();
    assert_eq!(old.get("localhost").expect("an answer").0, 200);
    let next = authority.sign("next", &["DNS:localhost"]);
    fs::copy(&next.file, &certificate.file).expect("the directory is writable");
    // The key file still has the old key.
    process.signal("HUP");
    process.wait_for_line(&["cannot reload"]);
    assert_eq!(connect().certificate(), first);
    fs::copy(&next.key, &certificate.key).expect("the directory is writable");
    process.signal("HUP");
    eventually("the new certificate is shown", || {
        (connect().certificate() != first).then_some(())
    });
    assert_eq!(old.get("localhost").expect("an answer").0, 200);
}

#[test]
fn an_idle_connection_ends_properly_when_the_gateway_does() {
    let (_authority, certificate, client) = local();
    let config = Config::to("builtin:status/200").listener(&tls(&[&certificate], ""));
    let config = config.top("shutdown_grace = '1s'").route("/*", "");
    let mut process = Process::start(&config);
    let mut idle =
        Secure::connect(process.public, &client, Some("localhost")).expect("a handshake");
    assert_eq!(idle.get("localhost").expect("an answer").0, 200);
    process.signal("TERM");
    assert_eq!(
        idle.rest().map_err(|error| error.kind()),
        Ok(Vec::<u8>::new()),
        "{:?}",
        ErrorKind::UnexpectedEof
    );
    assert!(process.wait().success());
}

#[test]
fn a_line_of_the_log_says_over_which_versions_of_http_and_tls_its_request_came() {
    let (authority, certificate, _) = local();
    let config = Config::to("builtin:echo").listener(&tls(&[&certificate], ""));
    let process = Process::start(&config.route("/*", ""));
    for (path, options, protocol, version) in [
        (
            "one",
            &["--http1.1", "--tls-max", "1.2"][..],
            "HTTP/1.1",
            "1.2",
        ),
        ("two", &["--http2"], "HTTP/2", "1.3"),
    ] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-A", "a client", "-d", "twelve bytes", "--cacert"]);
        curl.arg(authority.file()).args(options);
        curl.arg(format!(
            "https://localhost:{}/{path}",
            process.public.port()
        ));
        assert!(curl.status().expect("it is installed").success(), "{path}");
        let line = process.wait_for_line(&["\"access\"", path]);
        let record: Value = serde_json::from_str(&line).expect("a log line is JSON");
        let told = ["protocol", "tls_version", "user_agent"].map(|key| record[key].as_str());
        assert_eq!(told, [protocol, version, "a client"].map(Some));
        assert_eq!(record["received_bytes"], 12);
    }
}
