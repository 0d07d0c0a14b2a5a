//! The files that a configuration is read from, which `watch` looks at.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tollgate::config::{ConfigText, ReadPaths, load};
use tollgate::limit::plan::SeriesId;

const TLS: &str = "tests/config/tls";

/// Loads a file in `folder`, and returns its mistakes and the paths that were read for it.
fn read(folder: &Path, text: &str) -> (Vec<String>, ReadPaths) {
    let path = folder.join("gateway.toml");
    let env = |name: &str| (name == "SECRETS").then(|| folder.display().to_string());
    match load(ConfigText::of(&path, text), &env, &mut |_| SeriesId(0)) {
        Ok(loaded) => (Vec::new(), loaded.paths),
        Err(report) => (report.lines("gateway.toml", text), report.paths().clone()),
    }
}

#[test]
fn every_file_that_is_read_is_listed() {
    let folder = tempfile::tempdir().expect("a directory");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("conf.d")).expect("a directory");
    fs::write(at("secret"), "a secret of sixteen bytes").expect("a file");
    fs::write(at("list"), "GET").expect("a file");
    fs::write(at("conf.d/a.toml"), "[log]\nfile = 'not-read.log'\n").expect("a file");
    fs::write(at("one.toml"), "shutdown_grace = '5s'\n").expect("a file");
    let text = format!(
        "include = ['conf.d/*.toml', 'one.toml']\n\
         [listeners.a]\naddress = '127.0.0.1:0'\n[listeners.a.tls]\n\
         certificates = [{{ certificate = '{TLS}/public.pem', key = '{TLS}/public.key' }}]\n\
         client_ca = '{TLS}/clients-ca.pem'\n\
         [store]\nurl = 'rediss://127.0.0.1'\nkey_secret = '${{file:${{SECRETS}}/secret}}'\n\
         [store.tls]\nca = '{TLS}/redis-ca.pem'\n\
         [jwt]\nkeys = ['{TLS}/issuer.pem']\n\
         [upstreams.a]\nendpoints = 'https://a.example'\n[upstreams.a.tls]\nca = '{TLS}/other-ca.pem'\n\
         [policies.a]\nquota = '1 per s'\npartition = ['ip']\noverrides_file = '{TLS}/overrides.csv'\n\
         [[routes]]\npath = '/*'\nupstream = 'a'\npolicies = ['a']\nmethods = '${{file:{}}}'\n",
        at("list").display()
    );
    let (wrong, paths) = read(folder.path(), &text);
    assert_eq!(wrong, [""; 0]);
    let of_tls =
        "public.pem public.key clients-ca.pem redis-ca.pem issuer.pem other-ca.pem overrides.csv";
    let files = of_tls.split(' ').map(|name| Path::new(TLS).join(name));
    let here = ["gateway.toml", "one.toml", "secret", "list"];
    let expected = ReadPaths {
        files: files.chain(here.map(at)).collect(),
        patterns: BTreeSet::from([at("conf.d/*.toml")]),
    };
    assert_eq!(paths, expected);
}

#[test]
fn what_is_not_there_yet_is_listed_too() {
    let folder = tempfile::tempdir().expect("a directory");
    let at = |name: &str| folder.path().join(name);
    let text = "include = ['conf.d/*.toml', 'one.toml']\n\
                [store]\npassword = '${file:/nowhere/secret}'\n[jwt]\nkeys = '/nowhere/keys'\n";
    let (wrong, paths) = read(folder.path(), text);
    assert!(!wrong.is_empty());
    let nowhere = ["/nowhere/secret", "/nowhere/keys"].map(PathBuf::from);
    let here = ["gateway.toml", "one.toml"].map(at);
    let expected = ReadPaths {
        files: nowhere.into_iter().chain(here).collect(),
        patterns: BTreeSet::from([at("conf.d/*.toml")]),
    };
    assert_eq!(paths, expected);
}
