//! The file: it is accepted whole, or every mistake lies in it, is shown, and gives no secret away.

use std::fmt::Write as _;

use tollgate::cli::check::summary;
use tollgate::config::changes::{Changes, changes, keep_until_restart};
use tollgate::config::display;
use tollgate::config::report::Report;
use tollgate::config::value::{Encryption, StoreUrl, store_url};
use tollgate::config::{Loaded, load};
use tollgate::limit::plan::SeriesId;
use tollgate::store::settings::{Location, Password, RedisSettings};

/// The input is the file's text.
pub fn holds(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    // A variable may name any file of the machine, and reading some of them never ends.
    let names_a_file = text.contains("file:") && !text.contains("${file:/nonexistent}");
    if names_a_file || text.matches("file:").count() > 1 {
        return;
    }
    match read(text) {
        Ok(loaded) => accepted(text, &loaded),
        Err(report) => reported(text, &report),
    }
}

fn read(text: &str) -> Result<Loaded, Report> {
    load(text, &variable, &mut |_| SeriesId(0))
}

fn variable(name: &str) -> Option<String> {
    match name {
        "SECRET" => Some(SECRET.to_owned()),
        "NUMBER" => Some("4".to_owned()),
        "HOSTILE" => Some("a\"\n[x]\n\u{1b}[2J\0".to_owned()),
        _ => None,
    }
}

fn reported(text: &str, report: &Report) {
    let mistakes = report.mistakes();
    assert!(!mistakes.is_empty(), "what is refused has a mistake");
    for mistake in &mistakes {
        assert!(mistake.span.start <= mistake.span.end, "{mistake:?}");
        let text = mistake.file.as_ref().map_or(text, |other| &*other.text);
        assert!(text.get(mistake.span.clone()).is_some(), "{mistake:?}");
        assert!(!mistake.message.is_empty() && !mistake.message.ends_with('.'));
    }
    let lines = report.lines("gateway.toml", text);
    assert_eq!(lines.len(), mistakes.len());
    for line in &lines {
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    let plain = report.render("gateway.toml", text, false);
    let is_odd = |c: char| c.is_control() && c != '\n';
    assert!(!plain.contains(is_odd), "{plain:?}");
    let errors = plain.lines().filter(|line| line.starts_with("error: "));
    assert_eq!(errors.count(), lines.len(), "{plain}");
    report.render("gateway.toml", text, true);
    // The patterns of tiers are no secrets, nor is the name of a file of overrides, which may be the same.
    if !text.contains(SECRET) && !text.contains("overrides_by") {
        let said = lines.into_iter().find(|line| line.contains(SECRET));
        assert_eq!(said, None);
        assert!(!plain.contains(SECRET), "{plain}");
    }
}

fn accepted(text: &str, loaded: &Loaded) {
    let said = summary("gateway.toml", loaded);
    let is_odd = |c: char| c.is_control() && c != '\n';
    assert!(!said.contains(is_odd), "{said:?}");
    let shipped = read(include_str!("../../../gateway.toml")).expect("a good file");
    let from_shipped = changes(&shipped.file, &loaded.file);
    let lines = || (from_shipped.applied.iter()).chain(&from_shipped.needs_restart);
    for change in lines() {
        assert!(!change.contains(char::is_control), "{change:?}");
    }
    let location = &loaded.snapshot.store.location;
    if let Location::Redis(redis) = location {
        same_servers(redis, &display::store_url(&loaded.file.store.value.url));
        // A secret that the file has once, as a password, is shown nowhere else.
        let is_secret = |password: &Password| password.text().contains(SECRET);
        if redis.password.as_ref().is_some_and(is_secret)
            && text.matches("SECRET").count() == 1
            && !text.contains(SECRET)
        {
            let inside = format!("{loaded:?}");
            for said in lines().chain([&said, &inside]) {
                assert!(!said.contains(SECRET), "{said}");
            }
        }
    }
    let table: toml::Table = text.parse().expect("what is accepted is TOML");
    let below_headers = toml::to_string(&table).expect("a table can be written");
    same_file(&below_headers, loaded, &said);
    let mut dotted = String::new();
    write_dotted("", &table, &mut dotted);
    same_file(&dotted, loaded, &said);
}

/// Asserts that an accepted file means the same when its tables are written in another way.
fn same_file(anew: &str, loaded: &Loaded, said: &str) {
    let again = match read(anew) {
        Ok(again) => again,
        Err(report) => panic!("{}", report.render("anew.toml", anew, false)),
    };
    assert_eq!(summary("gateway.toml", &again), said);
    let (one, other) = (&loaded.file, &again.file);
    assert_eq!(changes(one, other), Changes::default(), "{anew}");
    assert_eq!(changes(other, one), Changes::default(), "{anew}");
    let kept = keep_until_restart(one, &loaded.snapshot, again);
    assert_eq!(changes(one, &kept.file), Changes::default());
}

/// Writes a line for each value that is not a table, with the path to it as its key.
fn write_dotted(path: &str, table: &toml::Table, out: &mut String) {
    for (key, value) in table {
        let quoted = serde_json::to_string(key).expect("a string can be written");
        let key = format!("{path}{}", quoted.replace('\u{7f}', "\\u007f"));
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => {
                write_dotted(&format!("{key}."), inner, out);
            }
            _ => writeln!(out, "{key} = {value}").expect("memory takes every byte"),
        }
    }
}

/// Asserts that the display of a store's URL names the same servers.
fn same_servers(redis: &RedisSettings, said: &str) {
    let Ok(StoreUrl::Redis(url)) = store_url(said) else {
        panic!("{said:?} names no servers");
    };
    let is_encrypted = url.encryption == Encryption::Tls;
    assert_eq!(url.deployment, redis.deployment, "{said}");
    assert_eq!(url.database, redis.database, "{said}");
    assert_eq!(is_encrypted, redis.tls.is_some(), "{said}");
    assert_eq!((url.username, url.password), (None, None), "{said}");
}

const SECRET: &str = "hunter2";
