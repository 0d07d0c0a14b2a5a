//! Hosts: each has one spelling, and what is not a host is refused.

use std::cell::RefCell;

use http::header::HOST;
use http::{HeaderMap, HeaderValue, Uri, Version};
use tollgate::request::{self, BadHost, LatestHost};

use super::{lines, text};

thread_local! {
    /// The host cache of a connection on which all inputs arrive.
    static LATEST: RefCell<LatestHost> = RefCell::default();
}

/// The input: the target, the version (`1.0`, `1.1`, `2`), and a value of Host on each further line.
pub fn holds(data: &[u8]) {
    let mut lines = lines(data);
    let Some(Ok(target)) = lines.next().map(Uri::try_from) else {
        return;
    };
    let version = match text(&mut lines) {
        Some("1.0") => Version::HTTP_10,
        Some("1.1") => Version::HTTP_11,
        Some("2") => Version::HTTP_2,
        _ => return,
    };
    let mut headers = HeaderMap::new();
    for value in lines {
        if let Ok(value) = HeaderValue::from_bytes(value.trim_ascii()) {
            headers.append(HOST, value);
        }
    }
    let fields: Vec<&HeaderValue> = headers.get_all(HOST).iter().collect();
    let found = request::host(&target, &headers, version);
    for _ in 0..2 {
        let again = LATEST.with_borrow_mut(|latest| latest.host(&target, &headers, version));
        assert_eq!(again, found, "behind others");
    }
    let Ok(host) = found else {
        return;
    };
    assert!(fields.len() <= 1, "{fields:?}");
    if version == Version::HTTP_11 {
        assert_eq!(fields.len(), 1, "HTTP/1.1 has one Host");
    }
    if host.is_empty() {
        assert!(version == Version::HTTP_10 && fields.is_empty() && target.authority().is_none());
        return;
    }
    assert!(host.len() <= 255 && is_name(&host), "{:?}", &*host);
    let from = match (target.authority(), fields.first()) {
        (Some(authority), _) => authority.as_str().as_bytes(),
        (None, Some(field)) => field.as_bytes(),
        (None, None) => unreachable!("a host comes from somewhere"),
    };
    assert!(!from.contains(&b'@'), "no user");
    if !host.starts_with('[') {
        let from = from.to_ascii_lowercase();
        assert!(from.starts_with(host.as_bytes()), "only a suffix is cut");
        let rest = str::from_utf8(&from[host.len()..]).expect("ASCII");
        let port = rest.strip_prefix('.').unwrap_or(rest);
        let number = port.strip_prefix(':').unwrap_or_default();
        assert!(port.is_empty() || port.starts_with(':'), "{rest}");
        assert!(number.is_empty() || number.parse::<u16>().is_ok());
    }
    for spelling in [
        host.to_string(),
        host.to_ascii_uppercase(),
        format!("{}:80", host.to_ascii_uppercase()),
        format!("{}:", &*host),
        format!("{}.", &*host),
    ] {
        let is_dotted = spelling.ends_with('.');
        if is_dotted && (host.starts_with('[') || host.len() == 255) {
            continue;
        }
        assert_eq!(read(&spelling).as_deref(), Ok(&*host), "{spelling}");
    }
}

fn read(host: &str) -> Result<String, BadHost> {
    let value = HeaderValue::from_str(host).expect("a host is a value");
    let headers = HeaderMap::from_iter([(HOST, value)]);
    let target = Uri::from_static("/");
    request::host(&target, &headers, Version::HTTP_11).map(|host| host.to_string())
}

/// Whether a host is in its one spelling: lower-case labels, none of them empty, or an address in brackets.
fn is_name(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.strip_suffix(']').map(str::parse::<std::net::Ipv6Addr>);
        return matches!(address, Some(Ok(address)) if format!("[{address}]") == host);
    }
    host.split('.').all(|label| {
        let is_good =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_~".contains(&byte);
        !label.is_empty() && label.bytes().all(is_good)
    })
}
