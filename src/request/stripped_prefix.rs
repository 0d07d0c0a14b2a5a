//! The segments that a route strips from paths, and puts back into the `Location` of answers.
//!
//! An origin that knows nothing of the prefix names its resources from its own root: `Location: /login` for a page that
//! clients find at `/api/login`. It may write its own authority before that, or the one in the client's request. An
//! origin that heeds `X-Forwarded-Prefix` has put the prefix there itself, so a path that begins with the prefix is
//! left as it is. So are locations that lead elsewhere (`//other`, another host) and relative ones (`next`, `?page=2`).

use http::HeaderValue;

use super::copied::copied_value;
use super::path;
use super::route::after_segments;

/// Literal segments at the beginning of a path: `/api`. It begins with a slash and does not end with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrippedPrefix {
    path: Box<str>,
    value: HeaderValue,
}

impl StrippedPrefix {
    /// Takes a prefix as written in the file; none if it is not a path, or only the root.
    pub fn new(text: &str) -> Option<Self> {
        let normal = path::normalise(text).ok()?;
        let path = path::without_last_slash(normal.as_str());
        Some(Self {
            value: HeaderValue::from_str(path).ok()?,
            path: (!path.is_empty()).then(|| path.into())?,
        })
    }

    /// Returns the prefix as the value of a field.
    pub fn value(&self) -> HeaderValue {
        copied_value(&self.value)
    }

    /// Removes as many segments from `path` as the prefix has; they may be spelled differently there.
    pub(super) fn strip<'p>(&self, path: &'p str) -> &'p str {
        match after_segments(path, self.path.matches('/').count()) {
            "" => "/",
            rest => rest,
        }
    }

    /// Returns a `Location` with the prefix added, if it is below the root of the origin: a path, or a URL at `host`,
    /// the client's Host, or at `endpoint`. The last becomes a path, because clients may be unable to reach endpoints.
    /// None if the location stays as it is.
    pub fn restore_in_location(
        &self,
        location: &HeaderValue,
        endpoint: Option<&HeaderValue>,
        host: Option<&HeaderValue>,
    ) -> Option<HeaderValue> {
        let (location, prefix) = (location.as_bytes(), self.path.as_bytes());
        let (is_endpoint, path) = match location {
            [b'/', b'/', ..] => return None,
            [b'/', ..] => (false, location),
            _ => {
                let (url, path) = HttpUrl::parse(location)?;
                let is_at = |host: Option<&HeaderValue>| {
                    host.is_some_and(|host| url.is_at(host.as_bytes()))
                };
                let is_endpoint = !is_at(host);
                if is_endpoint && !is_at(endpoint) {
                    return None;
                }
                (is_endpoint, path)
            }
        };
        let is_there = path
            .strip_prefix(prefix)
            .is_some_and(|rest| matches!(rest, [] | [b'/' | b'?' | b'#', ..]));
        let before = match is_endpoint {
            true => &[],
            false if is_there => return None,
            false => &location[..location.len() - path.len()],
        };
        let prefix = if is_there { &[] } else { prefix };
        HeaderValue::from_bytes(&[before, prefix, path].concat()).ok()
    }
}

/// The authority of an HTTP URL.
struct HttpUrl<'u> {
    authority: &'u [u8],
    /// The default port of the URL's scheme, as written in an authority: `:80`.
    default_port: &'static [u8],
}

impl<'u> HttpUrl<'u> {
    /// Reads a URL up to its path; also returns the path and all that follows it. None if this is not a URL of HTTP.
    fn parse(url: &'u [u8]) -> Option<(Self, &'u [u8])> {
        let (scheme, default_port) = match url.get(4)? {
            b':' => (&b"http://"[..], &b":80"[..]),
            _ => (&b"https://"[..], &b":443"[..]),
        };
        let (begin, rest) = url.split_at_checked(scheme.len())?;
        if !begin.eq_ignore_ascii_case(scheme) {
            return None;
        }
        let is_end = |byte: &u8| matches!(byte, b'/' | b'?' | b'#');
        let end = rest.iter().position(is_end).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let url = Self {
            authority,
            default_port,
        };
        Some((url, path))
    }

    /// Whether the URL is at this host, with or without the scheme's default port.
    fn is_at(&self, host: &[u8]) -> bool {
        let port = self.default_port;
        let [own, other] =
            [self.authority, host].map(|host| host.strip_suffix(port).unwrap_or(host));
        !own.is_empty() && own.eq_ignore_ascii_case(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The authority of the endpoint, and the one in the client's request.
    const AUTHORITIES: [&str; 2] = ["10.0.0.1:9000", "Shop.test:8443"];

    #[test]
    fn what_is_below_the_root_of_an_origin_gets_the_prefix() {
        let prefix = StrippedPrefix::new("/api").expect("a prefix");
        let [endpoint, host] = AUTHORITIES.map(HeaderValue::from_static);
        for (location, expected) in [
            ("/", "/api/"),
            ("/login?next=/x#y", "/api/login?next=/x#y"),
            ("/a//b", "/api/a//b"),
            ("/\\other.test", "/api/\\other.test"),
            // An origin that heeds `X-Forwarded-Prefix` has put the prefix there.
            ("/api", "/api"),
            ("/api/", "/api/"),
            ("/api/login", "/api/login"),
            ("/api?x", "/api?x"),
            ("/api#x", "/api#x"),
            ("/apis", "/api/apis"),
            ("/API/x", "/api/API/x"),
            ("/api%2Fx", "/api/api%2Fx"),
            // The client's host stays, and so does the scheme.
            ("https://shop.test:8443/x", "https://shop.test:8443/api/x"),
            ("HTTP://SHOP.TEST:8443/x", "HTTP://SHOP.TEST:8443/api/x"),
            ("https://shop.test:8443", "https://shop.test:8443/api"),
            ("https://shop.test:8443?x", "https://shop.test:8443/api?x"),
            (
                "https://shop.test:8443/api/x",
                "https://shop.test:8443/api/x",
            ),
            (
                "https://shop.test:8443//evil.test/",
                "https://shop.test:8443/api//evil.test/",
            ),
            // The endpoint is not for clients.
            ("http://10.0.0.1:9000/x?y", "/api/x?y"),
            ("https://10.0.0.1:9000/x", "/api/x"),
            ("http://10.0.0.1:9000", "/api"),
            ("http://10.0.0.1:9000#x", "/api#x"),
            ("http://10.0.0.1:9000/api/x", "/api/x"),
            ("http://10.0.0.1:9000//evil.test", "/api//evil.test"),
        ] {
            let sent = HeaderValue::from_str(location).expect(location);
            let given = prefix.restore_in_location(&sent, Some(&endpoint), Some(&host));
            assert_eq!(given.unwrap_or(sent), expected, "{location}");
        }
    }

    #[test]
    fn what_leads_elsewhere_or_from_where_the_client_is_stays_as_it_is() {
        let prefix = StrippedPrefix::new("/api").expect("a prefix");
        let [endpoint, host] = AUTHORITIES.map(HeaderValue::from_static);
        for location in [
            "",
            "x",
            "./x",
            "../x",
            "?page=2",
            "#x",
            "//other.test/x",
            "//shop.test:8443/x",
            "https://shop.test/x",
            "https://shop.test:443/x",
            "https://other.test/x",
            "https://shop.test:8443.other.test/x",
            "https://shop.test:8443@other.test/x",
            "https://user@shop.test:8443/x",
            "https://shop.test:8443\\@other.test/",
            "http://10.0.0.1/x",
            "http://10.0.0.1:90001/x",
            "https:/shop.test:8443/x",
            "https:///x",
            "http://",
            "ftp://shop.test:8443/x",
            "mailto:a@shop.test",
            "myapp://callback/x",
        ] {
            let sent = HeaderValue::from_str(location).expect(location);
            let given = prefix.restore_in_location(&sent, Some(&endpoint), Some(&host));
            assert_eq!(given, None, "{location}");
        }
    }

    #[test]
    fn the_port_of_the_scheme_may_be_written_or_not() {
        let prefix = StrippedPrefix::new("/api").expect("a prefix");
        for (location, host, is_it) in [
            ("https://a.test:443/x", "a.test", true),
            ("https://a.test/x", "a.test:443", true),
            ("http://a.test:80/x", "a.test", true),
            ("http://a.test/x", "a.test", true),
            ("http://a.test:443/x", "a.test", false),
            ("https://a.test:80/x", "a.test", false),
            ("https://[::1]:443/x", "[::1]", true),
            ("https://:443/x", "", false),
        ] {
            let [location, host] =
                [location, host].map(|text| HeaderValue::from_str(text).expect(text));
            let given = prefix.restore_in_location(&location, None, Some(&host));
            assert_eq!(given.is_some(), is_it, "{location:?} at {host:?}");
        }
        let location = HeaderValue::from_static("http://a.test/x");
        assert_eq!(prefix.restore_in_location(&location, None, None), None);
    }

    #[test]
    fn a_prefix_is_told_in_the_spelling_that_urls_have() {
        let value = |text| StrippedPrefix::new(text).map(|prefix| prefix.value());
        for (text, expected) in [
            ("/api", Some("/api")),
            ("/api/v1/", Some("/api/v1")),
            ("/é", Some("/%C3%A9")),
            ("/%61", Some("/a")),
            ("/a%3Ab", Some("/a%3Ab")),
            ("/", None),
            ("api", None),
            ("/a%", None),
        ] {
            let value = value(text);
            let value = value.as_ref().map(|value| value.to_str().expect("ASCII"));
            assert_eq!(value, expected, "{text}");
        }
    }
}
