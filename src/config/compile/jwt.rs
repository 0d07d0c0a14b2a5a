//! Tokens: the keys that verify them, and the claims that policies read.

use std::ops::Range;
use std::sync::Arc;

use super::hashed::hashed;
use crate::config::display;
use crate::config::file::{File, RawJwt, Table};
use crate::config::options::JWT;
use crate::config::report::Report;
use crate::request::Part;
use crate::request::jwt::{KeyFault, SigningAlgorithm, TokenVerifier, VerifyingKey};
use crate::snapshot::{Policy, Route, Snapshot};

/// Compiles `[jwt]`, or returns `None` if the file does not have it, or its keys are wrong.
pub(super) fn compile(
    file: &File,
    policies: &[Policy],
    report: &mut Report,
) -> Option<Arc<TokenVerifier>> {
    if !file.jwt.is_there() {
        if !file.lost.may_be_any("jwt") {
            lacking(file, policies, report);
        }
        return None;
    }
    let keys = keys(&file.jwt, report)?;
    let mut claims: Vec<Arc<str>> = Vec::new();
    let parts = policies.iter().flat_map(Policy::parts);
    for name in claims_of(parts.chain(file.upstreams.iter().flat_map(hashed))) {
        if !claims.iter().any(|known| **known == *name) {
            claims.push(name.into());
        }
    }
    let rules = file.jwt.value.rules.clone();
    Some(Arc::new(TokenVerifier::new(keys, rules, claims)))
}

/// Reports the policies and upstreams that read tokens, although there is no `[jwt]` to verify them.
fn lacking(file: &File, policies: &[Policy], report: &mut Report) {
    let mut lacking = |claim: &str, place: &Range<usize>| {
        let message = format!("`jwt:{claim}` needs `[jwt]`, which the file does not have");
        let expected = "a table `[jwt]` with the keys that verify tokens";
        (report.mistake(place, message, expected))
            .hint("add `[jwt]` and below it `keys = [\"/etc/tollgate/issuer.pem\"]`");
    };
    for table in &file.upstreams {
        if let Some(claim) = claims_of(hashed(table)).next() {
            lacking(claim, table.place("hash_by").unwrap_or(&table.span));
        }
    }
    for (table, policy) in file.policies.iter().zip(policies) {
        let by_partition = claims_of(policy.partition.parts()).map(|claim| (claim, "partition"));
        let by_tier = claims_of(policy.overrides_by().parts()).map(|claim| (claim, "overrides_by"));
        let by_day = policy.anchor_by.iter().flat_map(|choice| &choice.0);
        let by_day = claims_of(by_day).map(|claim| (claim, "anchor_by"));
        if let Some((claim, key)) = by_partition.chain(by_tier).chain(by_day).next() {
            lacking(claim, table.place(key).unwrap_or(&table.span));
        }
    }
}

fn claims_of<'p>(parts: impl Iterator<Item = &'p Part>) -> impl Iterator<Item = &'p str> {
    parts.filter_map(|part| match part {
        Part::Claim(name) => Some(&**name),
        _ => None,
    })
}

/// Reads the keys of the allowed algorithms, or reports why there are none.
fn keys(table: &Table<RawJwt>, report: &mut Report) -> Option<Vec<VerifyingKey>> {
    let place = table
        .place("keys")
        .filter(|_| !table.is_incomplete(JWT.about.title))?;
    let (jwt, before) = (&table.value, report.count());
    let mut keys = Vec::new();
    for file in &jwt.keys {
        match VerifyingKey::read(&file.value.content) {
            Ok(read) => keys.extend(read),
            Err(fault) => {
                (report.mistake(&file.span, format!("this file {fault}"), EXPECTED))
                    .hint(hint(fault));
            }
        }
    }
    if report.count() > before {
        return None;
    }
    if keys.len() > KEYS_MAX {
        let message = format!("`keys` has {} keys", keys.len());
        (report.mistake(place, message, format!("at most {KEYS_MAX} keys")))
            .hint("leave out issuers whose tokens identify no clients here");
        return None;
    }
    if jwt.keys.is_empty() {
        report.mistake(place, "`keys` has no file", "at least one file");
        return None;
    }
    let is_allowed =
        |key: &VerifyingKey| jwt.algorithms.is_empty() || jwt.algorithms.contains(&key.algorithm());
    let verified = algorithms(&keys);
    keys.retain(is_allowed);
    if keys.is_empty() {
        let place = table.place("algorithms").unwrap_or(place);
        let message = "no key verifies tokens of these algorithms";
        (report.mistake(place, message, "an algorithm of the keys"))
            .hint(format!("the keys are for {verified}"));
        return None;
    }
    Some(keys)
}

/// Names the algorithms of keys, each once.
fn algorithms(keys: &[VerifyingKey]) -> String {
    let names = SigningAlgorithm::NAMES.iter();
    let of_keys = names.filter(|(_, name)| keys.iter().any(|key| key.algorithm() == *name));
    let names: Vec<&str> = of_keys.map(|(name, _)| *name).collect();
    names.join(", ")
}

fn hint(fault: KeyFault) -> &'static str {
    match fault {
        KeyFault::Form | KeyFault::NoKey => "a public key begins with `-----BEGIN PUBLIC KEY-----`",
        KeyFault::Private => "its public key: `openssl pkey -in FILE -pubout`",
        KeyFault::Certificate => "its public key: `openssl x509 -in FILE -pubkey -noout`",
        KeyFault::Kind => "RSA, EC on P-256 and Ed25519 are known; HS256 needs a JWKS file",
        KeyFault::RsaLength => "the issuer must use a key of 2048 bits or more",
        KeyFault::NoUsableKey => {
            "a key must be RSA (2048 bits or more), EC on P-256, Ed25519 or `oct` (32 bytes or more), for \
             signatures (`use`, `key_ops`) and for RS256, ES256, EdDSA or HS256 (`alg`)"
        }
    }
}

/// Adds the warnings about `[jwt]`: what is valid but probably not what was meant.
pub(super) fn warnings(file: &File, snapshot: &Snapshot, found: &mut Vec<String>) {
    let Some(tokens) = &snapshot.tokens else {
        return;
    };
    if !snapshot.routes.iter().any(Route::reads_claims) {
        found.push("jwt: no route's policy reads a claim".to_owned());
    }
    for algorithm in &file.jwt.value.algorithms {
        if !tokens
            .keys()
            .iter()
            .any(|key| key.algorithm() == *algorithm)
        {
            let name = display::word(&SigningAlgorithm::NAMES, algorithm);
            found.push(format!("jwt: no key verifies {name}"));
        }
    }
}

const EXPECTED: &str = "a PEM file of public keys, or a JWKS file";
/// Most keys of `[jwt]`; a token that names none of them is tried with each key of its algorithm.
const KEYS_MAX: usize = 32;
