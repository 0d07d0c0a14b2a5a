use proptest::prelude::*;

use super::*;

/// Name, path, and its normal form.
const SPELLINGS: &[(&str, &str, Result<&str, BadPath>)] = &[
    ("root", "/", Ok("/")),
    ("plain", "/v1/a-b_c.d~e", Ok("/v1/a-b_c.d~e")),
    ("sub-delims", "/a!$&'()*+,;=:@", Ok("/a!$&'()*+,;=:@")),
    ("repeated slash", "//login", Ok("/login")),
    ("many slashes", "///a////b//", Ok("/a/b/")),
    ("dot", "/./login", Ok("/login")),
    ("dot dot", "/x/../login", Ok("/login")),
    ("above root", "/../../login", Ok("/login")),
    ("only dot dot", "/..", Ok("/")),
    ("last slash", "/login/", Ok("/login/")),
    ("last dot", "/login/.", Ok("/login/")),
    ("last dot dot", "/a/b/..", Ok("/a/")),
    ("dot dot behind an empty segment", "/a//../b", Ok("/a/b")),
    ("dot dot behind two", "/a///../../b", Ok("/a/b")),
    (
        "as many as there are and one more",
        "/a//../../../b",
        Ok("/b"),
    ),
    ("dot dot behind a first slash", "//../a", Ok("/a")),
    ("last dot dot behind an empty segment", "/a//..", Ok("/a/")),
    ("dot between empty segments", "/a/.//./../b", Ok("/a/b")),
    (
        "dots encoded behind an empty segment",
        "/a//%2e%2E/b",
        Ok("/a/b"),
    ),
    ("three dots", "/.../a", Ok("/.../a")),
    ("dot file", "/.well-known/x", Ok("/.well-known/x")),
    ("case", "/LOGIN", Ok("/LOGIN")),
    ("encoded letter", "/%6cogin", Ok("/login")),
    ("encoded letter, upper", "/%6Cogin", Ok("/login")),
    ("encoded dot", "/%2e/login", Ok("/login")),
    ("encoded dots", "/x/%2e%2e/login", Ok("/login")),
    ("half encoded dots", "/x/.%2e/login", Ok("/login")),
    ("double encoding", "/%252e%252e/", Ok("/%252e%252e/")),
    ("lower hex", "/a%c3%a9", Ok("/a%C3%A9")),
    ("encoded slash", "/login%2f", Ok("/login%2F")),
    ("encoded backslash", "/%5clogin", Ok("/%5Clogin")),
    ("parameter", "/login;a=b", Ok("/login;a=b")),
    ("parameter alone", "/;a/login", Ok("/;a/login")),
    ("encoded semicolon", "/login%3b", Ok("/login%3B")),
    ("encoded space", "/login%20", Ok("/login%20")),
    ("encoded tab", "/login%09", Ok("/login%09")),
    ("encoded question mark", "/login%3fx", Ok("/login%3Fx")),
    ("encoded hash", "/login%23", Ok("/login%23")),
    ("full width", "/ｌogin", Ok("/%EF%BD%8Cogin")),
    ("overlong slash", "/%c0%af", Ok("/%C0%AF")),
    ("raw quote", "/a\"b", Ok("/a%22b")),
    ("suffix", "/login.json", Ok("/login.json")),
    ("encoded NUL", "/login%00", Err(BadPath::Nul)),
    ("NUL", "/login\0", Err(BadPath::Nul)),
    ("backslash", "/a\\login", Err(BadPath::Backslash)),
    (
        "backslash for a slash",
        "\\login",
        Err(BadPath::NotAbsolute),
    ),
    ("percent u", "/%u006c", Err(BadPath::Escape)),
    ("lone percent", "/login%", Err(BadPath::Escape)),
    ("short escape", "/login%4", Err(BadPath::Escape)),
    ("no hex", "/login%zz", Err(BadPath::Escape)),
    ("sign for a digit", "/login%+1", Err(BadPath::Escape)),
    ("question mark", "/login?", Err(BadPath::Character)),
    ("hash", "/login#f", Err(BadPath::Character)),
    ("space", "/log in", Err(BadPath::Character)),
    ("line feed", "/log\nin", Err(BadPath::Character)),
    ("delete", "/login\x7f", Err(BadPath::Character)),
    (
        "dots and a slash",
        "/x%2f..%2flogin",
        Err(BadPath::DotSegment),
    ),
    ("all encoded", "/x/%2e%2e%2flogin", Err(BadPath::DotSegment)),
    (
        "dots and a backslash",
        "/x/..%5clogin",
        Err(BadPath::DotSegment),
    ),
    (
        "dots and a parameter",
        "/x/..;a/login",
        Err(BadPath::DotSegment),
    ),
    (
        "dots and an encoded semicolon",
        "/x/%2e.%3ba/login",
        Err(BadPath::DotSegment),
    ),
    ("dots and a letter", "/..a/.b;c", Ok("/..a/.b;c")),
    ("empty", "", Err(BadPath::NotAbsolute)),
    ("asterisk", "*", Err(BadPath::NotAbsolute)),
];

#[test]
fn every_spelling_has_one_normal_form_or_is_refused() {
    for &(name, path, expected) in SPELLINGS {
        let found = normalise(path).map(|path| path.text.into_owned());
        assert_eq!(found.as_deref(), expected.as_ref().copied(), "{name}");
    }
}

#[test]
fn encoded_slashes_and_backslashes_are_reported() {
    for (path, expected) in [
        ("/a%2Fb", true),
        ("/a%5cb", true),
        ("/a%2fb/../c", true),
        ("/a%252Fb", false),
        ("/a/b", false),
    ] {
        let found = normalise(path).expect("good path");
        assert_eq!(found.has_encoded_slash(), expected, "{path}");
    }
}

#[test]
fn comparable_spellings_decode_sub_delims_and_nothing_else() {
    let path = "/a%3Ab%2F%25/%2A%20c";
    assert_eq!(comparable(path), "/a:b%2F%25/*%20c");
    assert_eq!(&path[offset_in(path, 3)..], "b%2F%25/%2A%20c");
    assert_eq!(&path[offset_in(path, 12)..], "%20c");
    assert!(matches!(comparable("/a%20b"), Cow::Borrowed(_)));
}

#[test]
fn decoded_slashes_are_one_each_time() {
    let path = normalise("/a%2fb%5C%2Fc/%2f/d%252F/").expect("good path");
    assert_eq!(with_slashes_decoded(path.as_str()), "/a/b/c/d%252F/");
}

proptest! {
    /// What comes out is normal: normalising it again changes nothing and copies nothing.
    #[test]
    fn normalising_twice_is_normalising_once(
        path in r"(/|\.|%2[eEfF]|%5c|%41|%3b|%c3|;|a|é|[ -~]){0,12}".prop_map(|rest| format!("/{rest}")),
    ) {
        if let Ok(once) = normalise(&path) {
            let twice = normalise(once.as_str()).expect("a normal path is good");
            prop_assert!(matches!(twice.text, Cow::Borrowed(text) if text == once.as_str()));
            prop_assert!(!once.as_str().contains("//"));
            prop_assert!(!once.as_str().split('/').any(|segment| segment == "." || segment == ".."));
        }
    }
}
