//! Lines of a reload about `[jwt]`, and which changes make the gateway forget verified tokens.

use std::fs;
use std::path::Path;

use super::*;

/// Loads the base file with a `[jwt]` table and a policy that counts by a claim; `KEYS` stands for a file of keys.
fn with_tokens(folder: &Path, jwt: &str, part: &str) -> Loaded {
    let keys = folder.join("keys.pem").display().to_string();
    let jwt = jwt.replace("KEYS", &format!("keys = '{keys}'"));
    let text = BASE.replacen(
        "[listeners.public]",
        &format!("[jwt]\n{jwt}\n[listeners.public]"),
        1,
    );
    let policy = format!("quota = \"100 per minute\"\npartition = ['{part}']");
    loaded(&text.replacen("quota = \"100 per minute\"", &policy, 1))
}

#[test]
fn verified_tokens_are_forgotten_exactly_if_they_may_no_longer_verify_or_say_something_else() {
    let folder = tempfile::tempdir().expect("a folder for keys");
    let file = folder.path().join("keys.pem");
    let write = |text: &str| fs::write(&file, text).expect("the folder is writable");
    for &(jwt, part, keys, line, is_kept) in CASES {
        write(KEY);
        let old = with_tokens(folder.path(), "KEYS", "jwt:sub");
        write(keys);
        let new = with_tokens(folder.path(), jwt, part);
        let (changes, new) = kept(&old, new);
        assert_eq!(changes, applied(line.as_slice()), "{jwt} {part} {keys}");
        let verifiers = [&old, &new].map(|value| value.snapshot.tokens.as_ref().expect("[jwt]"));
        assert_eq!(
            Arc::ptr_eq(verifiers[0], verifiers[1]),
            is_kept,
            "{jwt} {part} {keys}"
        );
    }
}

/// Keys of `[jwt]`, the part, the file of keys, the line of the reload, and whether verified tokens are remembered.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
    bool,
);

const CASES: &[Case] = &[
    ("KEYS", "jwt:sub", KEY, None, true),
    (
        "KEYS",
        "jwt:sub",
        COMMENTED,
        Some("jwt: keys changed"),
        true,
    ),
    ("KEYS", "jwt:sub", NAMED, Some("jwt: keys changed"), false),
    (
        "KEYS\nissuer = 'a'",
        "jwt:sub",
        KEY,
        Some("jwt: issuer anybody → a"),
        false,
    ),
    (
        "KEYS\naudience = 'a'",
        "jwt:sub",
        KEY,
        Some("jwt: audience [] → [a]"),
        false,
    ),
    (
        "KEYS\nleeway = '0s'",
        "jwt:sub",
        KEY,
        Some("jwt: leeway 60s → 0s"),
        false,
    ),
    (
        "KEYS\nheader = 'x-a'",
        "jwt:sub",
        KEY,
        Some("jwt: header authorization → x-a"),
        false,
    ),
    (
        "KEYS\nalgorithms = ['ES256']",
        "jwt:sub",
        KEY,
        Some("jwt: algorithms [] → [ES256]"),
        true,
    ),
    (
        "KEYS",
        "jwt:org",
        KEY,
        Some("policy per-client: partition [\"jwt:sub\"] → [\"jwt:org\"], counters start afresh"),
        false,
    ),
];

const KEY: &str = include_str!("../../../../tests/config/tls/issuer.pem");
/// The same key, so the tokens that it has verified stay verified.
const COMMENTED: &str = concat!(
    "rotated yesterday\n",
    include_str!("../../../../tests/config/tls/issuer.pem")
);
/// The same key under a name: it no longer verifies tokens that name another.
const NAMED: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"1",
    "x":"0-wnfCw83_Xogqm45Op2uapoTvjYcIw_hJTcPT0AoLM","y":"99dohuWclLHV8dKdeDblT3EiW5sIakSI-g9Ix3YvpSg"}]}"#;
