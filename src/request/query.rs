//! A parameter of the query that names the client.
//!
//! Parameters are separated by `&`; names and values are percent-decoded once, and `+` is a plus. A
//! request is [`Ambiguous`] if origins could read it differently: it has the parameter twice, a
//! spelling that some take for its name ([`parameter`](super::parameter)), or `;`, at which some
//! origins split, before such a name or in the parameter's own value.

use std::borrow::Cow;

use super::parameter::{Ambiguous, Spelling, pair, spelling, value};

/// Returns the value of the parameter `name`, which may be empty; none if it is not there.
///
/// # Errors
/// If origins could read another value.
pub fn query_value<'q>(query: &'q str, name: &str) -> Result<Option<Cow<'q, [u8]>>, Ambiguous> {
    let mut found = None;
    for parameter in query.as_bytes().split(|byte| *byte == b'&') {
        if parameter.len() < name.len() {
            // It is too short to have the name. A hostile query can have thousands of these, so they are skipped early.
            continue;
        }
        if memchr::memchr(b';', parameter).is_some() {
            let mut pieces = parameter.split(|byte| *byte == b';');
            if pieces.any(|piece| spelling(pair(piece).0, name) != Spelling::Other) {
                return Err(Ambiguous);
            }
            continue;
        }
        let (written_name, written) = pair(parameter);
        match spelling(written_name, name) {
            Spelling::Other => {}
            Spelling::Same if found.is_none() => found = Some(value(written)?),
            Spelling::Same | Spelling::Alike => return Err(Ambiguous),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_has_one_value_or_none_or_is_ambiguous() {
        for (query, expected) in [
            ("", Ok(None)),
            ("a=1", Ok(None)),
            ("key=1", Ok(Some("1"))),
            ("a=1&key=2&b=3", Ok(Some("2"))),
            ("key", Ok(Some(""))),
            ("key=", Ok(Some(""))),
            ("key=a=b", Ok(Some("a=b"))),
            ("k%65y=%61+b", Ok(Some("a+b"))),
            ("key=a%26key=b", Ok(Some("a&key=b"))),
            ("key=a%3Bkey=b", Ok(Some("a;key=b"))),
            ("x=1?key=2", Ok(None)),
            ("Key=1", Ok(None)),
            ("=key&&=", Ok(None)),
            ("x=1;y=2", Ok(None)),
            ("x=a%3Bkey=2", Ok(None)),
            ("key=1&key=1", Err(Ambiguous)),
            ("key=1&key=2", Err(Ambiguous)),
            ("key&key=2", Err(Ambiguous)),
            ("key=1&k%65y=2", Err(Ambiguous)),
            ("a=1;key=2", Err(Ambiguous)),
            ("a=1;key", Err(Ambiguous)),
            ("a;k%65y=2", Err(Ambiguous)),
            (";key=2", Err(Ambiguous)),
            ("key=1;x", Err(Ambiguous)),
            ("key=1;", Err(Ambiguous)),
            ("key;x=1", Err(Ambiguous)),
            ("key[]=1", Err(Ambiguous)),
            ("key%5Ba%5D=1", Err(Ambiguous)),
            ("key%3D1", Err(Ambiguous)),
            ("%20key=1", Err(Ambiguous)),
            ("+key=1&key=2", Err(Ambiguous)),
            ("key%00=1", Err(Ambiguous)),
            ("key=a%00b", Err(Ambiguous)),
        ] {
            let expected = expected.map(|text| text.map(|text| Cow::Borrowed(text.as_bytes())));
            assert_eq!(query_value(query, "key"), expected, "{query}");
        }
    }
}
