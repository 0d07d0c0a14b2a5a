//! `tollgate check` as an operator runs it: what it prints where, and its exit status.

use std::fs;
use std::process::{Command, Output};

use crate::support::{Config, Process, eventually};

fn check(arguments: &[&str], folder: &tempfile::TempDir) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .arg("check")
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .expect("the binary runs")
}

fn folder(name: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join(name), text).expect("a writable folder");
    folder
}

const GOOD: &str = include_str!("../config/good/smallest.toml");
const SUMMARY: &str = include_str!("../config/good/smallest.txt");
const BAD: &str = include_str!("../config/bad/compile-empty.toml");
const REPORT: &str = include_str!("../config/bad/compile-empty.txt");

#[test]
fn a_good_file_is_summed_up_on_standard_output_and_exits_with_0() {
    let folder = folder("smallest.toml", GOOD);
    for arguments in [["smallest.toml"].as_slice(), &["--config", "smallest.toml"]] {
        let output = check(arguments, &folder);
        assert_eq!(String::from_utf8_lossy(&output.stdout), SUMMARY);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn a_bad_file_is_reported_on_standard_error_and_exits_with_78() {
    let folder = folder("compile-empty.toml", BAD);
    let output = check(&["compile-empty.toml"], &folder);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert_eq!(String::from_utf8_lossy(&output.stderr), REPORT);
    assert_eq!(output.status.code(), Some(78));
}

#[test]
fn words_of_other_programs_are_answered_with_the_right_command() {
    for (argument, status, stdout, stderr) in [
        (
            "version",
            0,
            concat!("tollgate ", env!("CARGO_PKG_VERSION"), "\n"),
            "",
        ),
        (
            "-t",
            2,
            "",
            "tollgate: `-t` is unknown: `tollgate check FILE` checks a file\n",
        ),
        (
            "my.toml",
            2,
            "",
            "tollgate: `my.toml` is no command: `tollgate --config my.toml` runs this file, \
             `tollgate check my.toml` checks it\n",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .arg(argument)
            .output()
            .expect("the binary runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), stdout);
        assert_eq!(String::from_utf8_lossy(&output.stderr), stderr);
        assert_eq!(output.status.code(), Some(status), "{argument}");
    }
}

#[test]
fn a_gateway_without_its_file_says_how_to_name_one() {
    let folder = folder("other.toml", GOOD);
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("tollgate: gateway.toml: cannot be read: "),
        "{said}"
    );
    assert!(
        said.ends_with("; name the file with `--config FILE`\n"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(78));
}

#[test]
fn a_file_that_is_not_there_is_named_and_exits_with_78() {
    let folder = folder("other.toml", GOOD);
    let output = check(&[], &folder);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("gateway.toml: cannot be read: "), "{said}");
    assert!(
        said.contains("name the file with `--config FILE`"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(78));
}

#[test]
fn a_certificate_that_has_expired_is_warned_of() {
    let tls = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/tls");
    let listener = format!(
        "[listeners.edge]\naddress = '127.0.0.1:0'\n[listeners.edge.tls]\n\
         certificates = [{{ certificate = '{tls}/expired.pem', key = '{tls}/expired.key' }}]\n"
    );
    let folder = folder("expired.toml", &format!("{listener}{GOOD}"));
    let output = check(&["expired.toml"], &folder);
    let said = String::from_utf8_lossy(&output.stdout);
    let warning = "  listener `edge`: the certificate of `expired.example.com` expired ";
    assert!(said.contains(warning), "{said}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn white_space_around_the_value_of_a_variable_is_warned_of() {
    let padded = "[store]\nkey_secret = '${file:secret}'\nprefix = '${PREFIX:-plain}'\n";
    for (content, is_warned) in [
        ("secret\n", false),
        ("secret \n", true),
        ("secret\n\n", true),
        ("\tsecret", true),
    ] {
        let folder = folder("gateway.toml", &format!("{padded}{GOOD}"));
        fs::write(folder.path().join("secret"), content).expect("a writable folder");
        let output = check(&[], &folder);
        let said = String::from_utf8_lossy(&output.stdout);
        let warning =
            "  `key_secret`: the value of `${file:secret}` begins or ends with white space";
        assert_eq!(said.contains(warning), is_warned, "{content:?}: {said}");
        assert_eq!(output.status.code(), Some(0), "{content:?}");
    }
}

/// The value of an environment variable is not shown, and neither is what is around it.
#[test]
fn white_space_around_a_variable_is_logged_at_the_start_and_at_a_reload() {
    let folder = folder("body", "slow down \n");
    let file = folder.path().join("body");
    let config = |name: &str| {
        let refusal = format!(
            "[policies.{name}.refusal]\nbody = '${{file:{}}}'",
            file.display()
        );
        Config::limited("builtin:echo", "quota = '1 per hour'")
            .policy(name, "quota = '1 per hour'")
            .with(&refusal)
    };
    let warning = [
        "probably not what was meant",
        "`body`: the value of `${file:",
        "white space",
    ];
    let process = Process::start(&config("one"));
    process.wait_for_line(&warning);
    fs::write(&file, "slow down").expect("a writable folder");
    process.rewrite(&config("two"));
    process.signal("HUP");
    process.wait_for_line(&["the new configuration is in effect"]);
    let warned = |process: &Process| {
        process
            .lines()
            .iter()
            .filter(|line| line.contains(warning[1]))
            .count()
    };
    assert_eq!(warned(&process), 1);
    fs::write(&file, " slow down").expect("a writable folder");
    process.rewrite(&config("one"));
    process.signal("HUP");
    eventually("the reload warns", || (warned(&process) == 2).then_some(()));
    assert!(
        !process
            .lines()
            .iter()
            .any(|line| line.contains("slow down"))
    );
}
