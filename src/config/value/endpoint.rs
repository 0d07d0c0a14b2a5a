//! Endpoints of upstreams, how they are checked, and the name that an origin has in TLS.

use std::net::IpAddr;

use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, StatusCode};
use rustls::pki_types::ServerName;

use super::{ValueError, nearest};
use crate::config::file::RawEndpoint;
use crate::request::route::HostPattern;
use crate::snapshot::{Endpoint, Scheme};

/// JSON Schema pattern that every URL of an endpoint matches.
pub const URL_PATTERN: &str = "^(https?|h2c)://[^/?#@]+/?$";
/// JSON Schema pattern that every endpoint without a weight matches.
pub const ENDPOINT_PATTERN: &str =
    "^(https?|h2c)://[^/?#@]+/?$|^builtin:(echo|redirect-https|usage|status/[2-5][0-9][0-9])$";

/// Parses an upstream's endpoint such as `http://127.0.0.1:9000`, or a built-in answer.
pub fn endpoint(text: &str) -> Result<RawEndpoint, ValueError> {
    match text.strip_prefix("builtin:") {
        Some(name) => builtin(name),
        None => endpoint_url(text).map(RawEndpoint::Http),
    }
}

/// Parses the URL of an origin such as `http://127.0.0.1:9000`.
pub fn endpoint_url(text: &str) -> Result<Endpoint, ValueError> {
    let wrong = || ValueError::new("is not an endpoint", ENDPOINTS);
    if text.starts_with("builtin:") {
        let wrong = ValueError::new("is a built-in response, which has no weight", ENDPOINTS);
        return Err(wrong.hint(format!("write `endpoints = [\"{text}\"]`")));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        let is_authority = text.parse::<Authority>().is_ok()
            && !text.contains('@')
            && !text.bytes().all(|byte| byte.is_ascii_digit());
        let hint = is_authority.then(|| format!("did you mean `http://{text}`?"));
        return Err(wrong().maybe_hint(hint));
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(ValueError::new("contains a user name or a password", ENDPOINTS)
            .unquoted("this URL")
            .hint("leave out everything before `@`; credentials for the upstream come from the client"));
    }
    let Some(scheme) = SCHEMES.into_iter().find(|one| one.word() == scheme) else {
        let meant = match scheme {
            "grpc" => Some("h2c"),
            "grpcs" | "wss" => Some("https"),
            "ws" | "tcp" => Some("http"),
            _ => nearest(scheme, SCHEMES.map(Scheme::word)),
        };
        let hint = meant.map(|meant| format!("did you mean `{meant}://{rest}`?"));
        return Err(wrong().maybe_hint(hint));
    };
    if !matches!(path, "" | "/") {
        let scheme = scheme.word();
        return Err(ValueError::new("has a path", "scheme, host and port only")
            .hint(format!("did you mean `{scheme}://{authority}`?")));
    }
    origin(scheme, authority)
}

fn origin(scheme: Scheme, text: &str) -> Result<Endpoint, ValueError> {
    let wrong = || ValueError::new("is not an endpoint", ENDPOINTS);
    let authority: Authority = text.parse().map_err(|_| wrong())?;
    // `Authority` accepts a port that is not a number; then `port_u16` returns `None`.
    let after_host = &text[authority.host().len()..];
    let port = match (after_host, authority.port_u16()) {
        ("", _) => scheme.default_port(),
        (_, Some(port @ 1..)) => port,
        _ => return Err(wrong().hint("a port is a number from 1 to 65535")),
    };
    // `Authority` accepts anything in brackets, and escapes and sub-delimiters in names.
    let host = authority.host();
    if host.contains('*') || HostPattern::parse(host).is_err() {
        return Err(wrong());
    }
    let host: Box<str> = host.trim_matches(['[', ']']).into();
    if is_odd_address(&host) {
        return Err(wrong().hint("an address is written like `127.0.0.1` or `[::1]`"));
    }
    if scheme == Scheme::Https && ServerName::try_from(&*host).is_err() {
        return Err(wrong().hint("no certificate can be issued for this name"));
    }
    let authority = if port == scheme.default_port() {
        authority.host().parse().map_err(|_| wrong())?
    } else {
        authority
    };
    Ok(Endpoint {
        scheme,
        authority,
        host,
        port,
        weight: 1,
    })
}

/// Whether a host is not an address, but a resolver could take it for one: `127.1`, `0x7f.1`.
fn is_odd_address(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or("");
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .strip_prefix("0x")
            .is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_number && host.parse::<IpAddr>().is_err()
}

/// Parses the name that an origin's certificate is for: a name such as `api.internal`, or an address.
pub fn server_name(text: &str) -> Result<ServerName<'static>, ValueError> {
    let expected = "a name such as `api.internal`, or an address";
    ServerName::try_from(text.to_owned())
        .map_err(|_| ValueError::new("is not the name of a server", expected))
}

/// Parses the path of health checks, which may have a query.
pub fn health_path(text: &str) -> Result<PathAndQuery, ValueError> {
    let wrong = || ValueError::new("is not a path", "a path such as `/healthz`");
    if !text.starts_with('/') {
        let hint =
            "write only the path, beginning with a slash; scheme and host are the endpoint's";
        return Err(wrong().hint(hint));
    }
    if text.contains('#') || !text.is_ascii() {
        return Err(wrong());
    }
    text.parse().map_err(|_| wrong())
}

/// Parses the Host header of health checks: a name or an address, and perhaps a port.
pub fn health_host(text: &str) -> Result<HeaderValue, ValueError> {
    let wrong = || ValueError::new("is not a host", "a host such as `api.example.com`");
    let authority: Authority = text.parse().map_err(|_| wrong())?;
    let host = authority.host();
    let after_host = text.get(host.len()..).unwrap_or("@");
    let is_host = !text.contains('@') && !host.contains('*') && HostPattern::parse(host).is_ok();
    let is_port = after_host.is_empty() || authority.port_u16().is_some_and(|port| port > 0);
    let value = HeaderValue::from_str(text).ok();
    value.filter(|_| is_host && is_port).ok_or_else(wrong)
}

fn builtin(name: &str) -> Result<RawEndpoint, ValueError> {
    let expected =
        "`builtin:echo`, `builtin:status/204`, `builtin:redirect-https` or `builtin:usage`";
    if let Some(status) = name.strip_prefix("status/") {
        let status = status
            .parse()
            .ok()
            .and_then(|code: u16| StatusCode::from_u16(code).ok());
        return match status {
            Some(status) if (200..=599).contains(&status.as_u16()) => {
                Ok(RawEndpoint::Status(status))
            }
            _ => Err(ValueError::new(
                "has no valid status for a response",
                "a status from 200 to 599 such as `builtin:status/204`",
            )),
        };
    }
    match name {
        "echo" => Ok(RawEndpoint::Echo),
        "redirect-https" => Ok(RawEndpoint::RedirectHttps),
        "usage" => Ok(RawEndpoint::Usage),
        other => {
            let meant = nearest(other, ["echo", "redirect-https", "usage"]);
            let meant = meant.map(|meant| format!("did you mean `builtin:{meant}`?"));
            Err(ValueError::new("is not built in", expected).maybe_hint(meant))
        }
    }
}

const SCHEMES: [Scheme; 3] = [Scheme::Http, Scheme::Https, Scheme::H2c];
const ENDPOINTS: &str = "a URL such as `http://127.0.0.1:9000`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_host_and_port() {
        use Scheme::{H2c, Http, Https};
        for (text, scheme, authority, host, port) in [
            (
                "http://127.0.0.1:9000",
                Http,
                "127.0.0.1:9000",
                "127.0.0.1",
                9000,
            ),
            (
                "http://api.internal",
                Http,
                "api.internal",
                "api.internal",
                80,
            ),
            (
                "http://api.internal:80/",
                Http,
                "api.internal",
                "api.internal",
                80,
            ),
            ("http://[::1]:81", Http, "[::1]:81", "::1", 81),
            ("http://[::1]", Http, "[::1]", "::1", 80),
            (
                "https://api.internal",
                Https,
                "api.internal",
                "api.internal",
                443,
            ),
            ("https://[::1]:443", Https, "[::1]", "::1", 443),
            ("https://a:80", Https, "a:80", "a", 80),
            ("h2c://a:80", H2c, "a", "a", 80),
            ("h2c://a:443", H2c, "a:443", "a", 443),
        ] {
            let expected = RawEndpoint::Http(Endpoint {
                scheme,
                authority: authority.parse().expect("an authority"),
                host: host.into(),
                port,
                weight: 1,
            });
            assert_eq!(endpoint(text), Ok(expected), "{text}");
        }
        assert_eq!(endpoint("builtin:echo"), Ok(RawEndpoint::Echo));
        assert_eq!(
            endpoint("builtin:status/204"),
            Ok(RawEndpoint::Status(StatusCode::NO_CONTENT))
        );
        assert_eq!(
            endpoint("builtin:redirect-https"),
            Ok(RawEndpoint::RedirectHttps)
        );
        assert_eq!(endpoint("builtin:usage"), Ok(RawEndpoint::Usage));
    }

    #[test]
    fn a_check_asks_for_a_path_of_a_host() {
        for (path, is_one) in [
            ("/healthz", true),
            ("/", true),
            ("/health?full=1", true),
            ("healthz", false),
            ("", false),
            ("*", false),
            ("/a b", false),
            ("/a#b", false),
            ("/é", false),
            ("http://api/healthz", false),
        ] {
            assert_eq!(health_path(path).is_ok(), is_one, "{path}");
        }
        for (host, is_one) in [
            ("api.example.com", true),
            ("api.example.com:8080", true),
            ("[::1]:80", true),
            ("10.0.0.1", true),
            ("", false),
            ("api:", false),
            ("api:0", false),
            ("api:99999", false),
            ("me@api", false),
            ("*.example.com", false),
            ("http://api", false),
            ("a, b", false),
        ] {
            assert_eq!(health_host(host).is_ok(), is_one, "{host}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address_in_its_usual_spelling() {
        for host in ["127.1", "0x7f.1", "2130706433", "127.0.0.256", "a.1"] {
            let wrong = endpoint(&format!("http://{host}:9000")).expect_err(host);
            assert_eq!(wrong.problem, "is not an endpoint", "{host}");
        }
        for host in ["a1", "1.a", "127.0.0.1", "[::1]", "a."] {
            assert!(endpoint(&format!("http://{host}:9000")).is_ok(), "{host}");
        }
    }

    #[test]
    fn an_endpoint_says_how_to_mend_it() {
        for (text, problem, hint) in [
            (
                "api:9000",
                "is not an endpoint",
                Some("did you mean `http://api:9000`?"),
            ),
            (
                "htp://api:9000",
                "is not an endpoint",
                Some("did you mean `http://api:9000`?"),
            ),
            (
                "http://api:9000/v1",
                "has a path",
                Some("did you mean `http://api:9000`?"),
            ),
            (
                "http://api:0",
                "is not an endpoint",
                Some("a port is a number from 1 to 65535"),
            ),
            (
                "http://api:99999",
                "is not an endpoint",
                Some("a port is a number from 1 to 65535"),
            ),
            (
                "http://api:",
                "is not an endpoint",
                Some("a port is a number from 1 to 65535"),
            ),
            ("http://[1.2.3.4]:81", "is not an endpoint", None),
            ("http://[api]", "is not an endpoint", None),
            ("http://a..b", "is not an endpoint", None),
            ("http://a,b:81", "is not an endpoint", None),
            (
                "htps://api",
                "is not an endpoint",
                Some("did you mean `https://api`?"),
            ),
            (
                "https://api/v1",
                "has a path",
                Some("did you mean `https://api`?"),
            ),
            (
                "https://a~b",
                "is not an endpoint",
                Some("no certificate can be issued for this name"),
            ),
            (
                "builtin:status/99",
                "has no valid status for a response",
                None,
            ),
            ("builtin:redirect", "is not built in", None),
        ] {
            let wrong = endpoint(text).expect_err(text);
            assert_eq!(
                (wrong.problem, wrong.hint.as_deref()),
                (problem, hint),
                "{text}"
            );
        }
    }

    #[test]
    fn credentials_are_not_repeated() {
        let wrong = endpoint("http://me:hunter2@api").expect_err("credentials");
        assert!(wrong.subject.is_some() && !format!("{wrong:?}").contains("hunter2"));
    }
}
