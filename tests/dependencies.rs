//! What Tollgate is built from keeps to `deny.toml`: licences, bans, and no crate in two versions except those listed
//! there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// The parts of `deny.toml` that are checked here.
#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
    skip: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
}

/// One version of a crate that is part of Tollgate, of its build or of its tests.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: String,
}

fn rules() -> Rules {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deny.toml");
    let text = fs::read_to_string(path).expect("deny.toml can be read");
    toml::from_str(&text).expect("deny.toml has the parts that are held here")
}

/// Asks `cargo tree`, which follows features; `cargo metadata` also lists crates that nothing asks for.
fn packages() -> BTreeSet<Package> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["tree", "--locked", "--edges=normal,build,dev"])
        .args(["--prefix=none", "--format={p}\t{l}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let packages: BTreeSet<_> = text.lines().filter_map(package).collect();
    assert!(packages.len() > 100, "the packages are found");
    packages
}

/// Reads a line such as `http v1.5.0\tMIT OR Apache-2.0`.
fn package(line: &str) -> Option<Package> {
    let (package, license) = line.split_once('\t')?;
    let mut words = package.split(' ');
    Some(Package {
        name: words.next()?.to_owned(),
        version: words.next()?.to_owned(),
        license: license.trim_end_matches(" (*)").to_owned(),
    })
}

/// Whether a package's licence can be met by those that are allowed: every `AND` needs all of its sides, and every `OR`
/// one of them.
fn is_met(license: &str, allowed: &BTreeSet<String>) -> bool {
    let license = license.replace('/', " OR ").replace(['(', ')'], " ");
    let words = license.split_whitespace().collect::<Vec<_>>().join(" ");
    // No package nests an OR that has no allowed side, so brackets need not be read.
    (words.split(" AND ")).all(|all| all.split(" OR ").any(|one| allowed.contains(one)))
}

#[test]
fn every_package_has_a_licence_that_is_allowed() {
    let allowed = rules().licenses.allow;
    let offences = packages().into_iter().filter_map(|package| {
        let is_allowed = is_met(&package.license, &allowed);
        (!is_allowed).then(|| format!("{} {}", package.name, package.license))
    });
    assert_eq!(offences.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn no_package_is_banned_or_there_twice() {
    let Bans { deny, skip } = rules().bans;
    let names = |bans: Vec<Ban>| bans.into_iter().map(|ban| ban.name).collect();
    let (banned, twice): (BTreeSet<String>, BTreeSet<String>) = (names(deny), names(skip));
    let mut versions = BTreeMap::<String, BTreeSet<String>>::new();
    for Package { name, version, .. } in packages() {
        assert!(!banned.contains(&name), "{name} is banned");
        versions.entry(name).or_default().insert(version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let found: BTreeSet<_> = versions.keys().cloned().collect();
    assert_eq!(found, twice, "crates in several versions: {versions:?}");
}

#[test]
fn licences_are_met_by_all_of_and_and_one_of_or() {
    let allowed = ["MIT", "ISC"].map(str::to_owned).into();
    for (license, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("ISC AND (GPL-3.0 OR MIT)", true),
        ("ISC AND GPL-3.0", false),
        ("", false),
    ] {
        assert_eq!(is_met(license, &allowed), expected, "{license}");
    }
}
