//! Unix sockets, used by curl over every version, and by nginx for its own clients.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::secure::tls;
use crate::support::process::free_address;
use crate::support::redis::Authority;
use crate::support::{Client, Config, Nginx, Origin, Running, start};

/// Starts a gateway with a listener on a Unix socket that has these lines.
fn local(config: Config, lines: &str) -> (TempDir, PathBuf, Running) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tollgate.sock");
    let listener = format!(
        "[listeners.local]\naddress = 'unix:{}'\n{lines}",
        path.display()
    );
    let running = start(&config.with(&listener));
    (folder, path, running)
}

#[test]
fn curl_speaks_every_version_over_a_socket_in_clear_and_encrypted() {
    let authority = Authority::new();
    let secure = tls(&[&authority.sign_local()], "");
    for (lines, scheme, versions) in [
        (
            "",
            "http",
            &[
                ("--http1.0", "1"),
                ("--http1.1", "1.1"),
                ("--http2-prior-knowledge", "2"),
            ][..],
        ),
        (&*secure, "https", &[("--http1.1", "1.1"), ("--http2", "2")]),
    ] {
        let (_folder, path, _running) = local(Config::to("builtin:echo").route("/*", ""), lines);
        for (option, version) in versions {
            let mut curl = Command::new("curl");
            curl.args(["-sS", "-w", " %{http_code} %{http_version}", option])
                .arg("--unix-socket")
                .arg(&path)
                .arg("--cacert")
                .arg(authority.file())
                .args(["--data", "of the client"])
                .arg(format!("{scheme}://localhost/"));
            let output = curl.output().expect("curl is installed");
            let printed = String::from_utf8_lossy(&output.stdout);
            let expected = format!("of the client 200 {version}");
            assert_eq!(printed, expected, "{output:?}");
        }
    }
}

/// Starts nginx with the configuration that `docs/configuration.md` gives.
fn nginx(folder: &Path, socket: &Path) -> (Nginx, SocketAddr) {
    let (address, socket) = (free_address(), socket.display());
    let http = format!(
        "upstream tollgate {{
        server unix:{socket};
        keepalive 8;
    }}
    server {{
        listen {address};
        location / {{
            proxy_pass http://tollgate;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
        }}
    }}"
    );
    (Nginx::start(folder, &http, address), address)
}

#[test]
fn nginx_names_its_clients_over_a_socket_and_each_has_its_own_quota() {
    let origin = Origin::plain();
    let config = Config::limited(origin.url(), "quota = '2 per hour'");
    let (folder, socket, _running) = local(config, "");
    let (_nginx, address) = nginx(folder.path(), &socket);
    let ask = |source| {
        let mut client = Client::connect_from(source, address);
        // A client cannot choose its address, because nginx appends the one that it sees.
        let lie = "X-Forwarded-For: 198.51.100.7\r\n";
        [(); 3].map(|()| client.get("/", lie).status)
    };
    for source in [[127, 0, 0, 2], [127, 0, 0, 3]] {
        assert_eq!(ask(source), [200, 200, 429]);
    }
    let requests = origin.requests();
    let told: Vec<_> = (requests.iter().map(|one| one.head.field("x-forwarded-for"))).collect();
    let [two, three] = [2, 3].map(|last| format!("198.51.100.7, 127.0.0.{last}"));
    assert_eq!(told, [&two, &two, &three, &three].map(|told| Some(&**told)));
}
