//! `[jwt]`.

use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::time::Duration;

use super::TableSpec;
use super::files::key_file;
use super::kind::{duration, list, list_or_one, text, word};
use crate::config::display;
use crate::config::file::RawJwt;
use crate::config::value::{TOKEN_PATTERN, ValueError, header_name};
use crate::request::jwt::{SigningAlgorithm, TokenRules};

/// `[jwt]`
pub static JWT: LazyLock<TableSpec<RawJwt>> = LazyLock::new(|| {
    let rules = TokenRules::default();
    let name = |example| text(example, claim_value, ToString::to_string);
    let algorithms = list(word(&SigningAlgorithm::NAMES));
    let algorithms = algorithms.plain(
        |them| them,
        |them| {
            let words = them
                .iter()
                .map(|one| display::word(&SigningAlgorithm::NAMES, one));
            display::list(words)
        },
    );
    let names = |them: &Vec<Box<str>>| display::list(them);
    let audience = list_or_one(name("api.example.com")).plain(|them| them, names);
    TableSpec::<RawJwt>::of("table", "[jwt]")
        .about("Tokens (JWT) whose claims can identify clients, for example \"jwt:sub\" in a policy's `partition`.")
        .key("keys", list_or_one(key_file("/etc/tollgate/issuer.pem")))
        .sets(|jwt| &mut jwt.keys)
        .doc("Files with the issuers' keys: PEM, or JWKS.")
        .key("algorithms", algorithms.or(Vec::new()))
        .sets(|jwt| &mut jwt.algorithms)
        .doc("Accepted signature algorithms:")
        .key(
            "header",
            text("authorization", header_name, ToString::to_string).matching(TOKEN_PATTERN).or(rules.header),
        )
        .sets(|jwt| &mut jwt.rules.header)
        .doc("The header that carries the token, with or without `Bearer` before it.")
        .key(
            "issuer",
            name("https://login.example.com/").or_none("anybody"),
        )
        .sets(|jwt| &mut jwt.rules.issuer)
        .doc("The required value of `iss`.")
        .key("audience", audience.or(Vec::new()))
        .sets(|jwt| &mut jwt.rules.audience)
        .doc("Accepted values of `aud`: a token must have one of them.")
        .key("leeway", duration(LEEWAY).or(rules.leeway))
        .sets(|jwt| &mut jwt.rules.leeway)
        .doc("How far the issuer's clock may be off.")
});

fn claim_value(text: &str) -> Result<Box<str>, ValueError> {
    let expected = "the value of the claim";
    if text.is_empty() {
        return Err(ValueError::new("is empty", expected));
    }
    // `check` and the log show the value as it is, so a line end in it would begin another line.
    if text.contains(char::is_control) {
        return Err(ValueError::new("has a control character", expected));
    }
    Ok(text.into())
}

const LEEWAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(1);
