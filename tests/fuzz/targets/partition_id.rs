//! Digests: different lists of parts have different digests.

use tollgate::limit::PartitionId;
use tollgate::limit::partition_id::PartitionHasher;

use super::lines;

type Parts = Vec<(String, Vec<u8>)>;

/// The input: one part per line, its name and value separated by a tab; `--` ends a list.
pub fn holds(data: &[u8]) {
    let mut lists: Vec<Parts> = lines(data)
        .collect::<Vec<_>>()
        .split(|line| *line == b"--")
        .take(LISTS_MAX)
        .map(|lines| {
            lines
                .iter()
                .take(PARTS_MAX)
                .map(|line| part(line))
                .collect()
        })
        .collect();
    let shifted: Vec<Parts> = lists.iter().flat_map(shifts).collect();
    lists.extend(shifted);
    let digests: Vec<PartitionId> = lists.iter().map(|parts| digest(&[7; 32], parts)).collect();
    for (index, one) in lists.iter().enumerate() {
        assert_ne!(digest(&[8; 32], one), digests[index], "the key counts");
        for (other, parts) in lists.iter().enumerate().skip(index) {
            let are_equal = digests[index] == digests[other];
            assert_eq!(are_equal, one == parts, "{one:?} and {parts:?}");
        }
    }
}

fn part(line: &[u8]) -> (String, Vec<u8>) {
    let tab = line.iter().position(|&byte| byte == b'\t');
    let (name, value) = line.split_at(tab.unwrap_or(line.len()));
    let value = value.get(1..).unwrap_or_default();
    (String::from_utf8_lossy(name).into_owned(), value.to_vec())
}

/// Returns the list reversed, and the same bytes divided differently: `a:b` and `c`, `a` and `b:c`.
fn shifts(parts: &Parts) -> Vec<Parts> {
    let mut shifts = vec![parts.iter().rev().cloned().collect()];
    for index in 0..parts.len() {
        let mut shift = parts.clone();
        let (name, value) = &mut shift[index];
        if let Some(last) = name.pop() {
            value.splice(..0, last.to_string().into_bytes());
            shifts.push(shift);
        }
        let mut shift = parts.clone();
        if let Some(moved) = shift[index].1.pop() {
            match shift.get_mut(index + 1) {
                Some((name, _)) if moved.is_ascii() => name.insert(0, char::from(moved)),
                Some(_) => continue,
                None => shift.push((String::new(), vec![moved])),
            }
            shifts.push(shift);
        }
        if index + 1 < parts.len() {
            let mut shift = parts.clone();
            let (name, value) = shift.remove(index + 1);
            shift[index].1.extend(name.bytes().chain(value));
            shifts.push(shift);
        }
    }
    shifts
}

fn digest(key: &[u8; 32], parts: &Parts) -> PartitionId {
    let mut tagger = PartitionHasher::new(key);
    for (name, value) in parts {
        tagger.part(name, value);
    }
    tagger.finish()
}

const LISTS_MAX: usize = 4;
const PARTS_MAX: usize = 6;
