//! Numbers in bodies: however a body is cut, the reader finds what a full parser finds at its pointers.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use tollgate::cost::{
    BodyFormat, BodyNumbers, Decimal, JsonPointer, NUMBER_BYTES_MAX, NumberReader, PointerUse,
    Pointers, Take,
};

use super::text;

/// The input: `json` or `events`, a line of pointers separated by spaces, and the body. A `?` before a pointer makes it
/// one to a member, whose numbers are not compared.
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
    let parse = |text: &&str| {
        let (text, sought) = match text.strip_prefix('?') {
            Some(member) => (member, PointerUse::Member),
            None => (*text, PointerUse::Number(Take::Largest)),
        };
        JsonPointer::parse(text).map(|pointer| (pointer, sought))
    };
    let parsed: Result<Vec<_>, _> = texts.iter().map(parse).collect();
    let Some(Ok(pointers)) = parsed.ok().map(|parsed| Pointers::new(&parsed)) else {
        return;
    };
    let pointers = Arc::new(pointers);
    let read = |pieces: &[&[u8]]| {
        let mut reader = NumberReader::new(pointers.clone(), format, Some("end".into()));
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

/// Compares with what a full parser finds in the documents; these are `None` if it does not accept them all.
fn compare(reading: &BodyNumbers, pointers: &[&str], documents: Option<&[&RawValue]>) {
    let mut is_read = true;
    let all = |pointer: &&str| {
        let found = documents.unwrap_or_default().iter();
        found
            .map(|document| numbers(document, pointer, &mut is_read))
            .collect::<Option<Vec<_>>>()
    };
    let found: Option<Vec<_>> = pointers.iter().map(all).collect();
    // Documents whose keys are not text are accepted by a lenient parser only.
    let (Some(documents), Some(found)) = (documents, found) else {
        return;
    };
    assert_eq!(reading.is_whole, !documents.is_empty() && is_read);
    let expected: Vec<_> = found
        .iter()
        .map(|found| largest(found.iter().flatten()))
        .collect();
    let of_numbers = |at: &usize| !pointers[*at].starts_with('?');
    for at in (0..pointers.len()).filter(of_numbers) {
        let read = reading.numbers[at].as_ref().map(columns);
        assert_eq!(read, expected[at], "{}", pointers[at]);
    }
}

/// Compares with the data of all events; if some are not documents, the others are a lower bound.
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
        let found = documents.iter();
        let found = found.filter_map(|document| numbers(document, pointer, &mut true));
        let found: Vec<_> = found.flatten().collect();
        let is_member = pointer.starts_with('?');
        assert!(
            is_member || number.as_ref().map(columns) >= largest(found.iter()),
            "{pointer}"
        );
    }
}

/// Returns the documents of a text, each on lines of its own.
fn documents(text: &str) -> Option<Vec<&RawValue>> {
    let mut parser = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let (mut documents, mut before) = (Vec::new(), 0);
    while let Some(document) = parser.next() {
        let document = document.ok()?;
        let end = parser.byte_offset();
        let begin = end - document.get().len();
        if !documents.is_empty() && !text[before..begin].contains('\n') {
            return None;
        }
        before = end;
        documents.push(document);
    }
    Some(documents)
}

/// Returns the data of each event, which may be empty.
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

/// Returns the numbers at a pointer in a document and in each of its elements, as [`columns`]; `None` if an object on
/// the way cannot be read. A number that is too long makes `is_read` false.
fn numbers(document: &RawValue, pointer: &str, is_read: &mut bool) -> Option<Vec<String>> {
    let pointer = pointer.trim_start_matches('?');
    let keys: Vec<_> = (pointer.split('/').skip(1))
        .map(|key| (key == "*", key.replace("~1", "/").replace("~0", "~")))
        .collect();
    let mut found = walk(document, &keys, is_read)?;
    if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(document.get()) {
        for element in elements {
            found.extend(walk(element, &keys, is_read)?);
        }
    }
    Some(found)
}

/// Returns the largest number under a key, or the sum of those under `*`; nothing if there is none.
fn walk(value: &RawValue, keys: &[(bool, String)], is_read: &mut bool) -> Option<Vec<String>> {
    let text = value.get();
    let Some(((is_every, key), keys)) = keys.split_first() else {
        let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let is_short = text.len() <= NUMBER_BYTES_MAX;
        *is_read &= is_short || !is_number;
        let number = (is_number && is_short).then(|| Decimal::parse(text.as_bytes()));
        let size = number.flatten().filter(|(is_negative, _)| !is_negative);
        return Some(size.iter().map(|(_, size)| columns(size)).collect());
    };
    let values = if text.starts_with('{') {
        serde_json::from_str::<Members>(text).ok()?.0
    } else if text.starts_with('[') {
        let elements: Vec<&RawValue> = serde_json::from_str(text).expect("an array");
        let positions = (0..).map(|position: usize| position.to_string());
        positions.zip(elements).collect()
    } else {
        Vec::new()
    };
    let mut found = Vec::new();
    for (name, value) in values {
        if !is_every && name != *key {
            continue;
        }
        found.extend(walk(value, keys, is_read)?);
    }
    let joined = if *is_every {
        found.into_iter().reduce(|one, other| sum(&one, &other))
    } else {
        found.into_iter().max()
    };
    Some(joined.into_iter().collect())
}

fn largest<'n>(numbers: impl Iterator<Item = &'n String>) -> Option<String> {
    numbers.max().cloned()
}

/// Writes a number with as many digits before its point as the largest one that is read has, so that the order of texts
/// is that of numbers.
fn columns(number: &Decimal) -> String {
    let text = number.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    format!("{whole:0>WHOLE_DIGITS$}.{fraction}")
}

/// Adds digit by digit, and caps the sum at the largest number.
fn sum(one: &str, other: &str) -> String {
    let length = one.len().max(other.len());
    let padded = |text: &str| format!("{text:0<length$}").into_bytes();
    let (mut digits, mut carry) = (padded(one), 0);
    for (digit, added) in digits.iter_mut().zip(padded(other)).rev() {
        if *digit != b'.' {
            let sum = (*digit - b'0') + (added - b'0') + carry;
            (*digit, carry) = (b'0' + sum % 10, sum / 10);
        }
    }
    let text = String::from_utf8(digits).expect("digits");
    let most = format!("1{}.", "0".repeat(WHOLE_DIGITS - 1));
    text.trim_end_matches('0').to_owned().min(most)
}

/// Digits before the point of 1e40, the largest number.
const WHOLE_DIGITS: usize = 41;

/// Members of an object, in their order, including duplicates.
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
