//! The parts of a partition, and how other proxies write them.

use http::HeaderName;
use http::header::HOST;

use super::request::{header_after_prefix, header_name};
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

/// JSON Schema pattern that every item of `partition` matches.
pub fn part_pattern() -> String {
    let part =
        r"(ip|client-cert|host|method|route|path|(header|cookie|query|jwt|path)\s*:\s*[^\s|][^|]*)";
    format!(r"^\s*{part}\s*(\|\s*{part}\s*)*$")
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
            // Only `host` takes different spellings of a host for the same.
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
    if let Some(meant) = part_elsewhere(text) {
        return Some(format!("did you mean `{meant}`?"));
    }
    match text {
        "" => return Some("one `|` stands between two parts".to_owned()),
        "*" | "all" | "global" | "none" => {
            return Some("one quota for all clients together is `partition = []`".to_owned());
        }
        _ if text.starts_with("ip/") => {
            let hint = "how much of an address is one client is the listener's: `ipv6_prefix`";
            return Some(hint.to_owned());
        }
        _ => {}
    }
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
            None if is_param(text) => {
                return Some(format!(
                    "say where it comes from: `header:{text}`, `cookie:{text}` or `query:{text}`"
                ));
            }
            None => return None,
        },
    };
    Some(format!("did you mean `{meant}`?"))
}

/// Returns the part that a text means to nginx, HAProxy, Envoy, Caddy, Express or others.
fn part_elsewhere(text: &str) -> Option<String> {
    let name = text.trim_matches(['$', '%', '{', '}', ' ']).to_lowercase();
    let mut words = ELSEWHERE.iter();
    if let Some((part, _)) = words.find(|(_, others)| others.split(' ').any(|one| one == name)) {
        return Some((*part).to_owned());
    }
    let is_variable = text.starts_with('$');
    let mut prefixes = PREFIXES_ELSEWHERE
        .iter()
        .flat_map(|(kind, prefixes)| prefixes.split(' ').map(move |prefix| (*kind, prefix)));
    prefixes.find_map(|(kind, prefix)| {
        let rest = name.strip_prefix(prefix)?;
        let is_named = if prefix.ends_with('_') {
            is_variable
        } else {
            rest.starts_with(['[', '(', '.', ' ', '='])
        };
        let mut bare = rest
            .trim_matches(|c: char| "[](). ='\"".contains(c))
            .to_owned();
        if is_variable && kind == "header" {
            bare = bare.replace('_', "-");
        }
        let is_name = HeaderName::from_bytes(bare.as_bytes()).is_ok();
        (is_named && is_name).then(|| format!("{kind}:{bare}"))
    })
}

/// Parts, and the names that other products have for them.
const ELSEWHERE: [(&str, &str); 4] = [
    (
        "ip",
        "remote_addr binary_remote_addr realip_remote_addr remote_address remote_host client_ip src req.ip \
         http.request.remote.host ipstrategy",
    ),
    ("host", "http.request.host hostname requesthost server_name"),
    ("path", "uri request_uri req.path url http.request.uri.path"),
    ("method", "request_method req.method"),
];

/// Kinds of parts that have names, and the prefixes of these names in other products.
const PREFIXES_ELSEWHERE: [(&str, &str); 3] = [
    (
        "header",
        "http_ req.headers request.headers headers hdr req.hdr header http.request.header",
    ),
    (
        "cookie",
        "cookie_ req.cookies cookies cookie http.request.cookie",
    ),
    (
        "query",
        "arg_ req.query query url_param http.request.uri.query",
    ),
];

/// Checks a cookie's name, which is a token (RFC 6265, section 4.1.1).
fn cookie(name: &str) -> Result<Box<str>, ValueError> {
    let is_token = HeaderName::from_bytes(name.as_bytes()).is_ok();
    is_token.then(|| name.into()).ok_or_else(|| {
        ValueError::new(
            "names no cookie",
            "a cookie's name such as `session` after `cookie:`",
        )
    })
}

/// Checks the name of a query's parameter, which is written without percent-encoding.
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

/// Checks a claim's name, which the log shows as it is.
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
            assert_eq!(part_choice(text), Ok(Choice(parts.into())), "{text}");
        }
    }

    #[test]
    fn a_part_says_how_to_mend_it() {
        for (text, problem, hint) in [
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
            ("cokie:a", NO_PART, Some("did you mean `cookie:a`?")),
            ("hedaer:a", NO_PART, Some("did you mean `header:a`?")),
            ("client_cert", NO_PART, Some("did you mean `client-cert`?")),
            ("ip:x", NO_PART, Some("`ip` takes no name")),
            ("client", NO_PART, Some("did you mean `ip`?")),
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

    #[test]
    fn a_part_of_another_proxy_says_what_to_write() {
        for (text, meant) in [
            ("$arg_key", "query:key"),
            ("$cookie_session", "cookie:session"),
            ("$request_method", "method"),
        ] {
            let hint = part_choice(text).expect_err(text).hint;
            assert_eq!(hint, Some(format!("did you mean `{meant}`?")), "{text}");
        }
    }

    const NO_PART: &str = "does not name a client";
}
