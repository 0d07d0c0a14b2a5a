//! The tests' own Redis servers and proxies do what other tests rely on.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::support::redis::{Connection, Fault, Proxy, Server, Value};
use crate::support::{PATIENCE, eventually};

#[test]
fn killed_server_comes_back_empty_on_its_port() {
    let server = Server::start();
    server.command(&["SET", "key", "value"]);
    let (address, pid) = (server.address(), server.pid());
    server.kill();
    let refused = TcpStream::connect(address).expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    server.restart();
    assert_ne!(server.pid(), pid);
    assert_eq!(server.address(), address);
    assert_eq!(server.command(&["GET", "key"]), Value::Nil);
}

#[test]
fn dropped_server_is_gone() {
    let server = Server::start();
    let (address, folder) = (server.address(), server.directory().to_owned());
    drop(server);
    TcpStream::connect(address).expect_err("nobody listens");
    assert!(!folder.exists());
}

#[test]
fn server_dies_with_the_process_that_started_it() {
    const NAMED: &str = "SERVER_THAT_OUTLIVES_NOBODY";
    if let Ok(file) = std::env::var(NAMED) {
        static FOREVER: OnceLock<Server> = OnceLock::new();
        let server = FOREVER.get_or_init(Server::start);
        let known = format!("{} {}", server.port(), server.directory().display());
        std::fs::write(file, known).expect("a file");
        std::process::abort();
    }
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("port");
    let mut itself = Command::new(std::env::current_exe().expect("this test"));
    itself.arg("server_dies_with_the_process_that_started_it");
    let output = itself.env(NAMED, &file).output().expect("this test runs");
    assert!(!output.status.success());
    let known = std::fs::read_to_string(&file).expect("what the server is known by");
    let (port, directory) = known.split_once(' ').expect("a port and a directory");
    let port: u16 = port.parse().expect("a port");
    eventually("nobody listens", || {
        TcpStream::connect(("127.0.0.1", port))
            .is_err()
            .then_some(())
    });
    // That process cannot do it any more.
    std::fs::remove_dir_all(directory).expect("the directory of the server");
}

#[test]
fn proxy_does_what_its_fault_says() {
    let server = answers_pings();
    let proxy = Proxy::to(server.address());
    let open = || Connection::tcp(proxy.address(), PATIENCE).expect("it listens");
    let mut client = open();
    let pong = Value::Status("PONG".to_owned());
    assert_eq!(client.ask(&["PING"]).expect("an answer"), pong);

    proxy.set(Fault::Slices);
    assert_eq!(client.ask(&["PING"]).expect("an answer"), pong);
    proxy.set(Fault::Latency {
        by: Duration::from_millis(20),
        jitter: Duration::from_millis(10),
    });
    assert_eq!(client.ask(&["PING"]).expect("an answer"), pong);

    proxy.set(Fault::BlackHole);
    let commands = server.figure("stats", "total_commands_processed");
    client.send(&["PING"]).expect("the kernel takes it");
    // In the time in which it accepts these, it would have passed that command on.
    for _ in 0..3 {
        let accepted = proxy.accepted();
        drop(TcpStream::connect(proxy.address()).expect("it listens"));
        eventually("the proxy turns to the next", || {
            (proxy.accepted() > accepted).then_some(())
        });
    }
    // INFO itself was one command.
    assert_eq!(
        server.figure("stats", "total_commands_processed"),
        commands + 1
    );
    proxy.set(Fault::None);
    assert_eq!(client.read().expect("it arrives after all"), pong);

    proxy.set(Fault::Refuse);
    assert_eq!(
        client.ask(&["PING"]).expect("an old connection works"),
        pong
    );
    let refused = eventually("connections are refused", || {
        TcpStream::connect(proxy.address()).err()
    });
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    proxy.set(Fault::None);
    proxy.reset_all();
    let reset = client.read().expect_err("no connection");
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);

    let mut client = eventually("the proxy listens", || {
        TcpStream::connect(proxy.address()).ok()
    });
    proxy.set(Fault::Cut { after: 3 });
    client.write_all(b"PING\r\n").expect("the kernel takes it");
    let mut answer = Vec::new();
    // Whether the end is orderly does not matter here.
    let _ = client.read_to_end(&mut answer);
    assert_eq!(answer, b"+PO");
}

/// Starts a server that lets every client send PING, which a gateway may not.
fn answers_pings() -> Server {
    let server = Server::start();
    server.command(&["ACL", "SETUSER", "default", "+ping"]);
    server
}
