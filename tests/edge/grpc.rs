//! gRPC between a foreign client and a foreign server.

use crate::foreign::{Server, client};
use crate::secure::tls;
use crate::support::redis::Authority;
use crate::support::{Config, Refusing, secs, start};

const ECHO: &str = "grpc_echo.py";

#[test]
fn calls_of_all_four_kinds_pass_in_clear_and_encrypted() {
    let authority = Authority::new();
    let certificate = authority.sign_local();
    let [file, key, ca] = [&certificate.file, &certificate.key, &certificate.authority]
        .map(|path| path.display().to_string());
    let clear = Server::start(ECHO, &["serve"]);
    let secure = Server::start(ECHO, &["serve", &file, &key]);
    let listener = tls(&[&certificate], "");
    let listener = format!("[listeners.secure]\naddress = '127.0.0.1:0'\n{listener}");
    for (endpoint, upstream) in [
        (format!("h2c://127.0.0.1:{}", clear.port), String::new()),
        (
            format!("https://localhost:{}", secure.port),
            format!("tls = {{ ca = '{ca}' }}"),
        ),
    ] {
        let config = Config::to(endpoint).upstream(&upstream).route("/*", "");
        let running = start(&config.with(&listener));
        let port = |listener| running.address(listener).port().to_string();
        client(ECHO, &["ask", &port("public")]);
        client(ECHO, &["ask", &port("secure"), &ca]);
    }
}

#[test]
fn refusals_have_the_codes_that_clients_understand() {
    let server = Server::start(ECHO, &["serve"]);
    let config = Config::to(format!("h2c://127.0.0.1:{}", server.port))
        .policy("p", "quota = '2 per day'\npartition = []")
        .route("/*", "policies = ['p']");
    let running = start(&config);
    let port = running.public.port().to_string();
    for code in ["OK", "OK", "RESOURCE_EXHAUSTED"] {
        client(ECHO, &["refused", &port, code]);
    }
    drop(server);
    let down = Refusing::new();
    let running = start(&Config::to(down.url()).route("/*", ""));
    let port = running.public.port().to_string();
    client(ECHO, &["refused", &port, "UNAVAILABLE"]);
}

#[test]
fn calls_that_are_silent_for_long_live_where_body_timeout_is_off() {
    let server = Server::start(ECHO, &["serve"]);
    for (timeout, outcome) in [("body_timeout = 'off'", "lives"), ("", "ends")] {
        let config = Config::to(format!("h2c://127.0.0.1:{}", server.port));
        let running = start(&config.route("/*", timeout));
        let port = running.public.port().to_string();
        let mut silent = Server::talking(ECHO, &["silent", &port, outcome]);
        assert_eq!(silent.line(), "silent");
        for _ in 0..9 {
            running.clock.advance(secs(10));
            client(ECHO, &["refused", &port, "OK"]);
        }
        silent.go_on();
        silent.wait();
    }
}
