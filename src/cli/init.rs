//! `tollgate init`: a first file to start from.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;

use super::EXIT_CONFIG;
use crate::config::value::endpoint;

/// Writes a small commented file, whose requests go to `upstream`; never over another one.
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
    match write(file, upstream) {
        Ok(()) => {
            let (name, config) = (file.display(), option(file));
            println!(
                "wrote {name}\n  see what it means:  tollgate check{config}\n  run it:             \
                 tollgate{config}\n  try it:             curl -i http://127.0.0.1:8080/"
            );
            ExitCode::SUCCESS
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            eprintln!(
                "tollgate: {} exists already, and is left as it is",
                file.display()
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tollgate: {} cannot be written: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}

fn write(file: &Path, upstream: Option<&str>) -> io::Result<()> {
    File::create_new(file)?.write_all(text(upstream).as_bytes())
}

/// Returns how later commands name the file.
fn option(file: &Path) -> String {
    if file == Path::new("gateway.toml") {
        String::new()
    } else {
        format!(" --config {}", file.display())
    }
}

/// Returns the file.
fn text(upstream: Option<&str>) -> String {
    let endpoints = upstream.map_or_else(
        || "# Until there is one, requests are echoed. Your API: [\"http://127.0.0.1:9000\"]\nendpoints = [\"builtin:echo\"]".to_owned(),
        |url| format!("endpoints = [\"{url}\"]"),
    );
    TEMPLATE.replace("ENDPOINTS", &endpoints)
}

const TEMPLATE: &str = include_str!("init.toml");

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
            for text in [text(upstream), uncommented(&text(upstream))] {
                let loaded = config::load(&text, &|_| None, &mut |_| SeriesId(0));
                let loaded =
                    loaded.unwrap_or_else(|report| panic!("{}", report.render("a", &text, false)));
                assert_eq!(loaded.warnings, [""; 0]);
            }
        }
    }
}
