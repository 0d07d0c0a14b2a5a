//! WebSocket between a foreign client and a foreign server.

use crate::foreign::{Server, client};
use crate::secure::tls;
use crate::support::redis::Authority;
use crate::support::{Config, Origin, start};

const ECHO: &str = "websockets_echo.py";

fn to(server: &Server) -> Config {
    Config::to(format!("http://127.0.0.1:{}", server.port))
}

#[test]
fn messages_of_every_size_pass_both_ways_in_clear_and_encrypted() {
    let server = Server::start(ECHO, &["serve"]);
    let authority = Authority::new();
    let secure = tls(&[&authority.sign_local()], "");
    let secure = format!("[listeners.secure]\naddress = '127.0.0.1:0'\n{secure}");
    let running = start(&to(&server).route("/*", "").with(&secure));
    let port = |listener| running.address(listener).port().to_string();
    client(ECHO, &["ask", &port("public")]);
    client(
        ECHO,
        &[
            "ask",
            &port("secure"),
            &authority.file().display().to_string(),
        ],
    );
}

#[test]
fn http2_carries_websocket_beside_other_streams() {
    let server = Server::start(ECHO, &["serve"]);
    let plain = Origin::plain();
    let config = to(&server).route("/*", "");
    let running = start(&config.beside("plain", &plain.url(), "/plain", ""));
    client(ECHO, &["tunnel", &running.public.port().to_string()]);
}

#[test]
fn a_unit_in_flight_is_held_until_the_upgrade_alone() {
    let server = Server::start(ECHO, &["serve"]);
    let config = to(&server)
        .policy("p", "quota = '1 in flight'\npartition = []")
        .route("/*", "policies = ['p']");
    let running = start(&config);
    let held = || {
        let mut held = Server::talking(ECHO, &["hold", &running.public.port().to_string()]);
        assert_eq!(held.line(), "held");
        held
    };
    let _tunnels = [held(), held()];
}
