//! Programs that people use, curl and h2load, over every version, in clear text and encrypted.

use std::fs;
use std::process::Command;

use crate::secure::tls;
use crate::support::redis::Authority;
use crate::support::{After, Config, Origin, Running, start};

/// Starts a gateway with a listener in clear text and one with TLS; returns the TLS listener's authority, too.
fn both(config: Config) -> (Authority, Running, [String; 2]) {
    let authority = Authority::new();
    let certificate = authority.sign_local();
    let secure = tls(&[&certificate], "");
    let running = start(&config.with(&format!(
        "[listeners.secure]\naddress = '127.0.0.1:0'\n{secure}"
    )));
    let port = |listener| running.address(listener).port();
    let urls = [
        format!("http://localhost:{}", port("public")),
        format!("https://localhost:{}", port("secure")),
    ];
    (authority, running, urls)
}

#[track_caller]
fn printed(command: &mut Command) -> String {
    let output = command.output().expect("it is installed");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn eight_megabytes_pass_unchanged_both_ways_over_every_version() {
    let echo = Origin::scripted(|exchange| {
        let mut length = String::new();
        exchange.read_body()?;
        let body = exchange.body();
        if exchange.head.start.contains(" /length ") {
            length = format!("Content-Length: {}\r\n", body.len());
        }
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\n{length}Connection: close\r\n\r\n"
        ))?;
        exchange.write(body)?;
        Ok(After::Close)
    });
    let (authority, _running, [clear, secure]) = both(Config::to(echo.url()).route("/*", ""));
    let folder = tempfile::tempdir().expect("a folder");
    let (sent, received) = (folder.path().join("sent"), folder.path().join("received"));
    let mut bytes = vec![0; 8 << 20];
    getrandom::fill(&mut bytes).expect("randomness");
    for (url, version, options) in [
        (&clear, "1", &["--http1.0"][..]),
        (&clear, "1.1", &["--http1.1"]),
        (&clear, "2", &["--http2-prior-knowledge"]),
        // Asks for an upgrade to HTTP/2, which is obsolete (RFC 9113, section 3.1).
        (&clear, "1.1", &["--http2"]),
        // curl offers only HTTP/1.0 in the handshake.
        (&secure, "1", &["--http1.0"]),
        (&secure, "1.1", &["--http1.1"]),
        (&secure, "2", &["--http2"]),
        (&secure, "1.1", &["--http2", "--no-alpn"]),
        (&secure, "2", &["--http2", "--tls-max", "1.2"]),
    ] {
        for (size, path) in [
            (0, "length"),
            (1, "length"),
            (65_536, "length"),
            (8 << 20, "length"),
            (8 << 20, "close"),
        ] {
            fs::write(&sent, &bytes[..size]).expect("the folder is writable");
            let mut curl = Command::new("curl");
            curl.args([
                "-sS",
                "-w",
                "%{http_code} %{http_version}",
                "-H",
                "Content-Type: x/y",
            ]);
            curl.args(options).arg("--cacert").arg(authority.file());
            curl.arg("--data-binary")
                .arg(format!("@{}", sent.display()));
            curl.arg("-o").arg(&received).arg(format!("{url}/{path}"));
            assert_eq!(printed(&mut curl), format!("200 {version}"), "{curl:?}");
            assert!(
                fs::read(&received).expect("a file") == bytes[..size],
                "{curl:?}"
            );
        }
    }
}

#[test]
fn a_quota_is_exact_over_many_streams() {
    for streams in [&["--h1", "-m", "1"][..], &["-m", "8"]] {
        let origin = Origin::plain();
        let config = Config::to(origin.url())
            .policy("p", "quota = '300 per day'\npartition = []")
            .route("/*", "policies = ['p']");
        let (_authority, _running, urls) = both(config);
        let [mut good, mut refused] = [0, 0];
        for url in urls {
            let mut h2load = Command::new("h2load");
            h2load
                .args(["-n", "1000", "-c", "16"])
                .args(streams)
                .arg(url);
            let text = printed(&mut h2load);
            let counts = text
                .lines()
                .find_map(|line| line.strip_prefix("status codes: "));
            let counts: Vec<u64> = counts
                .expect("it counts")
                .split(", ")
                .map(|count| {
                    let (number, _) = count.split_once(' ').expect("a number and a class");
                    number.parse().expect("a number")
                })
                .collect();
            assert_eq!(counts.iter().sum::<u64>(), 1000, "{text}");
            good += counts[0];
            refused += counts[2];
        }
        assert_eq!((good, refused), (300, 1700));
        assert_eq!(origin.requests().len(), 300);
    }
}
