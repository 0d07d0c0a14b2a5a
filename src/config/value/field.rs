//! Fields that the file sets, removes or names.

use http::{HeaderName, HeaderValue};

use super::{ValueError, header_name};

/// Parses the name of a field that a route may change in answers, which must not say where the answer ends
/// or belong to the connection.
pub fn answer_field(text: &str) -> Result<HeaderName, ValueError> {
    let name = one_name(text)?;
    let belongs_to_message = [
        "connection",
        "content-length",
        "date",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    if belongs_to_message.contains(&name.as_str()) {
        let expected = "a field other than those that HTTP itself sets";
        return Err(ValueError::new("cannot be changed", expected));
    }
    Ok(name)
}

/// Parses the name of a field that a route may change in requests, which must not say where the request ends,
/// belong to the connection, or be the gateway's own.
pub fn request_field(text: &str) -> Result<HeaderName, ValueError> {
    let name = one_name(text)?;
    // Some origins read `_` as `-`.
    let read = name.as_str().replace('_', "-");
    let hint = match &*read {
        "connection" | "content-length" | "http2-settings" | "keep-alive" | "proxy-connection"
        | "te" | "trailer" | "transfer-encoding" => {
            "the gateway sets it for each connection to an origin"
        }
        "upgrade" => "`upgrades` says what a connection may be upgraded to",
        "host" => "`preserve_host = false` sends the endpoint's own host",
        "expect" => "the gateway handles it itself",
        "cdn-loop" => "the gateway uses it to detect loops",
        _ if read.starts_with("tollgate-") => {
            "only the gateway sets fields that begin with `tollgate-`"
        }
        _ => return Ok(name),
    };
    Err(ValueError::new("cannot be changed in requests", ONE_FIELD).hint(hint))
}

/// Parses the name of one field; refuses `*`, which HTTP allows in names but which is meant as a wildcard.
fn one_name(text: &str) -> Result<HeaderName, ValueError> {
    if text.contains('*') {
        let wrong = ValueError::new("is not the name of one field", ONE_FIELD);
        return Err(wrong.hint("wildcards do not work here: name each field"));
    }
    header_name(text)
}

/// Parses the name of a field of the operator's own, which must not have another meaning.
pub fn own_field(text: &str) -> Result<HeaderName, ValueError> {
    let name = answer_field(text)?;
    let means_more = [
        "authorization",
        "cdn-loop",
        "client-cert",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "location",
        "retry-after",
        "set-cookie",
        "traceparent",
    ];
    let prefixes = [
        "content-",
        "ratelimit",
        "tollgate-",
        "x-forwarded-",
        "x-ratelimit-",
    ];
    let is_one = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if means_more.contains(&name.as_str()) || is_one(name.as_str()) {
        let expected = "a field of your own such as `x-request-id`";
        return Err(ValueError::new("means something else", expected));
    }
    Ok(name)
}

/// Parses a field's value, which may be a secret.
pub fn field_value(text: &str) -> Result<HeaderValue, ValueError> {
    let value = HeaderValue::from_str(text)
        .ok()
        .filter(|_| text.trim() == text);
    value.ok_or_else(|| {
        ValueError::new(
            "cannot be a field's value",
            "a value without control characters or spaces around it",
        )
        .unquoted("this value")
    })
}

const ONE_FIELD: &str = "a field such as `x-api-version`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_requests_are_the_operators_but_for_those_of_http_and_the_gateway() {
        for (name, is_free) in [
            ("X-Api-Version", true),
            ("authorization", true),
            ("accept-encoding", true),
            ("x-forwarded-proto", true),
            ("cookie", true),
            ("hosts", true),
            ("Host", false),
            ("connection", false),
            ("keep-alive", false),
            ("proxy-connection", false),
            ("te", false),
            ("trailer", false),
            ("upgrade", false),
            ("http2-settings", false),
            ("transfer-encoding", false),
            ("Transfer_Encoding", false),
            ("content-length", false),
            ("content_length", false),
            ("expect", false),
            ("cdn-loop", false),
            ("Tollgate-Over", false),
            ("tollgate_tier", false),
            ("a b", false),
            ("x-internal-*", false),
            ("*", false),
        ] {
            assert_eq!(request_field(name).is_ok(), is_free, "{name}");
        }
    }
}
