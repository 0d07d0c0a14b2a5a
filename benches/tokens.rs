//! What a token costs: to verify it, and once it is remembered. Figures are CPU time of a thread, or wall time if the
//! kernel does not report that; tokens have some 800 bytes, like those of identity providers.
//!
//! `cargo bench --bench tokens`

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

#[path = "../tests/support/issuer.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod issuer;
mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::thread;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use issuer::{Issuer, jwks};
use serde_json::json;
use support::Stopwatch;
use tollgate::clock::Timestamp;
use tollgate::request::jwt::{TokenRules, TokenVerifier, VerifyingKey};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    println!("ns per token");
    println!(
        "{:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "verified", "forged", "again", "2 threads", "one hot", "2 threads"
    );
    for issuer in [
        Issuer::hmac([7; 32]),
        Issuer::rsa(),
        Issuer::ec(),
        Issuer::ed(),
    ] {
        let keys = VerifyingKey::read(jwks(&[(&issuer, json!({}))]).as_bytes()).expect("one key");
        let claims = vec!["sub".into()];
        let verifier = TokenVerifier::new(keys, TokenRules::default(), claims);
        let verifier = Arc::new(verifier);
        let tokens: Arc<Vec<_>> =
            Arc::new((0..TOKENS).map(|n| request(&token(&issuer, n))).collect());
        let forged: Vec<_> = (0..TOKENS).map(|n| request(&forged(&issuer, n))).collect();
        let first = ns(&verifier, &tokens, true);
        let refused = ns(&verifier, &forged, false);
        let again = repeated(&verifier, &tokens, 1);
        let by_two = repeated(&verifier, &tokens, 2);
        let hot = Arc::new(vec![tokens[0].clone(); TOKENS]);
        let (alone, shared) = (repeated(&verifier, &hot, 1), repeated(&verifier, &hot, 2));
        println!(
            "{:>8} {first:>9.0} {refused:>9.0} {again:>9.0} {by_two:>9.0} {alone:>9.0} {shared:>9.0}",
            issuer.algorithm()
        );
    }
}

/// Returns the ns per token on this many threads, each of which sees all tokens many times.
fn repeated(verifier: &Arc<TokenVerifier>, tokens: &Arc<Vec<HeaderMap>>, threads: usize) -> f64 {
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let (verifier, tokens) = (Arc::clone(verifier), Arc::clone(tokens));
            thread::spawn(move || {
                let total: f64 = (0..ROUNDS).map(|_| ns(&verifier, &tokens, true)).sum();
                total / ROUNDS as f64
            })
        })
        .collect();
    let count = threads.len() as f64;
    let joined = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"));
    joined.sum::<f64>() / count
}

fn ns(verifier: &TokenVerifier, tokens: &[HeaderMap], is_good: bool) -> f64 {
    let watch = Stopwatch::start();
    for headers in tokens {
        let claims = verifier.claims(black_box(headers), Timestamp(1));
        assert_eq!(claims.is_some(), is_good);
    }
    watch.elapsed_ns() / tokens.len() as f64
}

fn token(issuer: &Issuer, number: usize) -> String {
    let sub = format!("user-{number}");
    issuer.token(&json!({"sub": sub, "exp": 4_000_000_000_u64, "scope": "x".repeat(400)}))
}

/// Returns the claims of one token with the signature of another.
fn forged(issuer: &Issuer, number: usize) -> String {
    let (one, other) = (token(issuer, number), token(issuer, number + 1));
    let (message, _) = one.rsplit_once('.').expect("three parts");
    let (_, signature) = other.rsplit_once('.').expect("three parts");
    format!("{message}.{signature}")
}

fn request(token: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a value");
    HeaderMap::from_iter([(AUTHORIZATION, value)])
}

const TOKENS: usize = 2_000;
const ROUNDS: usize = 50;
