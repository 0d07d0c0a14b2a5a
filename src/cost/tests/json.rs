//! What counts in JSON, and what does not.

use super::super::BodyFormat::Json;
use super::{read, reported};

#[test]
fn a_number_counts_exactly_where_its_pointer_leads() {
    for (pointers, body, numbers) in [
        ("/usage/total", r#"{"usage":{"total":7}}"#, "7"),
        (
            "/usage/total",
            r#" { "usage" : { "x":1 , "total" : 7 } } "#,
            "7",
        ),
        ("/a /b /a/c", r#"{"b":2,"a":{"c":3,"d":{"c":9}}}"#, "_ 2 3"),
        ("/a /a", r#"{"a":4}"#, "4 4"),
        ("-", "42", "42"),
        ("- /a", "{\"a\":1}\n5", "5 1"),
        (
            "/a/b",
            r#"{"b":1,"x":{"a":{"b":2}},"a":{"x":{"b":3}}}"#,
            "_",
        ),
        ("/a/b", r#"{"x":"{\"a\":{\"b\":1}}","a":"{\"b\":2}"}"#, "_"),
        ("/a/b", r#"{"a":[{"b":1}],"a":1}"#, "_"),
        ("/", r#"{"":1," ":2}"#, "1"),
        ("/a//b", r#"{"a":{"":{"b":1},"b":2}}"#, "1"),
        ("/m~0n/a~1b /~01", r#"{"m~n":{"a/b":1},"~1":2}"#, "1 2"),
        ("/abc /ab /abcd", r#"{"ab":1,"abcd":3}"#, "_ 1 3"),
        ("/a", "{\"a\":\t1\r\n}", "1"),
    ] {
        assert_eq!(
            read(pointers, Json, body),
            reported(numbers, true),
            "{body}"
        );
    }
}

#[test]
fn the_largest_number_counts_and_nothing_else_undoes_it() {
    for (body, number) in [
        (r#"{"a":1,"a":3,"a":2}"#, "3"),
        (r#"{"a":3,"a":null}"#, "3"),
        (r#"{"a":3,"a":"9"}"#, "3"),
        (r#"{"a":3,"a":{"a":9},"a":[9]}"#, "3"),
        (r#"{"a":-3}"#, "_"),
        (r#"{"a":2,"a":-3,"a":-0.5e9}"#, "2"),
        (r#"{"a":-0}"#, "0"),
        (r#"{"a":true,"a":false,"a":null}"#, "_"),
        (r#"{"a":""}"#, "_"),
        ("{\"a\":1}\n{\"a\":3}\n{\"a\":2}", "3"),
        ("{\"a\":1}\r\n{\"a\":3}\r\n", "3"),
        ("{\"a\":9.99}\n{\"a\":1e1} \n\n{\"a\":0.1E+2}", "10"),
    ] {
        assert_eq!(read("/a", Json, body), reported(number, true), "{body}");
    }
}

#[test]
fn elements_of_a_top_level_array_count_like_documents_and_by_position() {
    for (pointers, body, numbers) in [
        ("/a", r#"[{"a":1},{"a":3},{"a":2}]"#, "3"),
        ("/a", "[]", "_"),
        ("/a", r#"[ [{"a":1}], {"b":{"a":2}} ]"#, "_"),
        ("-", "[1,3,2]", "3"),
        ("/0/a /a", r#"[{"a":1},{"a":3}]"#, "1 3"),
        ("/1/a /2/a", r#"[{"a":1},{"a":3}]"#, "3 _"),
        ("/0", r#"[[1],[5,7],{"0":3}]"#, "5"),
        ("/0", "[9,[1]]", "9"),
        ("/0/0", "[[4,9],[[1],2]]", "4"),
        ("/a", "[{\"a\":1}]\n[{\"a\":2}]", "2"),
    ] {
        assert_eq!(
            read(pointers, Json, body),
            reported(numbers, true),
            "{body}"
        );
    }
}

#[test]
fn positions_in_arrays_are_keys_without_leading_zeros() {
    for (pointers, body, numbers) in [
        ("/a/0 /a/2 /a/3", r#"{"a":[1,2,3]}"#, "1 3 _"),
        ("/a/00 /a/+1 /a/- /a/01", r#"{"a":[1,2,3]}"#, "_ _ _ _"),
        ("/a/00 /a/- /a/0", r#"{"a":{"00":1,"-":2,"0":3}}"#, "1 2 3"),
        ("/a/1/b", r#"{"a":[{"b":1},{"b":2},{"b":3}]}"#, "2"),
        (
            "/a/1/b",
            r#"{"a":[{"b":1}, [], {"b":3}],"a":[1,{"b":7}]}"#,
            "7",
        ),
        ("/a/1/1/0", r#"{"a":[0,[1,[2,3],4],5]}"#, "2"),
        ("/a/4294967296", r#"{"a":{"4294967296":1}}"#, "1"),
        ("/a/x", r#"{"a":[1,2]}"#, "_"),
        ("/a/2", r#"{"a":[[],{},5,"]",[{}]],"b":1}"#, "5"),
    ] {
        assert_eq!(
            read(pointers, Json, body),
            reported(numbers, true),
            "{body}"
        );
    }
}

#[test]
fn keys_are_unescaped_before_they_are_compared() {
    for (pointers, body, number) in [
        ("/usage", r#"{"\u0075s\u0061ge":1}"#, "1"),
        ("/é", r#"{"\u00e9":1}"#, "1"),
        ("/é", "{\"\u{e9}\":1}", "1"),
        ("/é", r#"{"\u00C9":1}"#, "_"),
        (
            "/a\"\\~1\u{8}\u{c}\n\r\tz",
            r#"{"a\"\\\/\b\f\n\r\tz":1}"#,
            "1",
        ),
        ("/\u{1f600}b", r#"{"\ud83d\uDE00b":1}"#, "1"),
        ("/\u{1f600}b", "{\"\u{1f600}b\":1}", "1"),
        (
            "/\u{1f600}",
            r#"{"\ud83d":1,"\ude00":1,"\ude00\ud83d":1,"\ud83dx":1}"#,
            "_",
        ),
        (
            "/a",
            r#"{"\ud83da":1,"\ud83d\u0061":1,"\ud83d\n":1,"a\ud83d":1}"#,
            "_",
        ),
        (
            "/a",
            r#"{"a\"":1,"\"a":1,"\\a":1,"a\\":1,"a\u0000":1}"#,
            "_",
        ),
        ("/x\u{1f600}", r#"{"\ud83dx\ude00":1}"#, "_"),
        ("/nu", r#"{"\nu":1,"\u006eu":2}"#, "2"),
    ] {
        assert_eq!(read(pointers, Json, body), reported(number, true), "{body}");
    }
}

#[test]
fn what_is_broken_or_cut_is_not_whole_and_keeps_what_it_told() {
    for (body, number) in [
        ("", "_"),
        (" \n", "_"),
        (r#"{"a":1 "#, "1"),
        (r#"{"a":12"#, "_"),
        ("[12", "_"),
        (r#"{"a":1]"#, "1"),
        (r#"{"a":1,}"#, "1"),
        (r#"{"a":1 "b":2}"#, "1"),
        (r#"{"b":1;"a":2}"#, "_"),
        (r#"{"b":"x" "a":2}"#, "_"),
        (r#"{"b":1 2,"a":2}"#, "_"),
        (r#"{"b":x,"a":2}"#, "_"),
        (r#"{"a" 1}"#, "_"),
        ("{a:1}", "_"),
        (r#"{"a":1},{"a":2}"#, "1"),
        (r#"{"a":1}{"a":2}"#, "1"),
        (r#"{"a":1} 2"#, "1"),
        ("{\"a\":1}\n\0", "1"),
        (r#"[{"a":1},]"#, "1"),
        (r#"[{"a":1}{"a":2}]"#, "1"),
        (r#"{"a":01}"#, "_"),
        (r#"{"a":1.}"#, "_"),
        (r#"{"a":1e}"#, "_"),
        (r#"{"a":+1}"#, "_"),
        (r#"{"a":--1}"#, "_"),
        (r#"{"a":nul}"#, "_"),
        (r#"{"a":"1}"#, "_"),
        (r#"{"b":[[1,2],3"#, "_"),
        (r#"{"b":{"a":1}"#, "_"),
        ("not JSON", "_"),
        ("{\"a\":x\n{\"a\":2}\n", "2"),
        ("{\"a\":1}\nERROR {\"a\":9}\n{\"a\":2}", "2"),
        ("\u{feff}", "_"),
    ] {
        assert_eq!(read("/a", Json, body), reported(number, false), "{body}");
    }
}

#[test]
fn a_byte_order_mark_is_skipped_but_not_a_part_of_one() {
    let whole = read("/a", Json, b"\xEF\xBB\xBF{\"a\":1}");
    assert_eq!(whole, reported("1", true));
    let part = read("/a", Json, b"\xEF\xBB{\"a\":1}");
    assert_eq!(part, reported("_", false));
}
