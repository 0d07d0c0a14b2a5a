//! Bad files and the exact report of each: `tests/config/bad/NAME.toml` beside `NAME.txt`.
//!
//! `GOLDEN=write cargo test --test config` writes the reports anew; read the difference.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;

use tollgate::config::report::Report;
use tollgate::config::{ConfigText, load};
use tollgate::limit::plan::SeriesId;

use crate::compile::golden;
use crate::support::toml_files;

#[test]
fn bad_files_have_exactly_these_reports() {
    golden("tests/config/bad", 50, |name, text| {
        let path = Path::new("tests/config/bad").join(name);
        let report = report(ConfigText::of(&path, text));
        assert!(!report.is_empty(), "{name} has no mistakes");
        let lines = report.lines(name, text).join("\n");
        assert!(!lines.contains("hunter2"), "{lines}");
        report.render(name, text, false)
    });
}

#[test]
fn no_report_shows_a_secret_that_is_the_mistake() {
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
        ("url = 'valkey://:hunter2@h:0'", "hunter2"),
        ("url = redis://:hunter2@h:1", "hunter2"),
        ("url = 'redis://:hun\"hunter2@h:1'", "hunter2"),
        ("url = \"redis://:${PASSWORD}hunter2@h:1\"", "hunter2"),
        ("Password = 'hunter2'", "hunter2"),
        ("password = \"${NONE}hunter2\"", "hunter2"),
        ("key_secret = [\"\"\"hunter2\"\"\"]", "hunter2"),
        ("[admin]\ntoken = hunter2", "hunter2"),
        ("[admin]\ntoken = 'hunter2'", "hunter2"),
        (
            "[upstreams.api]\nendpoints = ['http://u:hunter2/x@h']",
            "hunter2",
        ),
    ] {
        let text = format!("[store]\n{text}\n");
        let report = report(&text);
        assert!(!report.is_empty(), "{text} has no mistake");
        let lines = report.lines("a.toml", &text).join("\n");
        let shown = report.render("a.toml", &text, false) + &lines;
        assert!(!shown.contains(secret), "{shown}");
        // The line at fault has the secret, so it is shown with asterisks.
        assert!(shown.contains('*'), "{shown}");
    }
}

/// The message or the hint quotes each of these values, and so would show the secret.
#[test]
fn a_password_is_redacted_before_a_message_quotes_it() {
    let listener = "[listeners.a]\naddress = '127.0.0.1:0'\n";
    let route = "[[routes]]\npath = '/'\n";
    let upstream =
        "[upstreams.a]\nendpoints = 'builtin:echo'\n[[routes]]\npath = '/'\nupstream = 'a'\n";
    for (table, line, message) in [
        (
            listener,
            "client_address = 'redis://:hunter2@h'",
            "`redis://:***@h` is not a known value",
        ),
        (
            listener,
            "idle_timeout = 'redis://:hunter2@h'",
            "`redis://:***@h` is not a duration",
        ),
        (
            listener,
            "trusted_proxies = 'redis://:hunter2@h'",
            "`trusted_proxies` must be a list, not a string",
        ),
        (
            listener,
            "trusted_proxies = ['redis://:hunter2@h']",
            "`redis://:***@h` is not a network",
        ),
        (
            listener,
            "idle_timeout = redis://:hunter2@h",
            "this value is not in quotes",
        ),
        (
            listener,
            "'redis://:hunter2@h' = 1",
            "unknown key `redis://:***@h`",
        ),
        (listener, "token = hunter2", "this value is not in quotes"),
        (
            route,
            "upstream = 'redis://:hunter2@h'",
            "there is no upstream `redis://:***@h`",
        ),
        (
            route,
            "headers = { 'redis://:hunter2@h' = '1' }",
            "`redis://:***@h` is not a header's name",
        ),
        (
            upstream,
            "policies = ['redis://:hunter2@h']",
            "there is no policy `redis://:***@h`",
        ),
        (
            upstream,
            "strip_prefix = 'redis://:hunter2@h'",
            "`strip_prefix` of `redis://:***@h` strips no segment",
        ),
    ] {
        let text = format!("{table}{line}\n");
        let report = report(&text);
        let lines = report.lines("a.toml", &text);
        assert!(lines.iter().any(|line| line.contains(message)), "{lines:?}");
        let shown = report.render("a.toml", &text, false) + &lines.join("\n");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn each_file_of_a_pattern_is_judged_whatever_is_wrong_with_another() {
    let dir = tempfile::tempdir().expect("a directory");
    symlink("nowhere", dir.path().join("10.toml")).expect("a link");
    fs::create_dir(dir.path().join("20.toml")).expect("a directory");
    fs::write(dir.path().join("30.toml"), "workers = 0\n").expect("a file");
    let (path, text) = (dir.path().join("a.toml"), "include = ['*.toml']\n");
    let lines = report(ConfigText::of(&path, text)).lines("a.toml", text);
    let shown = |name: &str| dir.path().join(name).display().to_string();
    for begin in [
        format!("a.toml:1:12: `{}` cannot be read", shown("10.toml")),
        format!("a.toml:1:12: `{}` is a directory", shown("20.toml")),
        format!("{}:1:11: `0` is out of range", shown("30.toml")),
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(&begin)),
            "{lines:#?}"
        );
    }
}

#[test]
fn a_path_of_include_is_said_without_its_secret() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("hunter2")).expect("a directory");
    let path = dir.path().join("a.toml");
    for (text, message) in [
        ("include = ['${SECRET}']", "this path is a directory"),
        (
            "include = ['redis://:hunter2@h']",
            "redis://:***@h` cannot be read",
        ),
        (
            "include = ['redis://:hunter2@h*']",
            "`redis://:***@h*` is in a directory that cannot be read",
        ),
    ] {
        let report = report(ConfigText::of(&path, text));
        let lines = report.lines("a.toml", text);
        assert!(lines.iter().any(|line| line.contains(message)), "{lines:?}");
        let shown = report.render("a.toml", text, false) + &lines.join("\n");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn the_name_of_an_included_file_looks_like_no_mistake_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let name = "a\u{1b}[31m\nerror: b.toml";
    fs::write(dir.path().join(name), "workers = 0\nworkers = 0\n").expect("a file");
    let (path, text) = (dir.path().join("a"), "include = ['*.toml']\nworkers = 1\n");
    let report = report(ConfigText::of(&path, text));
    let shown = report.render("a", text, false) + &report.lines("a", text).join("\n");
    assert!(shown.contains("a␛[31m␊error: b.toml:1:1"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert!(!shown.contains("\nerror: b.toml"), "{shown}");
}

#[test]
fn included_files_have_a_bound_together_and_too_many_are_one_mistake() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |number: usize, text: &str| {
        fs::write(dir.path().join(format!("{number}.part")), text).expect("a file");
    };
    let good = include_str!("good/smallest.toml");
    let (path, text) = (
        dir.path().join("a"),
        format!("include = ['*.part']\n{good}"),
    );
    let mistakes = || report(ConfigText::of(&path, &text)).lines("a", &text);
    (0..1000).for_each(|number| write(number, "# no key"));
    assert_eq!(mistakes(), Vec::<String>::new());
    write(0, &"#".repeat(16 << 20));
    let bytes = "all included files together have at most 16777216 bytes";
    assert!(mistakes()[0].contains(bytes), "{}", mistakes()[0]);
    write(0, "");
    (1000..1002).for_each(|number| write(number, ""));
    let [too_many] = &mistakes()[..] else {
        panic!("not one mistake: {:#?}", mistakes());
    };
    for part in ["is one file too many", "`include` takes at most 1000 files"] {
        assert!(too_many.contains(part), "{too_many}");
    }
}

/// A short password may also occur in a message's own words, which are not the password.
#[test]
fn a_sentence_is_whole_whatever_the_password_is() {
    for (text, message) in [
        (
            "[upstreams.a]\nendpoints = ['http://u:name@h']",
            "this URL contains a user name or a password",
        ),
        (
            "[store]\nurl = 'redis://:a@h/x'",
            "this URL has a database that is not a number",
        ),
        (
            "[store]\nurl = 'redis://:e@h:0'",
            "this URL has a port that is not a number from 1 to 65535",
        ),
    ] {
        let report = report(text);
        let lines = report.lines("a.toml", text);
        assert!(lines.iter().any(|line| line.contains(message)), "{lines:?}");
        assert!(report.render("a.toml", text, false).contains(message));
    }
}

#[test]
fn a_report_in_color_says_the_same() {
    let text = "workers = 0\n";
    let report = report(text);
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
    let files = toml_files("tests/config/bad");
    // Two files at once, because no other of these tests takes as long.
    thread::scope(|scope| {
        for first in 0..2 {
            let files = files.iter().enumerate().skip(first).step_by(2);
            scope.spawn(|| files.for_each(|(index, path)| cut_anywhere(index, path)));
        }
    });
}

fn cut_anywhere(index: usize, path: &Path) {
    let text = fs::read_to_string(path)
        .expect("a readable file")
        .replace('\n', "\r\n");
    // Each file is cut elsewhere, so that together they are cut in every kind of place.
    let cuts = text.char_indices().map(|(at, _)| at);
    let cuts = cuts.skip(index % STRIDE).step_by(STRIDE);
    for cut in cuts {
        for part in [&text[..cut], &text[cut..]] {
            let report = report(part);
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

/// Characters between two cuts of one file.
const STRIDE: usize = 17;

/// Loads a file as the gateway does, and asserts that a bad one asks the store for no series id.
fn report<'t>(config: impl Into<ConfigText<'t>>) -> Report {
    let config = config.into();
    let mut is_asked = false;
    let loaded = load(config, &variable, &mut |_| {
        is_asked = true;
        SeriesId(0)
    });
    let report = loaded.map(drop).err().unwrap_or_default();
    assert!(
        !is_asked || report.is_empty(),
        "{} asks for a series id",
        config.text
    );
    report
}

fn variable(name: &str) -> Option<String> {
    match name {
        "SECRET" => Some("hunter2".to_owned()),
        "NUMBER" => Some("4".to_owned()),
        "URLS" => Some("http://a:1, hunter2, ,http://b:1".to_owned()),
        "ARRAY" => Some("[\"GET\", \"POST\"]".to_owned()),
        "NAMES" => Some("hunter2,hunter2".to_owned()),
        _ => None,
    }
}
