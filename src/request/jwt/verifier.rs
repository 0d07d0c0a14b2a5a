//! Verifies tokens by the keys and rules of a configuration.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use serde_json::value::RawValue;

use super::claims::TokenClaims;
use super::json::{JsonMembers, scalar, string};
use super::keys::VerifyingKey;
use super::remembered::Remembered;
use super::token::{UnverifiedToken, of_header};
use crate::clock::{Micros, Timestamp};

/// Requirements on tokens, apart from their signature, and the header in which they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRules {
    /// The header that carries tokens.
    pub header: HeaderName,
    /// The issuer that tokens must name; `None` accepts any token that a known key has signed.
    pub issuer: Option<Box<str>>,
    /// Names of which a token's audience must include one; if the list is empty, any audience is accepted.
    pub audience: Vec<Box<str>>,
    /// How far the issuer's clock may be off.
    pub leeway: Duration,
}

/// Verifies tokens, and remembers the claims of those that verify.
///
/// Two verifiers are equal if they verify the same tokens and read the same claims.
#[derive(Debug)]
pub struct TokenVerifier {
    keys: Vec<VerifyingKey>,
    rules: TokenRules,
    /// Names of the claims that are read.
    claims: Vec<Arc<str>>,
    remembered: Remembered,
}

impl TokenVerifier {
    /// Makes a verifier that reads these `claims` and has not seen a token yet.
    pub fn new(keys: Vec<VerifyingKey>, rules: TokenRules, claims: Vec<Arc<str>>) -> Self {
        Self {
            keys,
            rules,
            claims,
            remembered: Remembered::default(),
        }
    }

    /// Returns the requirements on tokens.
    pub fn rules(&self) -> &TokenRules {
        &self.rules
    }

    /// Returns the keys that verify tokens.
    pub fn keys(&self) -> &[VerifyingKey] {
        &self.keys
    }

    /// Returns the claims of a request's token, if it has one that verifies at `now`.
    pub fn claims(&self, headers: &HeaderMap, now: Timestamp) -> Option<Arc<TokenClaims>> {
        let token = of_header(headers.get(&self.rules.header)?.as_bytes())?;
        let digest = *blake3::hash(token.as_bytes()).as_bytes();
        if let Some(claims) = self.remembered.claims(&digest, now) {
            return Some(claims);
        }
        let (claims, valid) = self.verify(token)?;
        if !valid.contains(&now) {
            return None;
        }
        let claims = Arc::new(claims);
        self.remembered.add(digest, Arc::clone(&claims), valid);
        Some(claims)
    }

    /// Returns a token's claims, and when they are valid; none if it does not verify.
    fn verify(&self, token: &str) -> Option<(TokenClaims, Range<Timestamp>)> {
        let token = UnverifiedToken::read(token)?;
        let mut keys = self.keys.iter().filter(|key| key.may_verify(&token));
        if !keys.any(|key| key.verifies(&token)) {
            return None;
        }
        let payload = token.payload()?;
        let members = JsonMembers::read(&payload).filter(JsonMembers::are_unique)?;
        if !self.is_from_issuer(&members) || !self.is_for_audience(&members) {
            return None;
        }
        let valid = self.validity(&members)?;
        let claims = self.claims.iter().filter_map(|name| {
            let value = scalar(members.find(name)?)?;
            Some((Arc::clone(name), value))
        });
        Some((TokenClaims(claims.collect()), valid))
    }

    fn is_from_issuer(&self, members: &JsonMembers<'_>) -> bool {
        let said = || members.value("iss").and_then(string);
        self.rules.issuer.is_none() || self.rules.issuer == said()
    }

    /// `aud` is a name or a list of names (RFC 7519, section 4.1.3).
    fn is_for_audience(&self, members: &JsonMembers<'_>) -> bool {
        let audience = &self.rules.audience;
        if audience.is_empty() {
            return true;
        }
        members.value("aud").is_some_and(|said| match string(said) {
            Some(one) => audience.contains(&one),
            None => serde_json::from_str::<Vec<Box<str>>>(said.get())
                .is_ok_and(|several| several.iter().any(|one| audience.contains(one))),
        })
    }

    /// Returns when the token is valid, with leeway; none if a date of it is not a number of seconds.
    fn validity(&self, members: &JsonMembers<'_>) -> Option<Range<Timestamp>> {
        let leeway = Micros::from(self.rules.leeway);
        let begin = match members.value("nbf") {
            Some(begin) => date(begin)? - leeway,
            None => Timestamp(0),
        };
        let end = match members.value("exp") {
            Some(end) => date(end)? + leeway,
            None => Timestamp(u64::MAX),
        };
        Some(begin..end)
    }
}

impl PartialEq for TokenVerifier {
    fn eq(&self, other: &Self) -> bool {
        (&self.keys, &self.rules, &self.claims) == (&other.keys, &other.rules, &other.claims)
    }
}

impl Default for TokenRules {
    fn default() -> Self {
        Self {
            header: AUTHORIZATION,
            issuer: None,
            audience: Vec::new(),
            leeway: Duration::from_mins(1),
        }
    }
}

/// Reads seconds since 1970, which may have decimals (RFC 7519, section 2, "NumericDate").
fn date(value: &RawValue) -> Option<Timestamp> {
    let seconds: f64 = serde_json::from_str(value.get()).ok()?;
    let since_1970 = Duration::try_from_secs_f64(seconds).ok()?;
    Some(Timestamp(Micros::from(since_1970).0))
}
