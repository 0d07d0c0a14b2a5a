//! Makes hostile input: seeds, and what results from replacing pieces of them by others.
//!
//! `seeds/NAME.txt` has one seed per line, spelled as `printf '%b'` reads it (`\n`, `\\`, `\x00`),
//! so that a seed says what it is and `scripts/fuzz` can unfold them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{env, fs};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};

/// Runs `target` on every seed, then on `cases` inputs made from them; `FUZZ_TIMES=100` makes a
/// hundred times as many.
pub fn run(target: impl Fn(&[u8]), seeds: &[Vec<u8>], cases: u32) {
    for seed in seeds {
        let outcome = catch_unwind(AssertUnwindSafe(|| target(seed)));
        assert!(outcome.is_ok(), "the seed is {}", seed.escape_ascii());
    }
    let times = env::var("FUZZ_TIMES").map_or(1, |times| times.parse().expect("a number"));
    let config = Config {
        cases: cases * times,
        // A finding becomes a seed, which says what it is; a number in a file does not.
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&input(seeds), |Input(bytes)| {
        target(&bytes);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Returns the seeds of `seeds/NAME.txt`; empty lines and those that begin with `# ` are for the reader.
pub fn lines(name: &str) -> Vec<Vec<u8>> {
    let file = format!("tests/fuzz/seeds/{name}.txt");
    let text = fs::read_to_string(at(&file)).expect(&file);
    let seeds = text.lines().filter(|line| !is_comment(line));
    let seeds: Vec<_> = seeds.map(unescaped).collect();
    assert!(!seeds.is_empty(), "{file} has no seed");
    seeds
}

/// Returns the content of the `.toml` files in these folders.
pub fn files(folders: &[&str]) -> Vec<Vec<u8>> {
    let entries = folders
        .iter()
        .flat_map(|folder| fs::read_dir(at(folder)).expect(folder));
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    paths.sort();
    let read = |path| fs::read(path).expect("a readable file");
    paths.into_iter().map(read).collect()
}

/// Returns the location of a path of the project.
pub fn at(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn is_comment(line: &str) -> bool {
    line.is_empty() || line.starts_with("# ")
}

fn unescaped(line: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = line.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match rest.next() {
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let digits = [rest.next(), rest.next()].map(Option::unwrap_or_default);
                let digits = str::from_utf8(&digits).expect(line);
                u8::from_str_radix(digits, 16).expect(line)
            }
            _ => panic!("{line} has an escape of another kind"),
        });
    }
    out
}

/// An input; it is shown as a byte string is in source.
#[derive(Clone)]
struct Input(Vec<u8>);

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// Makes seeds, some of whose bytes are replaced by pieces.
fn input(seeds: &[Vec<u8>]) -> impl Strategy<Value = Input> + use<> {
    let mut bases = seeds.to_vec();
    bases.push(Vec::new());
    let of_seed =
        (select(seeds.to_vec()), any::<Index>(), 0..40_usize).prop_map(|(seed, from, length)| {
            let from = from.index(seed.len() + 1);
            seed[from..seed.len().min(from + length)].to_vec()
        });
    let piece = prop_oneof![
        3 => of_seed,
        3 => select(PIECES).prop_map(<[u8]>::to_vec),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    let edits = prop::collection::vec((any::<Index>(), 0..6_usize, piece), 0..8);
    (select(bases), edits).prop_map(|(mut bytes, edits)| {
        for (at, removed, piece) in edits {
            let at = at.index(bytes.len() + 1);
            let end = bytes.len().min(at + removed);
            bytes.splice(at..end, piece);
        }
        Input(bytes)
    })
}

/// Pieces that mean something in one syntax or another.
const PIECES: &[&[u8]] = &[
    b"\n",
    b"\n--\n",
    b"/",
    b"//",
    b"/../",
    b"..",
    b".",
    b"%2e",
    b"%2F",
    b"%5c",
    b"%00",
    b"%3A",
    b"%3b",
    b"%25",
    b"%61",
    b"%zz",
    b"%",
    b"\\",
    b";",
    b":",
    b",",
    b", ",
    b" , ,",
    b"=",
    b"|",
    b"\"",
    b"\\\"",
    b"'",
    b"[",
    b"]",
    b"{",
    b"}",
    b"${",
    b"#",
    b"?",
    b"@",
    b"*",
    b"_",
    b"-",
    b"+",
    b"0",
    b"18446744073709551616",
    b"10.9.9.9",
    b"::ffff:10.0.0.1",
    b"203.0.113.9:55",
    b"[2001:db8::1]:5",
    b"for=",
    b"unknown",
    b"\r",
    b"\r\n",
    b"\t",
    b" ",
    b"\0",
    b"\x1b[",
    b"\x7f",
    b"\x80",
    b"\xff",
    "é".as_bytes(),
    "\u{2028}".as_bytes(),
    "\u{ff4c}".as_bytes(),
];
