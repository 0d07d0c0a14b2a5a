//! The command line: what `tollgate` can be told to do.
//!
//! Commands that serve nothing live here; `main` runs the gateway.

pub mod check;
pub mod id;

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
    /// Runs the gateway: SIGHUP reloads the file, SIGUSR1 reopens the log, SIGTERM drains, SIGINT stops.
    #[default]
    Run,
    /// Reads the file and prints every mistake, or what the file means and guarantees.
    Check {
        /// The configuration file; the same as `--config`.
        file: Option<PathBuf>,
    },
    /// Prints what logs call a client.
    Id {
        /// The policy whose partition names the client.
        policy: String,
        /// The client, written as in `overrides`: `live_123`, or `header:x-tenant=acme, method=GET`.
        value: String,
    },
}

/// Reads the command line; for help, the version or a mistake, prints that and exits.
pub fn parse() -> Cli {
    Cli::parse()
}

/// Says why a file cannot be read, and how to name another one.
pub fn unreadable(file: &Path, error: &io::Error) -> String {
    let file = file.display();
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "; name the file with `--config FILE`",
        _ => "",
    };
    format!("{file}: cannot be read: {error}{hint}")
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
            cli("a", Some(Command::Check { file: None }))
        );
        let file = Some("b".into());
        assert_eq!(
            parsed("tollgate check b"),
            cli("gateway.toml", Some(Command::Check { file }))
        );
    }
}
