use super::*;

#[test]
fn a_path_that_is_refused_says_why() {
    for (path, expected) in [
        ("", BadPath::NotAbsolute),
        ("*", BadPath::NotAbsolute),
        ("\\login", BadPath::NotAbsolute),
        ("/login%00", BadPath::Nul),
        ("/login\0", BadPath::Nul),
        ("/a\\login", BadPath::Backslash),
        ("/%u006c", BadPath::Escape),
        ("/login%", BadPath::Escape),
        ("/login%+1", BadPath::Escape),
        ("/login?", BadPath::Character),
        ("/log in", BadPath::Character),
        ("/login\x7f", BadPath::Character),
        ("/x%2f..%2flogin", BadPath::DotSegment),
        ("/x/..;a/login", BadPath::DotSegment),
        ("/x/%2e.%3ba/login", BadPath::DotSegment),
    ] {
        assert_eq!(normalise(path), Err(expected), "{path:?}");
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
