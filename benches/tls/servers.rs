//! The gateways of the benchmark: how each is configured and started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::servers::{
    self, CONNECTIONS_MAX, NGINX_FIELDS, Process, await_port, haproxy_frame, nginx, nginx_frame,
    nginx_upstream,
};

pub const ORIGIN: u16 = 19_200;
const NGINX: u16 = 19_201;
const HAPROXY: u16 = 19_202;
/// The port of the first Tollgate; those of the others follow.
const TOLLGATE: u16 = 19_203;

/// A gateway under test.
pub struct Gateway {
    pub name: String,
    pub port: u16,
    pub process: Process,
}

/// The certificate and key of all gateways; clients trust the certificate itself.
pub struct Material {
    certificate: PathBuf,
    key: PathBuf,
    /// The certificate in DER, for clients to trust.
    pub der: Vec<u8>,
}

impl Material {
    pub fn make(folder: &Path) -> Self {
        let [certificate, key, der] =
            ["server.pem", "server.key", "server.der"].map(|name| folder.join(name));
        let mut request = Command::new("openssl");
        request.args(["req", "-x509", "-nodes", "-newkey", "ec", "-days", "2"]);
        request.args(["-pkeyopt", "ec_paramgen_curve:prime256v1"]);
        request.args(["-subj", "/CN=localhost"]);
        request.args(["-addext", "subjectAltName=DNS:localhost"]);
        request.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        run(request
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate));
        let mut convert = Command::new("openssl");
        convert.args(["x509", "-outform", "DER"]);
        run(convert.arg("-in").arg(&certificate).arg("-out").arg(&der));
        Self {
            der: fs::read(der).expect("a certificate"),
            certificate,
            key,
        }
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("openssl runs");
    assert!(output.status.success(), "{output:?}");
}

/// Ends this process if something that the benchmark runs is not installed, and says what.
pub fn check_packages() {
    let has = |name| servers::program(name).is_some();
    servers::check_packages(&[
        (has("taskset"), "util-linux"),
        (has("h2load"), "nghttp2-client"),
        (has("nginx"), "nginx-light"),
        (has("haproxy"), "haproxy"),
        (has("openssl"), "openssl"),
    ]);
}

/// Starts every gateway, nginx first.
pub fn gateways(folder: &Path, material: &Material) -> Vec<Gateway> {
    let gateway = |name: &str, port, process| Gateway {
        name: name.to_owned(),
        port,
        process,
    };
    let mut gateways = vec![
        gateway(
            "nginx",
            NGINX,
            nginx(folder, "nginx", 0, &nginx_conf(material)),
        ),
        gateway("HAProxy", HAPROXY, haproxy(folder, material)),
    ];
    for (build, port) in servers::builds().iter().zip(TOLLGATE..) {
        let conf = tollgate_conf(port, material);
        let process = servers::tollgate(&build.path, folder, &build.name, &conf);
        gateways.push(gateway(&build.name, port, process));
    }
    for gateway in &gateways {
        await_port(gateway.port);
    }
    gateways
}

fn haproxy(folder: &Path, material: &Material) -> Process {
    // HAProxy wants both in one file.
    let both = [&material.certificate, &material.key]
        .map(|file| fs::read_to_string(file).expect("a PEM file"));
    let pem = folder.join("both.pem");
    fs::write(&pem, both.concat()).expect("a certificate");
    servers::haproxy(folder, "haproxy", &haproxy_conf(&pem))
}

fn nginx_conf(material: &Material) -> String {
    let (certificate, key) = (material.certificate.display(), material.key.display());
    let upstream = nginx_upstream(&format!("127.0.0.1:{ORIGIN}"));
    let http = format!(
        "limit_req_zone $binary_remote_addr zone=open:10m rate=1000000r/s;
         {upstream}
         server {{
             listen 127.0.0.1:{NGINX} ssl http2 backlog=4096;
             ssl_certificate {certificate};
             ssl_certificate_key {key};
             ssl_protocols TLSv1.2 TLSv1.3;
             ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
             {NGINX_FIELDS}
             location / {{ limit_req zone=open burst=1000000 nodelay; proxy_pass http://origin; }}
         }}"
    );
    nginx_frame("", CONNECTIONS_MAX, &http)
}

fn haproxy_conf(pem: &Path) -> String {
    let pem = pem.display();
    let global = "ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256";
    let frontend = format!(
        "bind 127.0.0.1:{HAPROXY} ssl crt {pem} alpn h2,http/1.1
         stick-table type ip size 100k expire 60s store http_req_rate(60s)
         http-request track-sc0 src
         http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000000 }}"
    );
    haproxy_frame(global, &frontend, "", ORIGIN)
}

fn tollgate_conf(port: u16, material: &Material) -> String {
    let (certificate, key) = (material.certificate.display(), material.key.display());
    let listener =
        format!("tls.certificates = [{{ certificate = '{certificate}', key = '{key}' }}]");
    let others = "[policies.open]
         quota = '1000000000 per minute'
         [[routes]]
         path = '/*'
         upstream = 'origin'
         policies = ['open']";
    servers::tollgate_conf(port, &listener, &format!("127.0.0.1:{ORIGIN}"), others)
}
