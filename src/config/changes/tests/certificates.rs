//! A reload reads the certificates of listeners again, and keeps their tickets.

use std::path::Path;

use super::*;
use crate::tls::ServerTls;

/// Loads the base file with TLS on its listener, whose certificate and key are in `folder`.
fn with_tls(folder: &Path, more: &str) -> Loaded {
    let folder = folder.display();
    let tls = format!(
        "8080\"\n[listeners.public.tls]\n{more}\n\
         certificates = [{{ certificate = '{folder}/a.pem', key = '{folder}/a.key' }}]"
    );
    loaded(&BASE.replacen("8080\"", &tls, 1))
}

fn copy(name: &str, folder: &Path) {
    for end in ["pem", "key"] {
        let from = format!("tests/config/tls/{name}.{end}");
        std::fs::copy(from, folder.join(format!("a.{end}"))).expect("a copy");
    }
}

fn tls(loaded: &Loaded) -> &ServerTls {
    let tls = loaded.snapshot.listeners.raw[0].tls.as_ref();
    tls.expect("the listener has TLS")
}

fn have_one_ticketer(a: &Loaded, b: &Loaded) -> bool {
    Arc::ptr_eq(&tls(a).config.ticketer, &tls(b).config.ticketer)
}

#[test]
fn certificates_are_read_again_and_tickets_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    copy("public", folder);
    let old = with_tls(folder, "");
    let (same, again) = kept(&old, with_tls(folder, ""));
    assert_eq!(same, Changes::default());
    assert!(Arc::ptr_eq(&tls(&old).config, &tls(&again).config));
    copy("wildcard", folder);
    let (changed, renewed) = kept(&old, with_tls(folder, ""));
    assert_eq!(
        changed,
        applied(&["listener public: tls.certificates changed"])
    );
    assert_ne!(tls(&old), tls(&renewed));
    assert_eq!(&*tls(&renewed).certificates[0].name, "*.example.com");
    assert!(have_one_ticketer(&old, &renewed));
}

#[test]
fn other_clients_get_other_tickets() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    copy("public", folder);
    let old = with_tls(folder, "");
    let client_ca = "client_ca = 'tests/config/tls/clients-ca.pem'";
    let (changed, stricter) = kept(&old, with_tls(folder, client_ca));
    assert_eq!(
        changed,
        applied(&["listener public: tls.client_ca none → tests/config/tls/clients-ca.pem"])
    );
    assert!(!have_one_ticketer(&old, &stricter));
    let newer = format!("{client_ca}\nmin_version = '1.3'");
    let (changed, newer) = kept(&stricter, with_tls(folder, &newer));
    assert_eq!(
        changed,
        applied(&["listener public: tls.min_version 1.2 → 1.3"])
    );
    assert!(have_one_ticketer(&stricter, &newer));
}

#[test]
fn tls_comes_and_goes_with_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    copy("public", folder.path());
    let (plain, encrypted) = (loaded(BASE), with_tls(folder.path(), ""));
    let (_, on) = kept(&plain, with_tls(folder.path(), ""));
    assert!(on.snapshot.listeners.raw[0].tls.is_some());
    let (_, off) = kept(&encrypted, loaded(BASE));
    assert!(off.snapshot.listeners.raw[0].tls.is_none());
}
