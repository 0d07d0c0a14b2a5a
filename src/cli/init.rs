//! `tollgate init`: a first file to start from.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use super::{EXIT_CONFIG, write_out};
use crate::config::value::endpoint;

/// Writes a small commented file that sends requests to `upstream`; never overwrites a file.
pub fn init(file: &Path, upstream: Option<&str>) -> ExitCode {
    if let Some(upstream) = upstream
        && let Err(wrong) = endpoint(upstream)
    {
        eprintln!(
            "tollgate: `--upstream {upstream}` {}, expected {}",
            wrong.problem, wrong.expected
        );
        return ExitCode::from(EXIT_CONFIG);
    }
    let token = file.with_file_name(TOKEN_FILE);
    let Some(token_value) = variable(&token) else {
        eprintln!("tollgate: no `${{file:…}}` can name {}", token.display());
        return ExitCode::FAILURE;
    };
    match write(file, &text(upstream, &token_value), &token) {
        Ok(()) => {
            let (name, token, config) = (file.display(), token.display(), option(file));
            write_out(&format!(
                "wrote {name}, and the admin port's token to {token}\n  see what it means:  tollgate check{config}\n  \
                 run it:             tollgate{config}\n  after a change:     tollgate reload{config}\n  \
                 try it:             curl -i http://127.0.0.1:8080/\n"
            ));
            ExitCode::SUCCESS
        }
        Err(Unwritten { file, source }) => {
            let name = file.display();
            if source.kind() == ErrorKind::AlreadyExists {
                eprintln!("tollgate: {name} exists already, and is left as it is");
            } else {
                eprintln!("tollgate: {name} cannot be written: {source}");
            }
            ExitCode::FAILURE
        }
    }
}

/// A file that cannot be written, and why.
struct Unwritten<'f> {
    file: &'f Path,
    source: io::Error,
}

/// Writes the file, and a token that only its owner can read; leaves neither of them if the other cannot be written.
fn write<'f>(file: &'f Path, text: &str, token: &'f Path) -> Result<(), Unwritten<'f>> {
    let unwritten = |file| move |source| Unwritten { file, source };
    write_new(file, 0o666, text).map_err(unwritten(file))?;
    let secret = random_token().and_then(|text| write_new(token, 0o600, &text));
    secret.map_err(unwritten(token)).inspect_err(|_| {
        let _ = fs::remove_file(file);
    })
}

/// Writes a file that does not exist yet; one that is incomplete would keep another try from writing it.
fn write_new(file: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    (options.open(file)?.write_all(text.as_bytes())).inspect_err(|_| {
        let _ = fs::remove_file(file);
    })
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)?;
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    Ok(digits.collect::<String>() + "\n")
}

/// Returns the variable for the content of a file, as a TOML string; `None` if it cannot contain the file's path.
fn variable(file: &Path) -> Option<String> {
    let path = file.to_str()?;
    let is_plain = |c: char| !c.is_control() && !matches!(c, '"' | '\\' | '$' | '{' | '}');
    path.chars()
        .all(is_plain)
        .then(|| format!("\"${{file:{path}}}\""))
}

/// Returns the option by which later commands name the file.
fn option(file: &Path) -> String {
    if file == Path::new("gateway.toml") {
        String::new()
    } else {
        format!(" --config {}", file.display())
    }
}

/// Returns the text of the file.
fn text(upstream: Option<&str>, token: &str) -> String {
    let endpoints = upstream.map_or_else(
        || "# Until there is one, requests are echoed. Your API: [\"http://127.0.0.1:9000\"]\nendpoints = [\"builtin:echo\"]".to_owned(),
        |url| format!("endpoints = [\"{url}\"]"),
    );
    TEMPLATE
        .replace("ENDPOINTS", &endpoints)
        .replace("TOKEN", token)
}

const TEMPLATE: &str = include_str!("init.toml");

/// Name of the file with the token, which is in the same directory.
const TOKEN_FILE: &str = "admin_token";

/// This many random bytes cannot be guessed.
const TOKEN_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::limit::plan::SeriesId;

    #[test]
    fn a_first_file_is_good_and_warns_of_nothing_with_its_comments_in_force_too() {
        let is_key = |line: &str| {
            let name = line.split_once(" = ").map(|(name, _)| name);
            name.is_some_and(|name| {
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            })
        };
        let uncommented = |text: &str| {
            let lines = text.lines().map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.starts_with('[') || is_key(rest) => rest,
                _ => line,
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        for upstream in [None, Some("http://127.0.0.1:9000")] {
            let text = text(upstream, "\"0123456789abcdef\"");
            for text in [text.clone(), uncommented(&text)] {
                let loaded = config::load(&text, &|_| None, &mut |_| SeriesId(0));
                let loaded =
                    loaded.unwrap_or_else(|report| panic!("{}", report.render("a", &text, false)));
                assert_eq!(loaded.warnings, [""; 0]);
            }
        }
    }
}
