//! Certificates for tests: an authority and the certificates that it signs, made by the `openssl` command.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::host::run;

/// An authority that signs certificates; its files are deleted when it is dropped.
#[derive(Debug)]
pub struct Authority {
    directory: TempDir,
}

/// Paths of a certificate's files, all of them PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub file: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificate of the authority that signed it.
    pub authority: PathBuf,
}

impl Authority {
    /// Makes an authority with a certificate of its own.
    #[track_caller]
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory for certificates");
        let authority = Self { directory };
        let mut request = authority.request("authority");
        request.args(["-x509", "-days", "2"]);
        request.args(["-addext", "keyUsage=critical,keyCertSign"]);
        request.arg("-out").arg(authority.file());
        run(&mut request, "openssl");
        authority
    }

    /// Returns the path of the authority's certificate.
    pub fn file(&self) -> PathBuf {
        self.path("authority.pem")
    }

    /// Signs a certificate for those names (`DNS:localhost`, `IP:127.0.0.1`), valid for two days.
    #[track_caller]
    pub fn sign(&self, name: &str, names: &[&str]) -> Certificate {
        self.sign_for_days(name, names, 2)
    }

    /// Signs a certificate that has expired.
    #[track_caller]
    pub fn sign_expired(&self, name: &str, names: &[&str]) -> Certificate {
        self.sign_for_days(name, names, -1)
    }

    /// Signs a certificate for a server on this machine, by name and by address.
    #[track_caller]
    pub fn sign_local(&self) -> Certificate {
        self.sign("server", &["DNS:localhost", "IP:127.0.0.1"])
    }

    fn sign_for_days(&self, name: &str, names: &[&str], days: i32) -> Certificate {
        let (asked, file) = (self.path("request"), self.path(&format!("{name}.pem")));
        let mut request = self.request(name);
        let listed = format!("subjectAltName={}", names.join(","));
        request.args(["-addext", &listed]);
        // A Cluster's nodes are both: server to their clients, and clients of each other.
        request.args(["-addext", "extendedKeyUsage=serverAuth,clientAuth"]);
        request.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        request.arg("-out").arg(&asked);
        run(&mut request, "openssl");
        let mut signing = Command::new("openssl");
        signing.args(["x509", "-req", "-copy_extensions", "copyall", "-in"]);
        signing.arg(&asked).arg("-CA").arg(self.file());
        signing.arg("-CAkey").arg(self.path("authority.key"));
        signing.args(["-CAcreateserial", "-days", &days.to_string()]);
        signing.arg("-out").arg(&file);
        run(&mut signing, "openssl");
        Certificate {
            file,
            key: self.path(&format!("{name}.key")),
            authority: self.file(),
        }
    }

    /// Returns a command that makes a key and a request to sign it, still without the path of the request.
    fn request(&self, name: &str) -> Command {
        let mut request = Command::new("openssl");
        request.args(["req", "-nodes", "-newkey", "ec"]);
        request.args(["-pkeyopt", "ec_paramgen_curve:prime256v1"]);
        request.args(["-subj", &format!("/CN={name}")]);
        request
            .arg("-keyout")
            .arg(self.path(&format!("{name}.key")));
        request
    }

    fn path(&self, name: &str) -> PathBuf {
        let folder: &Path = self.directory.path();
        folder.join(name)
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}
