//! What of a request the file names: parts of a partition, methods, headers.

use http::header::HOST;
use http::{HeaderName, HeaderValue, Method};

use super::{ValueError, nearest};
use crate::request::{Choice, Part};

/// Parses one item of `partition`: a part, or several of which the first that is present counts.
pub fn part_choice(text: &str) -> Result<Choice, ValueError> {
    let parts: Result<_, _> = text
        .split('|')
        .map(|part| self::part(part.trim()))
        .collect();
    parts.map(Choice)
}

fn part(text: &str) -> Result<Part, ValueError> {
    let wrong = || ValueError::new("does not name a client", PARTS);
    let (kind, name) = match text.split_once(':') {
        Some((kind, name)) => (kind.trim(), Some(name.trim())),
        None => (text, None),
    };
    match (kind, name) {
        ("ip", None) => Ok(Part::Ip),
        ("client-cert", None) => Ok(Part::ClientCert),
        ("host", None) => Ok(Part::Host),
        ("method", None) => Ok(Part::Method),
        ("route", None) => Ok(Part::Route),
        ("path", None) => Ok(Part::Path),
        ("header", Some(name)) => match header_after_prefix(name)? {
            // Its spellings are one in `host` alone.
            HOST => Err(wrong().hint("did you mean `host`?")),
            name => Ok(Part::Header(name)),
        },
        ("cookie", Some(name)) => cookie(name).map(Part::Cookie),
        ("query", Some(name)) => parameter(name).map(Part::Query),
        ("jwt", Some(name)) if !name.is_empty() => claim(name).map(Part::Claim),
        ("path", Some(name)) if is_param(name) => Ok(Part::PathParam(name.into())),
        ("path", Some(name)) => Err(wrong().maybe_hint(
            is_param(name.trim_matches(['{', '}']))
                .then(|| format!("did you mean `path:{}`?", name.trim_matches(['{', '}']))),
        )),
        ("header" | "cookie" | "query", None) | ("jwt", None | Some("")) => {
            Err(wrong().hint(format!("`{kind}` needs a name: `{kind}:NAME`")))
        }
        ("ip" | "client-cert" | "host" | "method" | "route", Some(_)) => {
            Err(wrong().hint(format!("`{kind}` takes no name")))
        }
        _ => Err(wrong().maybe_hint(part_hint(text, kind, name))),
    }
}

fn part_hint(text: &str, kind: &str, name: Option<&str>) -> Option<String> {
    let plain = ["ip", "client-cert", "host", "method", "route", "path"];
    let meant = match name {
        Some(name) => format!(
            "{}:{name}",
            nearest(kind, ["header", "cookie", "query", "jwt", "path"])?
        ),
        None => match nearest(text, plain) {
            Some(plain) => plain.to_owned(),
            None if nearest(text, ["client", "address", "client-ip", "remote-addr"]).is_some() => {
                "ip".to_owned()
            }
            None if text.contains('-') && header_name(text).is_ok() => format!("header:{text}"),
            None => return None,
        },
    };
    Some(format!("did you mean `{meant}`?"))
}

/// A cookie's name is a token (RFC 6265, section 4.1.1).
fn cookie(name: &str) -> Result<Box<str>, ValueError> {
    let is_token = HeaderName::from_bytes(name.as_bytes()).is_ok();
    is_token.then(|| name.into()).ok_or_else(|| {
        ValueError::new(
            "names no cookie",
            "a cookie's name such as `session` after `cookie:`",
        )
    })
}

/// A parameter's name as it is once it is percent-decoded.
fn parameter(name: &str) -> Result<Box<str>, ValueError> {
    let is_part = |c: char| c.is_ascii_graphic() && !"&=;%#".contains(c);
    if !name.is_empty() && name.chars().all(is_part) {
        return Ok(name.into());
    }
    let wrong = ValueError::new(
        "names no parameter of a query",
        "a parameter's name such as `key` after `query:`",
    );
    let is_encoded = name.contains('%');
    Err(wrong.maybe_hint(is_encoded.then(|| "write it without percent-encoding".to_owned())))
}

/// A claim's name, which the log shows as it is.
fn claim(name: &str) -> Result<Box<str>, ValueError> {
    let is_shown = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let wrong = || {
        let expected = "a claim's name such as `sub` after `jwt:`, in ASCII";
        ValueError::new("names no claim", expected)
    };
    name.bytes()
        .all(is_shown)
        .then(|| name.into())
        .ok_or_else(wrong)
}

fn is_param(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    !name.is_empty() && name.bytes().all(is_part)
}

/// Parses a method; methods are case-sensitive (RFC 9110, section 9.1).
pub fn method(text: &str) -> Result<Method, ValueError> {
    let wrong = || ValueError::new("is not a method", "a method such as `GET` or `POST`");
    let method = Method::from_bytes(text.as_bytes()).map_err(|_| wrong())?;
    let upper = text.to_ascii_uppercase();
    let known = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT",
    ];
    if upper != text && known.contains(&upper.as_str()) {
        return Err(wrong().hint(format!("methods are case-sensitive: `{upper}`")));
    }
    Ok(method)
}

/// Parses a protocol that a connection may be upgraded to: its name, or its name and version; case does
/// not matter.
pub fn upgrade(text: &str) -> Result<Box<str>, ValueError> {
    let expected = "a protocol such as `websocket` or `SPDY/3.1`";
    let protocol = text.to_ascii_lowercase();
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

/// Parses the name of a header that a route asks for.
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

/// Parses what a route wants of a header; none is `*`, any value.
pub fn header_value(text: &str) -> Result<Option<String>, ValueError> {
    if text == "*" {
        return Ok(None);
    }
    match HeaderValue::from_str(text) {
        Ok(_) if text.trim() == text => Ok(Some(text.to_owned())),
        _ => Err(ValueError::new(
            "can never be a header's value",
            "a value without control characters or spaces around it, or `*` for any",
        )),
    }
}

const PARTS: &str = "`ip`, `header:NAME`, `cookie:NAME`, `query:NAME`, `jwt:CLAIM`, `client-cert`, \
                     `host`, `method`, `route`, `path` or `path:PARAM`, or several with `|` between them";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_name_a_client() {
        let header = || Part::Header(HeaderName::from_static("x-api-key"));
        for (text, parts) in [
            ("ip", vec![Part::Ip]),
            ("header:X-Api-Key | ip", vec![header(), Part::Ip]),
            (
                "path:id|path",
                vec![Part::PathParam("id".into()), Part::Path],
            ),
            ("cookie:Session", vec![Part::Cookie("Session".into())]),
            ("query:user[id]", vec![Part::Query("user[id]".into())]),
            (
                "jwt:https://a.example/app.plan",
                vec![Part::Claim("https://a.example/app.plan".into())],
            ),
            ("client-cert", vec![Part::ClientCert]),
            ("host", vec![Part::Host]),
            ("method", vec![Part::Method]),
            ("route", vec![Part::Route]),
        ] {
            assert_eq!(part_choice(text), Ok(Choice(parts)), "{text}");
        }
    }

    #[test]
    fn a_part_says_how_to_mend_it() {
        for (text, problem, hint) in [
            ("jwt:", NO_PART, Some("`jwt` needs a name: `jwt:NAME`")),
            (
                "header",
                NO_PART,
                Some("`header` needs a name: `header:NAME`"),
            ),
            (
                "cookie",
                NO_PART,
                Some("`cookie` needs a name: `cookie:NAME`"),
            ),
            ("cookie:a b", "names no cookie", None),
            ("query:é", "names no parameter of a query", None),
            ("jwt:é", "names no claim", None),
            (
                "query:a%5B",
                "names no parameter of a query",
                Some("write it without percent-encoding"),
            ),
            ("cokie:a", NO_PART, Some("did you mean `cookie:a`?")),
            ("hedaer:a", NO_PART, Some("did you mean `header:a`?")),
            (
                "x-api-key",
                NO_PART,
                Some("did you mean `header:x-api-key`?"),
            ),
            ("path:{id}", NO_PART, Some("did you mean `path:id`?")),
            ("client_cert", NO_PART, Some("did you mean `client-cert`?")),
            ("header:Host", NO_PART, Some("did you mean `host`?")),
            ("ip:x", NO_PART, Some("`ip` takes no name")),
            ("client", NO_PART, Some("did you mean `ip`?")),
            ("ip |", NO_PART, None),
            (
                "header:x api",
                "names no header",
                Some("did you mean `header:x-api`?"),
            ),
        ] {
            let wrong = part_choice(text).expect_err(text);
            assert_eq!(
                (wrong.problem, wrong.hint.as_deref()),
                (problem, hint),
                "{text}"
            );
        }
    }

    const NO_PART: &str = "does not name a client";

    #[test]
    fn methods_are_case_sensitive() {
        assert_eq!(
            method("PURGE").map(|m| m.to_string()),
            Ok("PURGE".to_owned())
        );
        let hint = method("get").expect_err("lower case").hint;
        assert_eq!(hint.as_deref(), Some("methods are case-sensitive: `GET`"));
        assert!(method("G T").is_err());
    }

    #[test]
    fn a_header_value_is_one_that_can_arrive() {
        assert_eq!(header_value("*"), Ok(None));
        assert_eq!(header_value("a b"), Ok(Some("a b".to_owned())));
        assert!(header_value(" a").is_err() && header_value("a\n").is_err());
    }
}
