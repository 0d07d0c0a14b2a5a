//! Laws over random documents: what is reported is what a walk over the whole document finds.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::super::BodyFormat::{EventStream, Json};
use super::super::{BodyFormat, Decimal, NumberReader};
use super::{Reading, compiled, decimal};

/// A document, with objects that may have a key twice.
#[derive(Clone, Debug)]
enum Tree {
    Leaf(&'static str),
    Array(Vec<Tree>),
    Object(Vec<(Written, Tree)>),
}

/// A key, and how it is written.
type Written = &'static (&'static str, &'static str);

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    /// Law: a document reports the largest number that a walk finds at each pointer, however it is cut, by itself and
    /// as the data of an event; and a prefix of it reports no larger number, and is not whole.
    #[test]
    fn documents_tell_what_a_walk_finds(
        tree in tree(),
        pointers in prop::collection::vec(pointer(), 1..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut text = String::new();
        tree.write(&mut text);
        prop_assert!(serde_json::from_str::<&RawValue>(&text).is_ok(), "{text}");
        let expected = Reading {
            numbers: pointers.iter().map(|pointer| tree.largest(pointer)).collect(),
            is_whole: true,
        };
        let pointers: Vec<_> = pointers.iter().map(|pointer| format!("/{}", pointer.join("/"))).collect();
        let pointers = pointers.join(" ");
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(&read(&pointers, Json, &text, &cuts), &expected);
        let event = format!("data: {text}\r\n\r\n");
        prop_assert_eq!(&read(&pointers, EventStream, &event, &cuts), &expected);

        let cut = &text[..cuts.first().copied().unwrap_or(0)];
        let less = read(&pointers, Json, cut, &[]);
        let is_container = !matches!(tree, Tree::Leaf(_));
        prop_assert!(cut.len() == text.len() || !(is_container && less.is_whole), "{}", cut);
        for (less, whole) in less.numbers.iter().zip(&expected.numbers) {
            prop_assert!(less <= whole || !is_container, "{}", cut);
        }
    }
}

fn read(pointers: &str, format: BodyFormat, text: &str, cuts: &[usize]) -> Reading {
    let mut reader = NumberReader::new(compiled(pointers), format, None);
    let mut from = 0;
    for to in cuts {
        reader.read(&text.as_bytes()[from..*to]);
        from = *to;
    }
    reader.read(&text.as_bytes()[from..]);
    reader.finish().into()
}

impl Tree {
    fn write(&self, text: &mut String) {
        match self {
            Self::Leaf(leaf) => text.push_str(leaf),
            Self::Array(elements) => {
                text.push('[');
                for (at, element) in elements.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { ", " });
                    element.write(text);
                }
                text.push(']');
            }
            Self::Object(members) => {
                text.push('{');
                for (at, ((_, written), value)) in members.iter().enumerate() {
                    text.push_str(if at == 0 { " " } else { "," });
                    text.extend(["\"", written, "\": "]);
                    value.write(text);
                }
                text.push('}');
            }
        }
    }

    fn largest(&self, keys: &[&str]) -> Option<Decimal> {
        let mut found = Vec::new();
        self.walk(keys, &mut found);
        if let Self::Array(elements) = self {
            for element in elements {
                element.walk(keys, &mut found);
            }
        }
        found.into_iter().max()
    }

    fn walk(&self, keys: &[&str], found: &mut Vec<Decimal>) {
        match (self, keys) {
            (Self::Leaf(leaf), []) if leaf.starts_with(|first: char| first.is_ascii_digit()) => {
                found.push(decimal(leaf));
            }
            (Self::Array(elements), [key, rest @ ..]) => {
                for (at, element) in elements.iter().enumerate() {
                    if at.to_string() == *key {
                        element.walk(rest, found);
                    }
                }
            }
            (Self::Object(members), [key, rest @ ..]) => {
                for ((name, _), value) in members {
                    if name == key {
                        value.walk(rest, found);
                    }
                }
            }
            _ => {}
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop::sample::select(LEAVES).prop_map(Tree::Leaf);
    leaf.prop_recursive(5, 40, 6, |tree| {
        let member = (
            prop::sample::select(KEYS.iter().collect::<Vec<_>>()),
            tree.clone(),
        );
        prop_oneof![
            prop::collection::vec(tree, 0..5).prop_map(Tree::Array),
            prop::collection::vec(member, 0..6).prop_map(Tree::Object),
        ]
    })
}

fn pointer() -> impl Strategy<Value = Vec<&'static str>> {
    let key = prop::sample::select(KEYS).prop_map(|(name, _)| name);
    prop::collection::vec(key, 1..5)
}

const LEAVES: &[&str] = &[
    "0",
    "1",
    "17",
    "2.5",
    "25e-1",
    "1e3",
    "1E400",
    "0.0001",
    "12345678901234567890123456789.5",
    "null",
    "true",
    "false",
    "\"\"",
    "\"17\"",
    r#""a\"}]\\""#,
    "\"[{\"",
];

/// Names, and how they are written.
const KEYS: &[(&str, &str)] = &[
    ("a", "a"),
    ("a", r"\u0061"),
    ("ab", "ab"),
    ("b", "b"),
    ("0", "0"),
    ("1", r"\u0031"),
    ("1", "1"),
    ("é", r"\u00E9"),
    ("q\"", r#"q\""#),
];
