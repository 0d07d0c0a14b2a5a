//! How bodies are read. [`read_all`] also reads each of them byte by byte, and in two pieces, cut at each position.

mod attacks;
mod ends;
mod json;
mod model;
mod numbers;
mod pointers;
mod streams;
mod sums;
mod texts;

use std::sync::Arc;

use super::{
    BodyFormat, BodyNumbers, Decimal, JsonPointer, NumberReader, PointerUse, Pointers, Take,
};

/// The numbers in a body, and whether the body was whole.
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    numbers: Box<[Option<Decimal>]>,
    is_whole: bool,
}

impl From<BodyNumbers> for Reading {
    fn from(numbers: BodyNumbers) -> Self {
        Self {
            is_whole: numbers.is_whole,
            numbers: numbers.numbers,
        }
    }
}

/// Reads the numbers of a body at pointers, which are separated by spaces (`-` is the empty one).
fn read(pointers: &str, format: BodyFormat, body: impl AsRef<[u8]>) -> Reading {
    read_all(&compiled(pointers), format, body).into()
}

/// Reads a body of JSON, or a stream that ends with `[DONE]` or with an event named `end`.
fn read_all(pointers: &Arc<Pointers>, format: BodyFormat, body: impl AsRef<[u8]>) -> BodyNumbers {
    let body = body.as_ref();
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut reader = NumberReader::new(pointers.clone(), format, Some("end".into()));
        pieces.for_each(|piece| reader.read(piece));
        reader.finish()
    };
    let expected = read(&mut [body].into_iter());
    assert_eq!(read(&mut body.chunks(1)), expected, "byte by byte");
    for at in 0..=body.len() {
        let (head, tail) = body.split_at(at);
        assert_eq!(read(&mut [head, tail].into_iter()), expected, "cut at {at}");
    }
    expected
}

/// Compiles pointers, which are separated by spaces: `>` marks one whose last number counts, `?` one to a member.
fn compiled(pointers: &str) -> Arc<Pointers> {
    let pointer = |part: &str| {
        let wanted = match part.as_bytes().first() {
            Some(b'>') => PointerUse::Number(Take::Last),
            Some(b'?') => PointerUse::Member,
            _ => PointerUse::Number(Take::Largest),
        };
        let text = part.trim_start_matches(['-', '>', '?']);
        (JsonPointer::parse(text).expect(part), wanted)
    };
    let pointers: Vec<_> = pointers.split(' ').map(pointer).collect();
    Arc::new(Pointers::new(&pointers).expect("few pointers"))
}

/// Makes the reading of a body with these numbers, of which `_` is a missing one.
fn reported(numbers: &str, is_whole: bool) -> Reading {
    let numbers = numbers
        .split(' ')
        .map(|part| (part != "_").then(|| decimal(part)));
    Reading {
        numbers: numbers.collect(),
        is_whole,
    }
}

fn decimal(text: &str) -> Decimal {
    let (is_negative, size) = Decimal::parse(text.as_bytes()).expect(text);
    assert!(!is_negative, "{text}");
    size
}
