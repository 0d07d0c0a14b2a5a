//! TLS to servers, built from the files that a `tls` table names.

use std::ops::Range;

use crate::config::file::{Pem, RawTls, Table};
use crate::config::report::Report;
use crate::tls::{ClientTls, ServerProof, TlsFault, TlsMaterial};

/// The servers that a `tls` table is for.
pub(super) struct TlsServers {
    /// Title of the table, such as `[store.tls]`.
    pub(super) title: &'static str,
    /// Noun for the servers in messages.
    pub(super) noun: &'static str,
}

/// Builds TLS from `files`, which the `tls` of `table` names; a system without certificates is reported at `place`.
pub(super) fn tls<T>(
    servers: &TlsServers,
    table: &Table<T>,
    files: &RawTls,
    place: &Range<usize>,
    report: &mut Report,
) -> Option<ClientTls> {
    if table.is_incomplete(servers.title) {
        return None;
    }
    let before = report.count();
    for (there, lacks) in [("certificate", "key"), ("key", "certificate")] {
        if let Some(place) = table.place(&format!("tls.{there}"))
            && !table.has(&format!("tls.{lacks}"))
        {
            let message = format!("`tls` lacks `{lacks}`");
            report.mistake(place, message, "`certificate` and `key`, or neither");
        }
    }
    if report.count() > before {
        return None;
    }
    let content = |pem: &Option<Pem>| pem.as_ref().map(|pem| pem.content.clone());
    let [ca, certificate, key] = [&files.ca, &files.certificate, &files.key].map(content);
    let made = ClientTls::new(TlsMaterial {
        ca: ca.as_deref(),
        identity: certificate.as_deref().zip(key.as_deref()),
        proof: files.proof,
    });
    let fault = match made {
        Ok(tls) => return Some(tls.named(files.server_name.clone())),
        Err(fault) => fault,
    };
    // The message does not name the file: the quoted line does, unless the name is in a variable.
    let certificates = "a PEM file with certificates";
    let (name, expected) = match fault {
        TlsFault::Ca(_) => ("ca", certificates),
        TlsFault::Certificate(_) => ("certificate", certificates),
        TlsFault::Key(_) => (
            "key",
            "a PEM file with the private key of `certificate`, not encrypted",
        ),
        TlsFault::System => {
            let noun = servers.noun;
            let hint = format!(
                "name the CA that issued the certificate of {noun}: `tls = {{ ca = \"/PATH.pem\" }}`"
            );
            let message = format!("this system {fault}");
            (report.mistake(place, message, "certificates to trust")).hint(hint);
            return None;
        }
    };
    let place = table.place(&format!("tls.{name}")).unwrap_or(place);
    report.mistake(place, format!("the file of `{name}` {fault}"), expected);
    None
}

/// Warns of servers that are not verified; `subject` is what the warnings call them.
pub(super) fn warn_unverified(
    subject: &str,
    tls: &RawTls,
    has_password: bool,
    found: &mut Vec<String>,
) {
    if tls.proof == ServerProof::Full {
        return;
    }
    found.push(format!(
        "{subject}: `tls.verify = \"none\"`: any server at its address is trusted, and can read and change \
         everything: set `ca` to its certificate instead"
    ));
    let sent = match (has_password, &tls.certificate) {
        (true, _) => "the password is",
        (false, Some(_)) => "the gateway's certificate is",
        (false, None) => return,
    };
    found.push(format!(
        "{subject}: {sent} shown to whoever answers, because `tls.verify` is \"none\""
    ));
}
