//! Claims of a verified token about its client.

use std::sync::Arc;

/// The values of the claims that policies read, as text; claims that the token lacks are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenClaims(pub(super) Box<[(Arc<str>, Box<str>)]>);

impl TokenClaims {
    /// Returns a claim's value, which is never empty, if the token has it.
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut claims = self.0.iter();
        claims.find_map(|(claim, value)| (**claim == *name).then_some(&**value))
    }

    /// Returns how many bytes the table and the values take; the names are shared and do not count.
    pub(super) fn bytes(&self) -> usize {
        let sizes = self
            .0
            .iter()
            .map(|claim| size_of_val(claim) + claim.1.len());
        sizes.sum()
    }
}

#[cfg(test)]
impl TokenClaims {
    /// Makes claims by hand.
    pub(in crate::request) fn of(claims: &[(&str, &str)]) -> Self {
        let claims = claims
            .iter()
            .map(|&(name, value)| (name.into(), value.into()));
        Self(claims.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_claims_are_their_pointers_lengths_and_values() {
        let claims = TokenClaims::of(&[("sub", "joe"), ("plan", "free")]);
        let table = 2 * size_of::<(Arc<str>, Box<str>)>();
        assert_eq!(size_of_val(&*claims.0), table);
        assert_eq!(claims.bytes(), table + "joefree".len());
    }
}
