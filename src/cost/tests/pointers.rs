//! What is a pointer, and what is not.

use super::super::{
    BadPointer, BadPointers, JsonPointer, POINTERS_MAX, PointerUse, Pointers, Take,
};

#[test]
fn a_text_that_is_no_pointer_is_told_why() {
    let long = format!("/{}", "k".repeat(257));
    let deep = "/a".repeat(33);
    for (text, expected) in [
        ("usage", BadPointer::NoSlash),
        ("#/usage", BadPointer::NoSlash),
        ("/a~", BadPointer::BadEscape),
        ("/a~2", BadPointer::BadEscape),
        ("/~~0", BadPointer::BadEscape),
        (&long, BadPointer::KeyTooLong),
        (&deep, BadPointer::TooManyKeys),
    ] {
        assert_eq!(JsonPointer::parse(text), Err(expected), "{text}");
    }
    for text in ["", "/", "/~0~1", &long[..257], &deep[..64], "/a b/%20/\"/é"] {
        assert!(JsonPointer::parse(text).is_ok(), "{text}");
    }
}

#[test]
fn a_route_has_32_pointers_at_most() {
    let wanted = PointerUse::Number(Take::Largest);
    let pointer = |number: usize| {
        let pointer = JsonPointer::parse(&format!("/{number}"));
        (pointer.expect("a pointer"), wanted)
    };
    let pointers: Vec<_> = (0..=POINTERS_MAX).map(pointer).collect();
    assert_eq!(Pointers::new(&pointers).err(), Some(BadPointers::TooMany));
    let most = Pointers::new(&pointers[..POINTERS_MAX]).expect("few enough");
    assert_eq!(most.count(), POINTERS_MAX);
}
