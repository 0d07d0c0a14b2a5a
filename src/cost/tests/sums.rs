//! What `*` adds up, and where the last number counts.

use super::super::BodyFormat::{EventStream, Json};
use super::super::{BadPointers, JsonPointer, PointerUse, Pointers, Take};
use super::{compiled, decimal, read, read_all, reported};

#[test]
fn a_star_adds_the_numbers_of_elements_and_members() {
    for (pointers, body, numbers) in [
        ("/a/*/t", r#"{"a":[{"t":1},{"t":20},{"t":300}]}"#, "321"),
        ("/a/*/t", r#"{"a":{"x":{"t":1},"y":{"t":20}}}"#, "21"),
        ("/a/*", r#"{"a":[1,20,[7],{"x":7},300]}"#, "321"),
        ("/a/*", r#"{"a":{"x":1,"y":20,"\u007a":300}}"#, "321"),
        ("/*", r#"{"a":1,"b":20}"#, "21"),
        ("/a/*/*", r#"{"a":[[1,2],[],{"x":30}]}"#, "33"),
        (
            "/a/*/b/*/t",
            r#"{"a":[{"b":[{"t":1},{"t":2}]},{"b":[{"t":4}]}]}"#,
            "7",
        ),
        (
            "/a/*/t /a/1/t",
            r#"{"a":[{"t":1},{"t":20},{"t":300}]}"#,
            "321 20",
        ),
        (
            "/a/*/t /a/x/t",
            r#"{"a":{"x":{"t":1},"y":{"t":20}}}"#,
            "21 1",
        ),
        (
            "/a/*/t /*/x/t",
            r#"{"a":{"x":{"t":1},"y":{"t":20}},"b":{"x":{"t":5}}}"#,
            "21 6",
        ),
        (
            "/a/*/t",
            r#"{"a":[{"t":null},{"t":"9"},{"t":-9},{"t":[9]},{},9,{"t":5}]}"#,
            "5",
        ),
        ("/a/*/t", r#"{"a":[{"t":null},{"t":"9"},{"t":-9}]}"#, "_"),
        ("/a/*/t", r#"{"a":[]}"#, "_"),
        ("/a/*/t", r#"{"a":7}"#, "_"),
        ("/a~0/*", r#"{"a~":[1,2]}"#, "3"),
        ("/**/a /a*", r#"{"**":{"a":1},"a*":2,"x":{"a":3}}"#, "1 2"),
    ] {
        assert_eq!(
            read(pointers, Json, body),
            reported(numbers, true),
            "{body}"
        );
        let event = format!("data: {body}\n\n");
        assert_eq!(
            read(pointers, EventStream, &event),
            reported(numbers, true),
            "{event}"
        );
    }
}

#[test]
fn a_sum_is_exact_and_held_to_the_largest_number() {
    for (pointers, body, numbers) in [
        ("/a/*", r#"{"a":[0.1,0.2,0.7]}"#, "1"),
        ("/a/*", r#"{"a":[0,-0]}"#, "0"),
        (
            "/a/*",
            r#"{"a":[18446744073709551615,1]}"#,
            "18446744073709551616",
        ),
        (
            "/a/*",
            r#"{"a":[1e-20,18446744073709551615,1]}"#,
            "18446744073709551616.00000000000000000001",
        ),
        ("/a/*", r#"{"a":[0.999999999999999999,1e-18,5]}"#, "6"),
        ("/a/*", r#"{"a":[9e39,9e39]}"#, "1e40"),
        (
            "/a/*",
            r#"{"a":[1e39,1e-200,1e-200]}"#,
            &format!("1{}.{}2", "0".repeat(39), "0".repeat(199)),
        ),
    ] {
        assert_eq!(
            read(pointers, Json, body),
            reported(numbers, true),
            "{body}"
        );
    }
}

#[test]
fn sums_of_sums_are_exact_too() {
    for (body, number) in [
        (r#"{"a":[{"b":[0.5,0.25]},{"b":[0.25]},{"b":[3]}]}"#, "4"),
        (
            r#"{"a":[{"b":[0.999999999999999999,7]},{"b":[1e-18]}]}"#,
            "8",
        ),
        (
            r#"{"a":[{"b":[18446744073709551615]},{"b":[1,0.5]},{"b":[1]}]}"#,
            "18446744073709551617.5",
        ),
        (
            r#"{"a":[{"b":[1e39,1e-200]},{"b":[]},{"b":[1e-200]}]}"#,
            &format!("1{}.{}2", "0".repeat(39), "0".repeat(199)),
        ),
        (r#"{"a":[{"b":[9e39,9e39]},{"b":[1]}]}"#, "1e40"),
        // Of the sums of duplicate keys, the largest is added.
        (
            r#"{"a":[{"b":[0.5,1],"b":[1],"b":[0.5]},{"b":[2,1],"b":[2,2]}]}"#,
            "5.5",
        ),
        (
            r#"{"a":[{"b":[0.5],"b":[null],"b":{"x":0.25}},{"b":[]}]}"#,
            "0.5",
        ),
    ] {
        let expected = reported(number, true);
        assert_eq!(read("/a/*/b/*", Json, body), expected, "{body}");
    }
    let body = r#"{"a":[{"b":[0.5,1],"b":[0.25]},{"b":[2],"b":[]}]}"#;
    assert_eq!(read(">/a/*/b/*", Json, body), reported("2.25", true));
}

#[test]
fn of_duplicate_keys_the_largest_sum_counts() {
    for (body, number) in [
        (r#"{"a":[{"t":1,"t":5,"t":2},{"t":10}]}"#, "15"),
        (
            r#"{"a":[{"t":1},{"t":10}],"a":[{"t":30}],"a":[{"t":2}]}"#,
            "30",
        ),
        (r#"{"a":{"x":{"t":1},"x":{"t":2}}}"#, "3"),
    ] {
        assert_eq!(read("/a/*/t", Json, body), reported(number, true), "{body}");
    }
    let body = r#"{"a":[{"t":9},{"t":1}],"a":[{"t":1,"t":2},{"t":4}]}"#;
    assert_eq!(read(">/a/*/t", Json, body), reported("6", true));
}

#[test]
fn a_sum_is_of_one_document_event_or_element() {
    for (pointers, format, body, numbers) in [
        ("/a/*", Json, "{\"a\":[1,2]}\n{\"a\":[5]}\n{\"a\":[1]}", "5"),
        ("/a/*", Json, r#"[{"a":[1,2]},{"a":[5]},{"a":[1]}]"#, "5"),
        ("/*/a", Json, r#"[{"a":1},{"a":5}]"#, "6"),
        ("/*", Json, "[1,2,[5,7],4]", "12"),
        ("/*/*", Json, "[[1,2],[[4,5],7]]", "10"),
        ("/0/*", Json, "[[1,2],[7,4]]", "3"),
        (
            ">/a/*",
            Json,
            r#"[{"a":[1,2]},{"a":[5]},{"a":[1,1]},{"a":[null]}]"#,
            "2",
        ),
        (
            "/a/*",
            EventStream,
            "data: {\"a\":[1,2]}\n\ndata: {\"a\":[5]}\n\n",
            "5",
        ),
        (
            ">/a/*",
            EventStream,
            "data: {\"a\":[5]}\n\ndata: {\"a\":[1,2]}\n\ndata: {\"b\":1}\n\n",
            "3",
        ),
    ] {
        assert_eq!(
            read(pointers, format, body),
            reported(numbers, true),
            "{pointers} {body}"
        );
    }
}

#[test]
fn what_is_cut_or_broken_has_told_the_sum_so_far() {
    for (body, number) in [
        (r#"{"a":[{"t":1},{"t":20},{"t":3"#, "21"),
        (r#"{"a":[{"t":1},{"t":20},"#, "21"),
        (r#"{"a":[{"t":1},{"t":20}]"#, "21"),
        (r#"{"a":[{"t":1},x"#, "1"),
        (r#"{"a":[{"t":1}}"#, "1"),
        ("{\"a\":[{\"t\":1},x\n{\"a\":[{\"t\":3}]}", "3"),
    ] {
        assert_eq!(
            read("/a/*/t", Json, body),
            reported(number, false),
            "{body}"
        );
    }
}

#[test]
fn the_last_number_counts_if_the_pointer_says_so() {
    for (format, body, number) in [
        (Json, r#"{"a":3,"a":1}"#, "1"),
        (Json, r#"{"a":3,"a":null}"#, "3"),
        (Json, "{\"a\":3}\n{\"a\":\"9\"}\n{\"a\":2}\n{}", "2"),
        (Json, r#"[{"a":3},{"a":1},{"a":-1}]"#, "1"),
        (
            EventStream,
            "data: {\"a\":3}\n\ndata: {\"a\":1}\n\ndata: [DONE]\n\n",
            "1",
        ),
    ] {
        assert_eq!(read(">/a", format, body), reported(number, true), "{body}");
    }
    // One pointer has both numbers if a policy asks for both.
    assert_eq!(
        read("/a >/a", Json, "{\"a\":3}\n{\"a\":1}"),
        reported("3 1", true)
    );
}

/// By this, a term of several pointers takes the number of the latest document, and of one document the larger.
#[test]
fn a_last_number_comes_with_the_document_that_told_it() {
    let body = "data: {\"m\":{\"a\":9}}\n\ndata: {\"b\":1}\n\ndata: {\"a\":2,\"b\":3}\n\n";
    let numbers = read_all(&compiled(">/a >/b >/m/a /a"), EventStream, body);
    let told: Vec<_> = (0..4).map(|pointer| numbers.number(pointer)).collect();
    let [two, three, nine] = ["2", "3", "9"].map(decimal);
    let expected = [(3, &two), (3, &three), (1, &nine), (0, &two)];
    assert_eq!(told, expected.map(Some));
}

#[test]
fn not_a_number_is_read_as_null() {
    for (body, number) in [
        (r#"{"x":NaN,"y":[Infinity,-Infinity],"a":5}"#, "5"),
        (r#"{"a":NaN}"#, "_"),
        (r#"{"a":5,"a":Infinity,"a":-Infinity}"#, "5"),
        ("NaN\n{\"a\":5}", "5"),
        (r#"{"b":[NaN],"a":5}"#, "5"),
    ] {
        assert_eq!(
            read("/a /b/*", Json, body).numbers[0],
            (number != "_").then(|| decimal(number)),
            "{body}"
        );
        assert!(read("/a /b/*", Json, body).is_whole, "{body}");
    }
    for body in [
        r#"{"a":nan}"#,
        r#"{"a":Nan}"#,
        r#"{"a":Infinit}"#,
        r#"{"a":-Infinit}"#,
    ] {
        assert_eq!(read("/a", Json, body), reported("_", false), "{body}");
    }
}

#[test]
fn pointers_of_many_stars_beside_keys_are_refused() {
    let of_sum = PointerUse::Number(Take::Largest);
    let parse = |text: &str| (JsonPointer::parse(text).expect("a pointer"), of_sum);
    // Each combination of keys and stars is another set of pointers that go on.
    let pointer = |at: usize| {
        let segments = (0..32).map(|segment| if segment == at { "/a" } else { "/*" });
        parse(&segments.collect::<String>())
    };
    let pointers: Vec<_> = (0..32).map(pointer).collect();
    assert_eq!(
        Pointers::new(&pointers).err(),
        Some(BadPointers::TooManyPaths)
    );
    assert!(Pointers::new(&[parse(&"/*".repeat(32)), parse(&"/a".repeat(32))]).is_ok());
}
