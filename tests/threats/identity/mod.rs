//! Who a client is: forged addresses, rotated prefixes, hostile keys, and floods of them.

mod addresses;
mod flood;
mod keys;
mod named_values;
mod prefixes;
mod token_keys;
mod tokens;

/// Status under a quota of one per hour: the first request of a client, and one too many.
const FIRST: u16 = 200;
const AGAIN: u16 = 429;

/// A quota of one per hour.
const ONCE: &str = "quota = '1 per hour'\nalgorithm = 'fixed-window'";

/// Cases that did not go as expected; all of them are reported, not only the first one.
#[derive(Debug, Default)]
struct Cases(Vec<String>);

impl Cases {
    /// Records a case if it did not go as expected.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "cases read better without borrowing"
    )]
    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, case: &str, found: T, expected: T) {
        if found != expected {
            self.0
                .push(format!("{case}: {found:?} instead of {expected:?}"));
        }
    }

    /// Fails the test if any case was recorded.
    #[track_caller]
    fn end(self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}
