//! The command line: what `tollgate` can be told to do.
//!
//! Commands that serve nothing live here; `main` runs the gateway.

pub mod check;
pub mod init;

use std::io;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

/// A rate-limiting reverse proxy.
#[derive(Clone, Debug, Parser, PartialEq, Eq)]
#[command(version, about)]
pub struct Cli {
    /// The configuration file.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        default_value = "gateway.toml"
    )]
    pub config: PathBuf,
    /// What to do; without a command, the gateway runs.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Clone, Debug, Default, Subcommand, PartialEq, Eq)]
pub enum Command {
    /// Runs the gateway: SIGHUP reloads the file, SIGTERM drains, SIGINT stops.
    #[default]
    Run,
    /// Reads the file and prints every mistake, or what the file means and guarantees.
    Check {
        /// The configuration file; the same as `--config`.
        file: Option<PathBuf>,
        /// Takes warnings for mistakes: exits with 78 if there are any.
        #[arg(long)]
        strict: bool,
    },
    /// Writes a small commented file to start from; never over another one.
    Init {
        /// Where requests go, such as `http://127.0.0.1:9000`; without it, they are echoed.
        #[arg(long, value_name = "URL")]
        upstream: Option<String>,
    },
}

/// Reads the command line; for help, the version or a mistake, prints that and exits.
pub fn parse() -> Cli {
    Cli::parse()
}

/// Says why a file cannot be read, and how to name another one.
pub fn unreadable(file: &Path, error: &io::Error) -> String {
    let name = file.display();
    match error.kind() {
        io::ErrorKind::NotFound => {
            let place = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
            format!(
                "{name}: there is no file {}: name another with `--config FILE`, or write a first one with \
                 `tollgate init`",
                place.display()
            )
        }
        _ => format!("{name}: cannot be read: {error}"),
    }
}

/// The exit status of a file with mistakes (`EX_CONFIG` of sysexits.h).
pub const EXIT_CONFIG: u8 = 78;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Cli {
        Cli::try_parse_from(line.split(' ')).expect("a good command line")
    }

    #[test]
    fn the_file_can_be_named_with_and_without_a_command() {
        let cli = |config: &str, command| Cli {
            config: config.into(),
            command,
        };
        assert_eq!(parsed("tollgate"), cli("gateway.toml", None));
        assert_eq!(parsed("tollgate --config a"), cli("a", None));
        assert_eq!(
            parsed("tollgate run --config a"),
            cli("a", Some(Command::Run))
        );
        assert_eq!(
            parsed("tollgate check --config a"),
            cli(
                "a",
                Some(Command::Check {
                    file: None,
                    strict: false
                })
            )
        );
        let file = Some("b".into());
        assert_eq!(
            parsed("tollgate check b"),
            cli(
                "gateway.toml",
                Some(Command::Check {
                    file,
                    strict: false
                })
            )
        );
    }
}
