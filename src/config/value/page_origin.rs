//! Origins of pages, as browsers write them in `Origin`.

use http::HeaderValue;
use http::uri::Authority;

use super::ValueError;

/// Parses an origin such as `https://app.example.com`, or `*`.
pub fn page_origin(text: &str) -> Result<HeaderValue, ValueError> {
    let wrong = || ValueError::new("is not an origin", ORIGINS);
    if text == "*" {
        return Ok(HeaderValue::from_static("*"));
    }
    if text.contains('*') {
        let hint = "write each origin in full; `*` alone means every origin";
        return Err(wrong().hint(hint));
    }
    if text == "null" {
        let hint = "pages without an origin, such as files and sandboxed frames, all say `null`";
        return Err(wrong().hint(hint));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        let is_host = text.parse::<Authority>().is_ok() && text.contains('.');
        let hint = is_host.then(|| format!("did you mean `https://{text}`?"));
        return Err(wrong().maybe_hint(hint));
    };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let is_host = authority.parse::<Authority>().is_ok() && !authority.contains('@');
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if scheme.is_empty() || !scheme.bytes().all(is_scheme) || !is_host {
        return Err(wrong());
    }
    let (scheme, mut host) = (scheme.to_ascii_lowercase(), authority.to_ascii_lowercase());
    let default_port = match &*scheme {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    host.truncate(host.len() - default_port.len() * usize::from(host.ends_with(default_port)));
    let as_sent = format!("{scheme}://{host}");
    if as_sent != text {
        let wrong = ValueError::new("is not an origin as browsers write it", ORIGINS);
        return Err(wrong.hint(format!("did you mean `{as_sent}`?")));
    }
    HeaderValue::from_str(text).map_err(|_| wrong())
}

const ORIGINS: &str = "an origin such as `https://app.example.com`, or `*`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_browsers_send() {
        for text in [
            "*",
            "https://app.example.com",
            "http://localhost:5173",
            "https://app.example.com:8443",
            "http://[::1]:3000",
            "capacitor://localhost",
            "https://xn--bcher-kva.example",
        ] {
            assert_eq!(page_origin(text).expect(text), text);
        }
        let meant = |text: &str| format!("did you mean `{text}`?");
        for (text, hint) in [
            (
                "https://app.example.com/a?b",
                Some(meant("https://app.example.com")),
            ),
            (
                "HTTPS://App.Example.com",
                Some(meant("https://app.example.com")),
            ),
            ("http://localhost:80", Some(meant("http://localhost"))),
            ("localhost", None),
            ("", None),
            ("https://", None),
            ("https://user@example.com", None),
            ("https://bücher.example", None),
        ] {
            let wrong = page_origin(text).expect_err(text);
            assert_eq!(wrong.hint, hint, "{text}");
        }
        for text in ["https://*.example.com", "null", "http://*"] {
            assert!(page_origin(text).expect_err(text).hint.is_some(), "{text}");
        }
    }
}
