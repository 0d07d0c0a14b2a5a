//! Headers of the PROXY protocol: none is read past its end, however its bytes arrive.

use tollgate::proxy::wire::proxy_header::{BadProxyHeader, HEADER_BYTES_MAX, HeaderProgress, read};

/// The input: the first bytes of a connection.
pub fn holds(data: &[u8]) {
    let at_once = outcome(data, |more| more);
    // Byte by byte, it is read as the same header, or refused as well.
    let by_bytes = outcome(data, |_| 1);
    match (at_once, by_bytes) {
        (Err(_), Err(_)) => {}
        (at_once, by_bytes) => assert_eq!(at_once, by_bytes),
    }
    let Ok(Some((end, _))) = at_once else { return };
    assert!(end <= HEADER_BYTES_MAX);
    // What follows a header does not change how it is read.
    let followed = [&data[..end], b"GET / HTTP/1.1\r\n\r\n"].concat();
    assert_eq!(outcome(&followed, |more| more), at_once);
    assert_eq!(outcome(&data[..end], |more| more), at_once);
    assert_eq!(outcome(&data[..end - 1], |more| more), Ok(None));
}

/// Reads as a connection does, which takes at most the bytes that are asked for. Returns where the
/// header ends and whom it names, or `None` if more has to come.
fn outcome(
    data: &[u8],
    taken: impl Fn(usize) -> usize,
) -> Result<Option<(usize, Option<std::net::SocketAddr>)>, BadProxyHeader> {
    let mut have = 0;
    loop {
        match read(&data[..have])? {
            HeaderProgress::Done(source) => return Ok(Some((have, source))),
            HeaderProgress::More(more) => {
                assert!(more > 0);
                if have == data.len() {
                    return Ok(None);
                }
                have = data.len().min(have + taken(more));
            }
        }
    }
}
