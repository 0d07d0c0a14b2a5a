//! Early answers: a client that uploads can read the whole of an answer that does not wait for the
//! upload. Afterwards its connection is usable, or ends in FIN, never in a reset.

mod lingering;
mod origins;
mod uploading;

use crate::support::{Client, Config, Origin, Refusing, Running, get, start};
use uploading::{Framed, Manner, Size, Upload};

/// Sizes around every bound: none, within one buffer, the most that is drained, one byte more, and beyond.
const SIZES: [Size; 6] = [
    Size::Of(0),
    Size::Of(1024),
    Size::Of(64 * 1024),
    Size::Of(64 * 1024 + 1),
    Size::Of(1 << 20),
    Size::Endless,
];
const FRAMINGS: [Framed; 2] = [Framed::Length, Framed::Chunks];
const MANNERS: [Manner; 3] = [
    Manner::SendingFirst,
    Manner::ReadingAlong,
    Manner::Trickling,
];

/// A gateway whose routes lead to every kind of refusal; `/open` is answered by the origin.
fn refusing_everything(origin: &Origin, down: &Refusing) -> Running {
    let config = Config::to(origin.url())
        .listener("max_delayed = 0")
        .policy("spent", "quota = '1 per hour'\npartition = []")
        .policy(
            "named",
            "quota = '9 per hour'\npartition = ['header:x-name']\non_missing = 'refuse'",
        )
        .policy(
            "shaped",
            "quota = '1 per hour'\nalgorithm = 'leaky-bucket'\nqueue = 5\npartition = []",
        )
        .with(&format!(
            "[log]\naccess = 'off'\n[upstreams.down]\nendpoints = ['{}']\n\
             [upstreams.status]\nendpoints = ['builtin:status/403']\n\
             [[routes]]\npath = '/down'\nupstream = 'down'\n\
             [[routes]]\npath = '/status'\nupstream = 'status'",
            down.url()
        ))
        .route("/open", "")
        .route("/spent", "policies = ['spent']")
        .route("/named", "policies = ['named']")
        .route("/shaped", "policies = ['shaped']")
        .route("/small", "max_body_bytes = '512B'");
    let running = start(&config);
    for target in ["/spent", "/shaped"] {
        assert_eq!(get(running.public, target, "").status, 200);
    }
    running
}

/// Tries every upload, and fails the test with each that is not answered properly and with its status.
fn check(running: &Running, origin: &Origin, uploads: &[(Upload, u16)]) {
    let mut failures = Vec::new();
    for (upload, status) in uploads {
        match upload.answered(running.public, "/open") {
            Ok(answer) if answer.status == *status => {}
            Ok(answer) => failures.push(format!("{} for {upload:?}", answer.status)),
            Err(failure) => failures.push(format!("{failure}: {upload:?}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let targets = origin.targets();
    let smuggled = targets.iter().find(|x| *x == "/smuggled");
    assert_eq!(smuggled, None, "a body was taken for a request");
}

/// Returns uploads of every size in every framing and manner, except endless ones that are not read along, and long
/// ones that trickle.
fn all_of(target: &str) -> Vec<Upload> {
    let mut uploads = Vec::new();
    for bytes in SIZES {
        for framing in FRAMINGS {
            for manner in MANNERS {
                let is_small = matches!(bytes, Size::Of(bytes) if bytes <= 1 << 17);
                if bytes == Size::Endless && manner != Manner::ReadingAlong
                    || manner == Manner::Trickling && !is_small
                {
                    continue;
                }
                uploads.push(Upload::new(target, framing, bytes, manner));
            }
        }
    }
    uploads
}

#[test]
fn an_expectation_that_is_refused_is_not_told_to_continue() {
    let (origin, down) = (Origin::plain(), Refusing::new());
    let running = refusing_everything(&origin, &down);
    let mut failures = Vec::new();
    for (target, expectation, status) in [
        ("/spent", "100-continue", 429),
        ("/spent", "100-Continue", 429),
        ("/shaped", "100-continue", 503),
        ("/named", "100-continue", 401),
        ("/nowhere", "100-continue", 404),
        ("/small", "100-continue", 413),
        ("/status", "100-continue", 403),
        ("/open", "tea", 417),
        ("/open", "100-continue, tea", 417),
        ("/spent", "tea", 417),
    ] {
        for framing in ["Content-Length: 600", "Transfer-Encoding: chunked"] {
            if target == "/small" && framing.starts_with('T') {
                continue;
            }
            let mut client = Client::connect(running.public);
            client.send(format!(
                "POST {target} HTTP/1.1\r\nHost: a.test\r\nExpect: {expectation}\r\n{framing}\r\n\r\n"
            ));
            // The body is not sent, because the gateway does not ask for it.
            let answer = client.answer();
            if (answer.status, answer.says_close()) != (status, true) {
                failures.push(format!("{target}, {expectation}, {framing}: {answer:?}"));
            }
            client.assert_closed();
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(origin.targets(), ["/spent", "/shaped"]);
}

#[test]
fn a_refused_upload_of_any_size_is_told_429_and_its_connection_stays_in_step() {
    let (origin, down) = (Origin::plain(), Refusing::new());
    let running = refusing_everything(&origin, &down);
    let mut uploads = all_of("/spent");
    for framing in FRAMINGS {
        let bytes = Size::Of(100 << 20);
        uploads.push(Upload::new("/spent", framing, bytes, Manner::SendingFirst));
    }
    for upload in all_of("/spent") {
        uploads.push(upload.clone().with("Connection: close\r\n"));
        uploads.push(upload.clone().with("Expect: 100-continue\r\n"));
        if upload.framing == Framed::Length {
            let line = upload.line.replace("1.1", "1.0");
            uploads.push(Upload {
                line: line.clone(),
                ..upload.clone()
            });
            let upload = Upload { line, ..upload };
            uploads.push(upload.with("Connection: keep-alive\r\n"));
        }
    }
    let uploads: Vec<_> = uploads.into_iter().map(|upload| (upload, 429)).collect();
    check(&running, &origin, &uploads);
}

#[test]
fn every_refusal_is_read_whole_by_a_client_that_uploads() {
    let (origin, down) = (Origin::plain(), Refusing::new());
    let running = refusing_everything(&origin, &down);
    let mut uploads = Vec::new();
    for (target, fields, status) in [
        ("/%00", "", 400),
        ("/open", "Host: b.test\r\n", 400),
        ("/named", "", 401),
        ("/nowhere", "", 404),
        ("/open", "Expect: tea\r\n", 417),
        ("/down", "", 502),
        ("/shaped", "", 503),
        ("/status", "", 403),
    ] {
        for upload in all_of(target) {
            uploads.push((upload.with(fields), status));
        }
    }
    for upload in all_of("/small") {
        if upload.bytes != Size::Of(0) {
            uploads.push((upload, 413));
        }
    }
    check(&running, &origin, &uploads);
}
