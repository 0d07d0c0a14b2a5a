//! The room's claims. Every body here is also read in two pieces, cut at each position, and byte by byte.

mod attacks;
mod json;
mod model;

mod numbers;
mod pointers;
mod shapes;
mod streams;

use std::sync::Arc;

use super::{BodyFormat, BodyNumbers, Decimal, JsonPointer, NumberReader, Pointers};

/// What is read of a body, at pointers between spaces (`-` is the empty one).
fn read(pointers: &str, format: BodyFormat, body: impl AsRef<[u8]>) -> BodyNumbers {
    let (pointers, body) = (compiled(pointers), body.as_ref());
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut reader = NumberReader::new(pointers.clone(), format);
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

fn compiled(pointers: &str) -> Arc<Pointers> {
    let pointers = pointers.split(' ').map(|part| part.trim_start_matches('-'));
    let pointers: Result<Vec<_>, _> = pointers.map(JsonPointer::parse).collect();
    Arc::new(Pointers::new(&pointers.expect("pointers")).expect("few pointers"))
}

/// The reading with these numbers, `_` being none, of a body that is whole or not.
fn reported(numbers: &str, is_whole: bool) -> BodyNumbers {
    let numbers = numbers
        .split(' ')
        .map(|part| (part != "_").then(|| decimal(part)));
    BodyNumbers {
        numbers: numbers.collect(),
        is_whole,
    }
}

fn decimal(text: &str) -> Decimal {
    let (is_negative, size) = Decimal::parse(text.as_bytes()).expect(text);
    assert!(!is_negative, "{text}");
    size
}
