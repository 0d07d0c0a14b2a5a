//! The length that a head announces, shortened for the parser if the body goes around it.

use memchr::memchr_iter;

/// Returns the value of `line`, if it is the field of that name.
pub(super) fn value<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let (field, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    field.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

/// Makes a head announce a body of one byte. Returns false if the head does not state a length exactly once, in digits.
pub(super) fn shorten(head: &mut [u8]) -> bool {
    let mut stated = None;
    let mut begin = 0;
    for end in memchr_iter(b'\n', head) {
        if let Some(length) = value(&head[begin..end], b"content-length") {
            // The value is followed by white space, if any, and the carriage return.
            let behind = head[begin..end].len() - head[begin..end].trim_ascii_end().len();
            let stated_again = stated.replace(end - behind - length.len()..end - behind);
            if stated_again.is_some() || !length.iter().all(u8::is_ascii_digit) {
                return false;
            }
        }
        begin = end + 1;
    }
    let Some([before @ .., last]) = stated.map(|at| &mut head[at]) else {
        return false;
    };
    before.fill(b'0');
    *last = b'1';
    true
}
