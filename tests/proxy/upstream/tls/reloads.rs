//! Certificates that change while the gateway runs.

use std::fs;

use super::origin::{CA, OTHER_CA, Server, serve};
use crate::support::{Client, Config, start};

#[test]
fn reload_reads_certificates_again_and_keeps_the_old_ones_if_they_are_broken() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    fs::write(&file, OTHER_CA).expect("a writable folder");
    let config = Config::to(format!("https://{}", serve(Server::default())))
        .upstream(&format!("tls = {{ ca = {file:?} }}"))
        .route("/*", "");
    let mut running = start(&config);
    let mut client = Client::connect(running.public);
    assert_eq!(client.get("/", "").status, 502, "an unknown authority");
    fs::write(&file, CA).expect("a writable folder");
    let reloaded = running.gateway.reload(&config.text());
    assert!(reloaded.is_ok());
    assert_eq!(client.get("/", "").status, 200);
    fs::write(&file, b"nothing").expect("a writable folder");
    let report = running.gateway.reload(&config.text()).expect_err("no file");
    let text = report.render("gateway.toml", &config.text(), false);
    assert!(
        text.contains("the file of `ca` holds no certificate"),
        "{text}"
    );
    assert_eq!(client.get("/", "").status, 200);
    fs::write(&file, OTHER_CA).expect("a writable folder");
    let reloaded = running.gateway.reload(&config.text());
    assert!(reloaded.is_ok());
    assert_eq!(
        client.get("/", "").status,
        502,
        "no connection is used again"
    );
}
