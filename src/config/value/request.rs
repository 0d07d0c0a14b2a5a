//! Methods, protocols and headers of requests, as the file names them.

use http::header::HOST;
use http::{HeaderName, Method};

use super::ValueError;
use crate::request::route::HeaderMatch;

/// Parses a method; methods are case-sensitive (RFC 9110, section 9.1).
pub fn method(text: &str) -> Result<Method, ValueError> {
    let wrong = || ValueError::new("is not a method", "a method such as `GET` or `POST`");
    if ["*", "all", "any"]
        .iter()
        .any(|all| all.eq_ignore_ascii_case(text))
    {
        return Err(wrong().hint("leave `methods` out: a route without it takes every method"));
    }
    let names: Vec<String> = (text.split([',', ' ', '|', '/']))
        .filter(|name| !name.is_empty())
        .map(str::to_ascii_uppercase)
        .collect();
    if names.len() > 1 && names.iter().all(|name| KNOWN.contains(&name.as_str())) {
        let hint = format!(
            "each is an item of its own: `[\"{}\"]`",
            names.join("\", \"")
        );
        return Err(wrong().hint(hint));
    }
    let method = Method::from_bytes(text.as_bytes()).map_err(|_| wrong())?;
    let upper = text.to_ascii_uppercase();
    if upper != text && KNOWN.contains(&upper.as_str()) {
        return Err(wrong().hint(format!("methods are case-sensitive: `{upper}`")));
    }
    Ok(method)
}

/// Parses a protocol that a connection may be upgraded to: its name, or its name and version; case does
/// not matter.
pub fn upgrade(text: &str) -> Result<Box<str>, ValueError> {
    let expected = "a protocol such as `websocket` or `SPDY/3.1`";
    let protocol = text.to_ascii_lowercase();
    let hint = match &*protocol {
        "*" | "all" | "any" => {
            Some("name each protocol: only those that are named are let through")
        }
        "ws" | "wss" | "websockets" | "web-socket" => Some("did you mean `websocket`?"),
        _ => None,
    };
    if let Some(hint) = hint {
        return Err(ValueError::new("names no protocol", expected).hint(hint));
    }
    let mut tokens = protocol.splitn(2, '/');
    if matches!(tokens.next(), Some("h2c" | "http" | "tls")) {
        let wrong = ValueError::new("cannot be upgraded to", expected);
        return Err(wrong.hint("HTTP/2 and TLS are the listener's: `http2`, `tls`"));
    }
    // A header's name is a token too.
    let is_token = |token: &str| HeaderName::from_bytes(token.as_bytes()).is_ok();
    if !protocol.splitn(2, '/').all(is_token) {
        return Err(ValueError::new("is not a protocol", expected));
    }
    Ok(protocol.into())
}

/// JSON Schema pattern that every method and every header's name matches.
pub const TOKEN_PATTERN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

/// Parses a header's name.
pub fn header_name(text: &str) -> Result<HeaderName, ValueError> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| {
        let wrong = ValueError::new(
            "is not a header's name",
            "a header's name such as `x-api-key`",
        );
        let joined = text.trim().trim_end_matches(':').replace(' ', "-");
        let hint = HeaderName::from_bytes(joined.as_bytes()).ok();
        wrong.maybe_hint(hint.map(|name| format!("did you mean `{name}`?")))
    })
}

/// Parses the name of a header that a route matches on.
pub fn routed_header_name(text: &str) -> Result<HeaderName, ValueError> {
    match header_name(text)? {
        HOST => {
            let expected = "a header's name other than `host`";
            let wrong = ValueError::new("is not compared as a header", expected);
            Err(wrong.hint("did you mean the route's `host`?"))
        }
        name => Ok(name),
    }
}

/// Parses the name in `header:NAME`.
pub fn header_after_prefix(name: &str) -> Result<HeaderName, ValueError> {
    header_name(name).map_err(|wrong| {
        let meant = wrong.hint.map(|hint| hint.replacen('`', "`header:", 1));
        ValueError::new("names no header", "a header's name after `header:`").maybe_hint(meant)
    })
}

/// Parses what a route requires of a header's value, which may be a secret.
pub fn header_value(text: &str) -> Result<HeaderMatch, ValueError> {
    HeaderMatch::parse(text).map_err(|error| {
        if error.span.start == 0 {
            let never = ValueError::new("can never be a header's value", error.expected);
            return never.unquoted("this value");
        }
        let wrong = ValueError::new("is not `re:` and a regular expression", error.expected);
        let at = text.get(error.span).filter(|at| !at.is_empty());
        wrong.hint(match at {
            Some(at) => format!("{}: `{at}`", error.message),
            None => error.message,
        })
    })
}

/// The methods of HTTP itself (RFC 9110, section 9), and PATCH.
const KNOWN: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_case_sensitive() {
        assert_eq!(
            method("PURGE").map(|m| m.to_string()),
            Ok("PURGE".to_owned())
        );
        for text in ["*", "ALL", "any"] {
            let hint = method(text).expect_err(text).hint;
            let leave_out = "leave `methods` out: a route without it takes every method";
            assert_eq!(hint.as_deref(), Some(leave_out), "{text}");
        }
        for text in ["GET,POST", "GET POST", "get|post"] {
            let hint = method(text).expect_err(text).hint;
            let apart = "each is an item of its own: `[\"GET\", \"POST\"]`";
            assert_eq!(hint.as_deref(), Some(apart), "{text}");
        }
        let hint = method("get").expect_err("lower case").hint;
        assert_eq!(hint.as_deref(), Some("methods are case-sensitive: `GET`"));
        assert!(method("G T").is_err());
    }

    #[test]
    fn a_header_value_is_one_that_can_arrive() {
        assert_eq!(header_value("*"), Ok(HeaderMatch::Any));
        assert_eq!(header_value("a b"), Ok(HeaderMatch::Value("a b".into())));
        assert!(header_value(" a").is_err() && header_value("a\n").is_err());
    }
}
