//! Tokens that have verified, so that a signature is checked once and not per request.
//!
//! A token is known by the digest of its whole text, which is not kept. Memory is bounded: each
//! shard has a young and an old half. When the young half is full, it replaces the old one, whose
//! tokens are dropped unless they have been seen since. A dropped token is verified again. A token
//! that has expired is not found, and is dropped with its half.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::{fmt, mem};

use super::claims::TokenClaims;
use crate::clock::Timestamp;

/// Claims of the tokens that have verified, shared by all workers.
#[derive(Default)]
pub(super) struct Remembered {
    shards: [Mutex<TokenShard>; SHARDS],
}

/// Claims are left out, because they may be secret.
impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remembered")
    }
}

/// The digest of a whole token.
pub(super) type TokenDigest = [u8; 32];

#[derive(Default)]
struct TokenShard {
    young: TokenGeneration,
    old: TokenGeneration,
}

#[derive(Default)]
struct TokenGeneration {
    tokens: HashMap<TokenDigest, KnownToken>,
    bytes: usize,
}

struct KnownToken {
    claims: Arc<TokenClaims>,
    valid: Range<Timestamp>,
}

impl Remembered {
    /// Returns a token's claims, if it is known and valid at `now`.
    pub(super) fn claims(&self, digest: &TokenDigest, now: Timestamp) -> Option<Arc<TokenClaims>> {
        // The lock is released at the end of this statement, before the dropped half is freed.
        let (claims, _dropped) = self.shard(digest).claims(digest, now);
        claims
    }

    /// Remembers a token's claims, and when they are valid.
    pub(super) fn add(
        &self,
        digest: TokenDigest,
        claims: Arc<TokenClaims>,
        valid: Range<Timestamp>,
    ) {
        let token = KnownToken { claims, valid };
        let _dropped = self.shard(&digest).add(digest, token);
    }

    fn shard(&self, digest: &TokenDigest) -> MutexGuard<'_, TokenShard> {
        let shard = self.shards[usize::from(digest[0]) % SHARDS].lock();
        shard.expect("nothing panics with a shard")
    }
}

impl TokenShard {
    /// Returns a token's claims, and a half that is to be freed without the lock.
    fn claims(
        &mut self,
        digest: &TokenDigest,
        now: Timestamp,
    ) -> (Option<Arc<TokenClaims>>, Option<TokenGeneration>) {
        let mut dropped = None;
        if let Some(token) = self.old.tokens.remove(digest) {
            self.old.bytes -= token.bytes();
            dropped = self.add(*digest, token);
        }
        let token = self.young.tokens.get(digest);
        let claims = token.filter(|token| token.valid.contains(&now));
        (claims.map(|token| Arc::clone(&token.claims)), dropped)
    }

    /// Adds a token; returns the old half if the young one replaced it, to be freed without the lock.
    fn add(&mut self, digest: TokenDigest, token: KnownToken) -> Option<TokenGeneration> {
        let bytes = token.bytes();
        let is_full = self.young.bytes + bytes > HALF_BYTES_MAX;
        let dropped = is_full.then(|| mem::replace(&mut self.old, mem::take(&mut self.young)));
        self.young.bytes += bytes;
        if let Some(before) = self.young.tokens.insert(digest, token) {
            self.young.bytes -= before.bytes();
        }
        dropped
    }
}

impl KnownToken {
    fn bytes(&self) -> usize {
        TOKEN_BYTES + self.claims.bytes()
    }
}

const SHARDS: usize = 16;
/// Most bytes of all remembered tokens: at most 65,536 tokens.
const BYTES_MAX: usize = 16 << 20;
const HALF_BYTES_MAX: usize = BYTES_MAX / SHARDS / 2;
/// Most bytes that a token takes in addition to its claims: its entry in a table that is half empty.
const TOKEN_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u32) -> TokenDigest {
        *blake3::hash(&number.to_le_bytes()).as_bytes()
    }

    fn claims(bytes: usize) -> Arc<TokenClaims> {
        Arc::new(TokenClaims::of(&[("sub", &"x".repeat(bytes))]))
    }

    fn bytes(remembered: &Remembered) -> (usize, usize) {
        let shards = remembered
            .shards
            .iter()
            .map(|shard| shard.lock().expect("no panic"));
        shards.fold((0, 0), |(bytes, tokens), shard| {
            let halves = [&shard.young, &shard.old];
            let summed =
                |half: &TokenGeneration| half.tokens.values().map(KnownToken::bytes).sum::<usize>();
            for half in halves {
                assert_eq!(summed(half), half.bytes, "the accounts are right");
            }
            let count: usize = halves.iter().map(|half| half.tokens.len()).sum();
            (bytes + shard.young.bytes + shard.old.bytes, tokens + count)
        })
    }

    const ALWAYS: Range<Timestamp> = Timestamp(0)..Timestamp(u64::MAX);

    #[test]
    fn memory_is_bounded_however_many_tokens_verify() {
        for (size, tokens) in [(8, 150_000), (16_000, 3_000)] {
            let remembered = Remembered::default();
            for number in 0..tokens {
                remembered.add(digest(number), claims(size), ALWAYS);
                remembered.add(digest(number), claims(size), ALWAYS);
                // A token that keeps coming is kept.
                assert!(
                    remembered.claims(&digest(0), Timestamp(1)).is_some(),
                    "{number}"
                );
            }
            let (bytes, count) = bytes(&remembered);
            assert!((BYTES_MAX / 3..=BYTES_MAX).contains(&bytes), "{bytes}");
            assert!(count < tokens as usize, "{count}");
        }
    }

    #[test]
    fn a_token_is_known_only_while_it_is_valid() {
        let remembered = Remembered::default();
        remembered.add(digest(1), claims(1), Timestamp(10)..Timestamp(20));
        for (now, is_known) in [(9, false), (10, true), (19, true), (20, false), (15, true)] {
            let found = remembered.claims(&digest(1), Timestamp(now));
            assert_eq!(found.is_some(), is_known, "{now}");
            assert_eq!(remembered.claims(&digest(2), Timestamp(now)), None);
        }
    }
}
