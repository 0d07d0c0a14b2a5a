//! Bad files and the exact report of each: `tests/config/bad/NAME.toml` beside `NAME.txt`.
//!
//! `GOLDEN=write cargo test --test config` writes the reports anew; read the difference.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tollgate::config::read::read;

#[test]
fn bad_files_have_exactly_these_reports() {
    let rewrite = env::var("GOLDEN").is_ok_and(|how| how == "write");
    let (mut seen, mut different) = (0, String::new());
    for path in bad_files() {
        let text = fs::read_to_string(&path).expect("a readable file");
        let name = path.file_name().expect("a name").to_string_lossy();
        let rendered = report_of(&name, &text);
        let golden = path.with_extension("txt");
        if rewrite {
            fs::write(&golden, &rendered).expect("a writable directory");
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if rendered != expected {
            let _ = writeln!(
                different,
                "{name} reports\n{rendered}\ninstead of\n{expected}"
            );
        }
        seen += 1;
    }
    assert!(seen >= 22, "only {seen} files were found");
    assert!(different.is_empty(), "{different}");
}

#[test]
fn no_report_shows_a_secret_of_the_store() {
    for (text, secret) in [
        ("password = hunter2", "hunter2"),
        ("password = ['hunter2']", "hunter2"),
        ("password = { a = 'hunter2' }", "hunter2"),
        ("sentinel_password = 0x5eed2", "0x5eed2"),
        ("key_secret = 512.25", "512.25"),
        ("key_secret = 1979-05-27", "1979"),
        ("url = 'redis://:hunter2@h/x'", "hunter2"),
        ("url = 'redis://hunter2@h:0'", "hunter2"),
        ("url = 'redis://me:%zzhunter2@h'", "hunter2"),
        ("url = 'redis://:hunter2/@h'", "hunter2"),
        ("url = 'rediss+cluster://:hunter2@@h'", "hunter2"),
        ("url = 'redis+sentinel://:hunter2@h'", "hunter2"),
        ("url = \"redis://:hunter2@h\\u0001\"", "hunter2"),
        ("url = 'valkey://:hunter2@h'", "hunter2"),
    ] {
        let text = format!("[store]\n{text}\n");
        let (_, report) = read(&text, &variable);
        assert!(!report.is_empty(), "{text} has no mistake");
        let lines = report.lines("a.toml", &text).join("\n");
        let shown = report.render("a.toml", &text, false) + &lines;
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn a_report_in_color_says_the_same() {
    let text = "workers = 0\n";
    let (_, report) = read(text, &variable);
    let mut plain = String::new();
    for part in report.render("gateway.toml", text, true).split('\u{1b}') {
        plain += part
            .split_once('m')
            .filter(|_| part.starts_with('['))
            .map_or(part, |(_, rest)| rest);
    }
    assert_eq!(plain, report.render("gateway.toml", text, false));
}

/// Wherever a file is cut, each mistake that is found lies within it and is shown.
#[test]
fn a_file_cut_anywhere_is_reported_without_a_panic() {
    for path in bad_files() {
        let text = fs::read_to_string(&path)
            .expect("a readable file")
            .replace('\n', "\r\n");
        let cuts = text.char_indices().map(|(at, _)| at).step_by(5);
        for cut in cuts {
            for part in [&text[..cut], &text[cut..]] {
                let (_, report) = read(part, &variable);
                let lines = report.lines("cut.toml", part);
                assert_eq!(lines.len(), report.mistakes().len(), "{part}");
                let rendered = report.render("cut.toml", part, false);
                let shown = rendered
                    .lines()
                    .filter(|line| line.starts_with("error: "))
                    .count();
                assert_eq!(shown, lines.len(), "{part}\n{rendered}");
            }
        }
    }
}

fn report_of(name: &str, text: &str) -> String {
    let (_, report) = read(text, &variable);
    assert!(!report.is_empty(), "{name} has no mistakes");
    report.render(name, text, false)
}

fn variable(name: &str) -> Option<String> {
    match name {
        "SECRET" => Some("hunter2".to_owned()),
        "NUMBER" => Some("4".to_owned()),
        _ => None,
    }
}

fn bad_files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/bad");
    let entries = fs::read_dir(directory).expect("the directory of bad files");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|path| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.starts_with("read-") && name.ends_with(".toml")
    });
    files.sort();
    files
}
