//! Foreign clients and servers that share connections, where some clients take nothing of their answers.

use crate::foreign::Server;
use crate::secure::tls;
use crate::support::redis::Authority;
use crate::support::{Config, Metered, start};

/// Clients of both libraries subscribe to events from servers of both and read none of them, next to clients that go
/// on. They share one connection to the server, in clear text, or encrypted on both sides.
#[test]
fn subscribers_that_read_nothing_harm_no_other_client_of_their_server() {
    let authority = Authority::new();
    let certificate = authority.sign_local();
    let [file, key, ca] = [&certificate.file, &certificate.key, &certificate.authority]
        .map(|path| path.display().to_string());
    let listener = tls(&[&certificate], "");
    let listener = format!("[listeners.secure]\naddress = '127.0.0.1:0'\n{listener}");
    for script in ["grpc_echo.py", "neighbours.mjs"] {
        for is_secure in [false, true] {
            let (server, scheme, settings) = if is_secure {
                let server = Server::start(script, &["serve", &file, &key]);
                (server, "https", format!("tls = {{ ca = '{ca}' }}"))
            } else {
                (Server::start(script, &["serve"]), "h2c", String::new())
            };
            let config = Config::to(format!("{scheme}://localhost:{}", server.port))
                .one_worker()
                .admin("127.0.0.1:0")
                .upstream(&settings)
                .route("/*", "");
            let running = start(&config.with(&listener));
            let port = |listener| running.address(listener).port();
            let port = port(if is_secure { "secure" } else { "public" }).to_string();
            let arguments = |task| {
                let ca = is_secure.then_some(&*ca);
                [task, &*port].into_iter().chain(ca).collect::<Vec<_>>()
            };
            let mut beside = Server::talking(script, &arguments("beside"));
            assert_eq!(beside.line(), "begun");
            let mut subscribers = Server::talking(script, &arguments("subscribe"));
            assert_eq!(subscribers.line(), "subscribed");
            beside.go_on();
            beside.wait();
            subscribers.go_on();
            subscribers.wait();
            let metrics = running.metrics();
            let blamed = metrics.lines().filter(|line| {
                let names = [
                    "tollgate_endpoint_failures_total{",
                    "tollgate_endpoint_ejections_total{",
                ];
                names.iter().any(|name| line.starts_with(name)) && !line.ends_with(" 0")
            });
            assert_eq!(blamed.collect::<Vec<_>>(), Vec::<&str>::new(), "{script}");
            assert!(
                metrics
                    .contains("tollgate_upstream_connections_opened_total{upstream=\"api\"} 1\n")
            );
        }
    }
}
