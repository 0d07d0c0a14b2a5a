//! `tollgate check` as an operator runs it: what it prints where, and its exit status.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::process::{Ran, tollgate};
use crate::support::{Config, Process};

fn check(arguments: &[&str], folder: &tempfile::TempDir) -> Ran {
    tollgate(&[&["check"], arguments].concat(), folder.path())
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
        assert_eq!(output.stdout, SUMMARY);
        assert_eq!(output.stderr, "");
        assert_eq!(output.status, Some(0));
    }
}

#[test]
fn a_bad_file_is_reported_on_standard_error_and_exits_with_78() {
    let folder = folder("compile-empty.toml", BAD);
    let output = check(&["compile-empty.toml"], &folder);
    assert_eq!(output.stdout, "");
    assert_eq!(output.stderr, REPORT);
    assert_eq!(output.status, Some(78));
}

#[test]
fn included_files_are_beside_the_file_and_it_is_not_read_twice() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let text = include_str!("../config/good/smallest.toml");
    fs::create_dir(at("etc")).expect("a writable folder");
    fs::write(
        at("etc/gateway.toml"),
        format!("include = ['*.toml']\n{text}"),
    )
    .expect("a file");
    fs::write(at("etc/b.toml"), "workers = 2\n").expect("a file");
    fs::write(at("c.toml"), "no TOML").expect("a file");
    symlink("b.toml", at("etc/c.toml")).expect("a link");
    let check = |folder: &str, file: &str| tollgate(&["check", file], &at(folder)).said();
    let said = check("", "etc/gateway.toml");
    assert!(
        said.contains("no mistakes\n\nincluded files\n  etc/b.toml\n\n"),
        "{said}"
    );
    let said = check("etc", "gateway.toml");
    assert!(
        said.contains("no mistakes\n\nincluded files\n  b.toml\n\n"),
        "{said}"
    );
}

#[test]
fn a_strict_check_takes_warnings_for_mistakes() {
    let unused = format!("{GOOD}\n[policies.unused]\nquota = \"1 per minute\"\n");
    for (text, arguments, status) in [
        (GOOD, &["a.toml", "--strict"][..], 0),
        (&unused, &["a.toml"], 0),
        (&unused, &["a.toml", "--strict"], 78),
    ] {
        let output = check(arguments, &folder("a.toml", text));
        assert_eq!(output.status, Some(status), "{arguments:?}");
    }
}

#[test]
fn no_recipe_of_the_cookbook_has_a_warning() {
    let recipes = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cookbook");
    let folder = folder("unused.toml", "");
    for recipe in fs::read_dir(recipes).expect("recipes") {
        let path = recipe.expect("a recipe").path();
        let path = path.to_str().expect("text");
        let output = check(&["--strict", "--without-secrets", path], &folder);
        let said = output.stderr;
        assert_eq!(output.status, Some(0), "{path}: {said}");
    }
}

#[test]
fn words_of_other_programs_are_answered_with_the_right_command() {
    let ran = tollgate(&["-t"], Path::new("."));
    let instead = "tollgate: `-t` is unknown: `tollgate check FILE` checks a file\n";
    assert_eq!((&*ran.stdout, &*ran.stderr), ("", instead));
    assert_eq!(ran.status, Some(2));
}

#[test]
fn version_says_which_build_is_installed_and_which_one_runs() {
    let version = |file: &Path| {
        let file = file.to_str().expect("text");
        let ran = tollgate(&["version", "--config", file], Path::new("."));
        assert_eq!(ran.status, Some(0));
        ran.stdout
    };
    let mut process = Process::start(&Config::to("builtin:echo").route("/*", ""));
    let profile = ["release", "debug"][usize::from(cfg!(debug_assertions))];
    let (number, system) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let installed = format!(
        "tollgate {number}\ncommit   not recorded\nprofile  {profile}\nsystem   linux {system}\n"
    );
    let running = format!("running  {number}, commit not recorded, {profile}\n");
    assert_eq!(version(process.file()), format!("{installed}{running}"));
    process.signal("INT");
    process.wait();
    let after = version(process.file());
    let none = after.strip_prefix(&installed).expect("the same build");
    assert!(
        none.starts_with("running  unknown: no gateway listens at "),
        "{none}"
    );
}

#[test]
fn a_first_file_is_written_once_and_is_good() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tollgate = |arguments: &[&str]| {
        let ran = tollgate(arguments, folder.path());
        (ran.status, ran.said())
    };
    let (status, said) = tollgate(&["init", "--upstream", "ftp://a"]);
    assert_eq!(status, Some(78));
    assert!(said.contains("`--upstream ftp://a`"), "{said}");
    let (status, said) = tollgate(&["init", "--upstream", "http://127.0.0.1:9000"]);
    assert_eq!(status, Some(0), "{said}");
    let written = fs::read_to_string(folder.path().join("gateway.toml")).expect("a file");
    assert!(
        written.contains("endpoints = [\"http://127.0.0.1:9000\"]"),
        "{written}"
    );
    let token = folder.path().join("admin_token");
    let first = fs::read_to_string(&token).expect("a token");
    assert_eq!(first.trim_end().len(), 64, "{first}");
    let mode = fs::metadata(&token).expect("a token").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        written.contains("token = \"${file:admin_token}\""),
        "{written}"
    );
    assert_eq!(tollgate(&["check"]).0, Some(0));
    let (status, said) = tollgate(&["init", "--config", "other.toml"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("admin_token exists already"), "{said}");
    assert!(!folder.path().join("other.toml").exists());
    assert_eq!(fs::read_to_string(&token).expect("a token"), first);
    let (status, said) = tollgate(&["init"]);
    assert_eq!(
        (status, said.as_str()),
        (
            Some(1),
            "tollgate: gateway.toml exists already, and is left as it is\n"
        )
    );
    let kept = fs::read_to_string(folder.path().join("gateway.toml")).expect("a file");
    assert_eq!(kept, written);
}

#[test]
fn a_file_that_is_not_there_is_named_and_how_to_name_another_and_exits_with_78() {
    let folder = folder("other.toml", GOOD);
    for (arguments, file) in [
        (&[][..], "tollgate: gateway.toml"),
        (&["check"], "gateway.toml"),
        (&["--config", "/none/a.toml"], "tollgate: /none/a.toml"),
    ] {
        let output = tollgate(arguments, folder.path());
        let said = output.stderr;
        let beginning = format!("{file}: there is no file ");
        assert!(said.starts_with(&beginning), "{said}");
        let hint = "name another with `--config FILE`, or write a first one with `tollgate init`";
        assert!(said.contains(hint), "{said}");
        assert_eq!(output.status, Some(78));
    }
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
    let said = output.stdout;
    let warning = "  listener `edge`: the certificate of `expired.example.com` expired ";
    assert!(said.contains(warning), "{said}");
    assert_eq!(output.status, Some(0));
}

#[test]
fn white_space_around_the_value_of_a_variable_is_warned_of() {
    let padded = "[store]\nkey_secret = '${file:secret}'\nprefix = '${PREFIX:-plain}'\n";
    for (content, is_warned) in [("hunter2\n", false), ("hunter2 \n", true)] {
        let folder = folder("gateway.toml", &format!("{padded}{GOOD}"));
        fs::write(folder.path().join("secret"), content).expect("a writable folder");
        let output = check(&[], &folder);
        let said = output.stdout;
        let warning =
            "  `key_secret`: the value of `${file:secret}` begins or ends with white space";
        assert_eq!(said.contains(warning), is_warned, "{content:?}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
        assert_eq!(output.status, Some(0), "{content:?}");
    }
}

#[test]
fn a_check_without_secrets_assumes_what_is_missing_and_nothing_else() {
    let secret = "[store]\nkey_secret = '${file:secret}'\n";
    let token = "admin = { token = '${file:secret}' }\n";
    let missing = "assumed to be there\n  ${file:secret}\n";
    for (text, content, arguments, status, said) in [
        (GOOD, None, &["--without-secrets"][..], 0, ": no mistakes\n"),
        (secret, None, &[], 78, "cannot be read"),
        (secret, None, &["--without-secrets"], 0, missing),
        (secret, None, &["--without-secrets", "--strict"], 0, missing),
        (token, None, &["--without-secrets", "--strict"], 0, missing),
        (
            secret,
            Some("short"),
            &["--without-secrets", "--strict"],
            78,
            "is shorter than",
        ),
        (
            secret,
            Some("sixteen or more bytes"),
            &["--without-secrets", "--strict"],
            0,
            ": no mistakes\n",
        ),
        (
            "workers = '${NO_SUCH}'\nworker = 2\n",
            None,
            &["--without-secrets"],
            78,
            "1 mistake\n",
        ),
    ] {
        let text = if text == GOOD {
            text.to_owned()
        } else {
            format!("{text}{GOOD}")
        };
        let folder = folder("gateway.toml", &text);
        if let Some(content) = content {
            fs::write(folder.path().join("secret"), content).expect("a writable folder");
        }
        let output = check(arguments, &folder);
        let all = output.said();
        assert!(all.contains(said), "{text}{arguments:?}: {all}");
        assert_eq!(output.status, Some(status), "{text}{arguments:?}: {all}");
    }
}

#[test]
fn a_check_says_whose_data_of_time_zones_are_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let zones = folder.path().join("zoneinfo/Europe");
    fs::create_dir_all(&zones).expect("a writable folder");
    // Version 1 of the format, with a single type of local time: an hour ahead of UTC.
    let header = [
        b"TZif".as_slice(),
        &[0; 16],
        &[0; 12],
        &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4],
    ]
    .concat();
    let data = [header.as_slice(), &[0, 0, 0x0e, 0x10, 0, 0], b"CET\0"].concat();
    fs::write(zones.join("Lisbon"), data).expect("it is writable");
    let file = folder.path().join("gateway.toml");
    let text = GOOD.replace(
        "quota = ",
        "time_zone = 'Europe/Lisbon'\nquota = '5 per calendar day' #",
    );
    fs::write(&file, text).expect("it is writable");
    for (zones, data) in [
        (folder.path().join("zoneinfo"), "the system's data"),
        (
            folder.path().join("none"),
            "this program's own data, as the system has none",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args(["check", file.to_str().expect("text")])
            .env("TZDIR", zones)
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.ends_with(&format!("\ntime zones\n  Europe/Lisbon: {data}\n")),
            "{said}"
        );
    }
}
