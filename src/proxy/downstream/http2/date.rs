//! The Date field of answers (RFC 9110, section 6.6.1), formatted at most once a second.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use http::HeaderValue;

use crate::clock::Timestamp;

/// The latest value of Date, and the second for which it was formatted.
#[derive(Debug, Default)]
pub(super) struct Date(RefCell<Option<(u64, HeaderValue)>>);

impl Date {
    /// Returns the value for `now`.
    pub(super) fn at(&self, now: Timestamp) -> HeaderValue {
        let secs = now.0 / 1_000_000;
        let mut latest = self.0.borrow_mut();
        match &*latest {
            Some((of, value)) if *of == secs => value.clone(),
            _ => {
                let date =
                    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(secs));
                let value =
                    HeaderValue::try_from(date).expect("a date has only visible characters");
                latest.insert((secs, value)).1.clone()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_is_of_the_second_and_changes_with_it() {
        let date = Date::default();
        for (us, expected) in [
            (784_111_777_000_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777_999_999, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778_000_000, "Sun, 06 Nov 1994 08:49:38 GMT"),
        ] {
            assert_eq!(date.at(Timestamp(us)), expected);
        }
    }
}
