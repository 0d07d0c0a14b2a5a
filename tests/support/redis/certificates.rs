//! Certificates for tests: an authority and what it signs, made by the `openssl` command.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::host::run;

/// Signs certificates; its files are gone when it is dropped.
#[derive(Debug)]
pub struct Authority {
    directory: TempDir,
}

/// The files of a certificate, PEM all.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub file: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificate of who signed it.
    pub authority: PathBuf,
}

impl Authority {
    /// Makes an authority.
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

    /// Returns its certificate, PEM.
    pub fn file(&self) -> PathBuf {
        self.path("authority.pem")
    }

    /// Signs a certificate for those names (`DNS:localhost`, `IP:127.0.0.1`), valid as long as any test runs.
    #[track_caller]
    pub fn sign(&self, name: &str, names: &[&str]) -> Certificate {
        self.sign_for_days(name, names, 2)
    }

    /// Signs a certificate that has expired.
    #[track_caller]
    pub fn sign_expired(&self, name: &str, names: &[&str]) -> Certificate {
        self.sign_for_days(name, names, -1)
    }

    /// Signs a certificate of a server on this machine, by name and by address.
    #[track_caller]
    pub fn sign_local(&self) -> Certificate {
        self.sign("server", &["DNS:localhost", "IP:127.0.0.1"])
    }

    fn sign_for_days(&self, name: &str, names: &[&str], days: i32) -> Certificate {
        let (asked, file) = (self.path("request"), self.path(&format!("{name}.pem")));
        let mut request = self.request(name);
        let listed = format!("subjectAltName={}", names.join(","));
        request.args(["-addext", &listed]);
        // One may be both: a Cluster's nodes and replicas are each other's clients.
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

    /// Returns a command that makes a key and a request for it, not yet told where to.
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
