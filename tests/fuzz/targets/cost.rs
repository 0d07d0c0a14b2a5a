//! Numbers in bodies: however a body is cut, the reader tells what a full parser finds at its pointers.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use tollgate::cost::{
    BodyFormat, BodyNumbers, Decimal, JsonPointer, NUMBER_BYTES_MAX, NumberReader, Pointers,
};

use super::text;

/// The input: `json` or `events`, a line of pointers between spaces, and the body.
pub fn holds(data: &[u8]) {
    let mut parts = data.splitn(3, |&byte| byte == b'\n');
    let format = match parts.next() {
        Some(b"json") => BodyFormat::Json,
        Some(b"events") => BodyFormat::EventStream,
        _ => return,
    };
    let Some(texts) = text(&mut parts) else {
        return;
    };
    let body = parts.next().unwrap_or_default();
    let texts: Vec<&str> = texts.split(' ').collect();
    let parsed: Result<Vec<_>, _> = texts.iter().map(|text| JsonPointer::parse(text)).collect();
    let Some(Ok(pointers)) = parsed.ok().map(|parsed| Pointers::new(&parsed)) else {
        return;
    };
    let pointers = Arc::new(pointers);
    let read = |pieces: &[&[u8]]| {
        let mut reader = NumberReader::new(pointers.clone(), format);
        for piece in pieces {
            reader.read(piece);
        }
        reader.finish()
    };
    let reading = read(&[body]);
    for size in [1, 2, 3, 7, 50] {
        let pieces: Vec<_> = body.chunks(size).collect();
        assert_eq!(read(&pieces), reading, "in pieces of {size}");
    }
    for at in 0..body.len().min(100) {
        let (head, tail) = body.split_at(at);
        assert_eq!(read(&[head, tail]), reading, "cut at {at}");
    }
    if let Ok(body) = str::from_utf8(body) {
        let body = body.strip_prefix('\u{feff}').unwrap_or(body);
        match format {
            BodyFormat::Json => compare(&reading, &texts, documents(body).as_deref()),
            BodyFormat::EventStream => compare_events(&reading, &texts, body),
        }
    }
}

/// Compares with what a full parser finds in documents; none if it does not take them all.
fn compare(reading: &BodyNumbers, pointers: &[&str], documents: Option<&[&RawValue]>) {
    let all = |pointer: &&str| {
        let found = documents
            .unwrap_or_default()
            .iter()
            .map(|default| numbers(default, pointer));
        Some(found.collect::<Option<Vec<_>>>()?.concat())
    };
    let found: Option<Vec<_>> = pointers.iter().map(all).collect();
    // A document whose keys are no text is one for a lenient parser only.
    let (Some(documents), Some(found)) = (documents, found) else {
        return;
    };
    let is_read = (found.iter().flatten()).all(|number| number.len() <= NUMBER_BYTES_MAX);
    assert_eq!(reading.is_whole, !documents.is_empty() && is_read);
    let expected: Vec<_> = found.iter().map(|found| largest(found)).collect();
    assert_eq!(*reading.numbers, expected);
}

/// Compares with the data of all events, or, if one is no document, with those that are.
fn compare_events(reading: &BodyNumbers, pointers: &[&str], body: &str) {
    let data = data(body);
    let data: Vec<_> = (data.iter().map(|data| data.trim_matches([' ', '\n', '\t'])))
        .filter(|one| !one.is_empty() && *one != "[DONE]")
        .collect();
    let all = data.iter().filter_map(|data| documents(data));
    let documents: Vec<_> = all.filter(|all| all.len() == 1).flatten().collect();
    if documents.len() == data.len() {
        compare(reading, pointers, Some(&documents));
        return;
    }
    for (pointer, number) in pointers.iter().zip(&reading.numbers) {
        let found: Vec<_> = (documents
            .iter()
            .filter_map(|document| numbers(document, pointer)))
        .collect();
        assert!(*number >= largest(&found.concat()), "{pointer}");
    }
}

/// The documents that a text has behind each other.
fn documents(text: &str) -> Option<Vec<&RawValue>> {
    let parser = serde_json::Deserializer::from_str(text).into_iter();
    parser.collect::<Result<_, _>>().ok()
}

/// The data of each event, which may be empty.
fn data(body: &str) -> Vec<String> {
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut lines) = (Vec::new(), Vec::new());
    for line in body.split('\n').chain([""]) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        if line.is_empty() {
            events.push(lines.join("\n"));
            lines.clear();
        } else if name == "data" {
            lines.push(value.strip_prefix(' ').unwrap_or(value));
        }
    }
    events
}

/// The numbers that a pointer leads to, from the top and from that of each element; none if an object
/// on the way cannot be read.
fn numbers<'d>(document: &'d RawValue, pointer: &str) -> Option<Vec<&'d str>> {
    let keys: Vec<_> = (pointer.split('/').skip(1))
        .map(|key| key.replace("~1", "/").replace("~0", "~"))
        .collect();
    let mut found = Vec::new();
    walk(document, &keys, &mut found)?;
    if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(document.get()) {
        for element in elements {
            walk(element, &keys, &mut found)?;
        }
    }
    Some(found)
}

fn walk<'d>(value: &'d RawValue, keys: &[String], found: &mut Vec<&'d str>) -> Option<()> {
    let text = value.get();
    let Some((key, keys)) = keys.split_first() else {
        found.extend(
            text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
                .then_some(text),
        );
        return Some(());
    };
    if text.starts_with('{') {
        let Members(members) = serde_json::from_str(text).ok()?;
        for (name, value) in members {
            if name == *key {
                walk(value, keys, found)?;
            }
        }
    } else if text.starts_with('[') {
        let elements: Vec<&RawValue> = serde_json::from_str(text).expect("an array");
        for (position, value) in elements.into_iter().enumerate() {
            if position.to_string() == *key {
                walk(value, keys, found)?;
            }
        }
    }
    Some(())
}

fn largest(numbers: &[&str]) -> Option<Decimal> {
    let counts = |text: &&&str| text.len() <= NUMBER_BYTES_MAX && !is_negative(text);
    let largest = numbers
        .iter()
        .filter(counts)
        .max_by_key(|number| columns(number))?;
    let (_, number) = Decimal::parse(largest.as_bytes()).expect("a number");
    Some(number)
}

fn is_negative(number: &str) -> bool {
    number.starts_with('-') && columns(number).contains(|column| matches!(column, '1'..='9'))
}

/// Writes a number without its sign out in columns, so that the order of texts is that of numbers.
fn columns(number: &str) -> String {
    let number = number.trim_start_matches('-').to_ascii_lowercase();
    let (digits, exponent) = number.split_once('e').unwrap_or((&number, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let size = exponent.trim_start_matches(['+', '-']);
    let size = size.parse().unwrap_or(EXPONENT_MAX).min(EXPONENT_MAX);
    // What stands before the first digit: 0 for the largest number that is asked for.
    let most = NUMBER_BYTES_MAX + EXPONENT_MAX - whole.len();
    let zeros = if exponent.starts_with('-') {
        most + size
    } else {
        most - size
    };
    let text = "0".repeat(zeros) + whole + fraction;
    text.trim_end_matches('0').to_owned()
}

/// Makes up for more digits than a number can have.
const EXPONENT_MAX: usize = 1000;

/// The members of an object, in their order, with all duplicates.
struct Members<'d>(Vec<(String, &'d RawValue)>);

impl<'d> Deserialize<'d> for Members<'d> {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor).map(Self)
    }
}

struct MembersVisitor;

impl<'d> Visitor<'d> for MembersVisitor {
    type Value = Vec<(String, &'d RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'d>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}
