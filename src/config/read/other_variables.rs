//! Recognises variables as shells, templates and other proxies write them, which are plain text here.

/// Whether a string contains what looks like a variable of the environment but is not written `${NAME}`. A secret must
/// look like one as a whole, because any characters may be part of it.
pub(super) fn has_one(text: &str, is_secret: bool) -> bool {
    if text.contains("${") {
        return false;
    }
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        name.len() > 1 && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(is_part)
    };
    let between =
        |open: &str, close: &str| Some(text.strip_prefix(open)?.strip_suffix(close)?.trim());
    let is_whole = between("$", "").is_some_and(is_name)
        || between("%", "%").is_some_and(is_name)
        || between("{$", "}").is_some_and(is_name)
        || between("{env.", "}").is_some_and(is_name)
        || between("$env:", "").is_some_and(is_name)
        || between("env:", "").is_some_and(is_name)
        || between("env(", ")").is_some_and(|name| is_name(name.trim_matches(['"', '\''])))
        || between("$(", ")").is_some()
        || between("{{", "}}").is_some();
    let has_part = || {
        let mut marks = text.match_indices('$');
        marks.any(|(at, _)| {
            let name = &text[at + 1..];
            let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            is_name(&name[..name.find(|c| !is_part(c)).unwrap_or(name.len())])
        })
    };
    is_whole || (!is_secret && has_part())
}

/// Hint that says how variables are written.
pub(super) const HINT: &str = "a variable of the environment is written `${NAME}`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_of_another_language_is_seen() {
        for (text, in_text, in_secret) in [
            ("$REDIS_PASSWORD", true, true),
            ("%REDIS_PASSWORD%", true, true),
            ("{$PASSWORD}", true, true),
            ("{env.PASSWORD}", true, true),
            ("{{ .Values.password }}", true, true),
            ("$(cat /run/secret)", true, true),
            ("redis://$HOST:6379", true, false),
            ("pa$$WORD", true, false),
            ("${PASSWORD}", false, false),
            ("$1", false, false),
            ("$metadata", false, false),
            ("a$b", false, false),
            ("100%", false, false),
            ("env:", false, false),
        ] {
            assert_eq!(
                [false, true].map(|is_secret| has_one(text, is_secret)),
                [in_text, in_secret],
                "{text}"
            );
        }
    }
}
