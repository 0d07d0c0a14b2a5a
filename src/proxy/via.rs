//! Via: tells origins that a gateway stands before them, and this gateway that a request has
//! come back to it (RFC 9110, section 7.6.3).
//!
//! The name in it is drawn per process, so that gateways in a row are no loop.

use http::header::{HeaderMap, HeaderValue, VIA};

use crate::limit::partition_id::PartitionHasher;

/// Makes a process's entry; `key` is the process's own and does not show.
pub fn entry(key: &[u8; 32]) -> HeaderValue {
    let mut tagger = PartitionHasher::new(key);
    tagger.part("via", b"");
    let name = tagger.finish().high();
    HeaderValue::try_from(format!("1.1 tollgate-{name:016x}")).expect("hex digits are a value")
}

/// Whether a request has an entry of this process.
pub fn has_passed(headers: &HeaderMap, entry: &HeaderValue) -> bool {
    let is_own = |member: &[u8]| member.trim_ascii() == entry.as_bytes();
    let mut lines = headers.get_all(VIA).iter();
    lines.any(|line| line.as_bytes().split(|&byte| byte == b',').any(is_own))
}

/// Adds this process's entry after those that are there.
pub fn add(headers: &mut HeaderMap, entry: &HeaderValue) {
    headers.append(VIA, entry.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ones_own_entry_is_a_loop() {
        let [own, other] = [[1; 32], [2; 32]].map(|key| entry(&key));
        let mut headers = HeaderMap::new();
        add(&mut headers, &other);
        assert!(!has_passed(&headers, &own));
        let list = format!("1.0 first, {} , 1.1 last", own.to_str().expect("text"));
        headers.insert(VIA, HeaderValue::try_from(list).expect("a value"));
        assert!(has_passed(&headers, &own));
    }
}
