//! The command line: the commands of `tollgate`, and their options.
//!
//! Each command is a function in one of these modules, which `main` calls.

pub mod against;
pub mod check;
mod client;
mod event_stream;
pub mod explain;
mod file;
pub mod generate;
mod greeting;
mod habits;
pub mod id;
pub mod init;
pub mod keys;
mod keys_arguments;
pub mod reload;
mod request_arguments;
pub mod run;
mod systemd;
pub mod top;
pub mod trace;
mod trace_arguments;
pub mod upgrade;
pub mod version;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

pub use self::keys_arguments::{ClientName, KeysCommand};
pub use self::request_arguments::RequestArguments;
pub use self::trace_arguments::TraceArguments;

/// A rate-limiting reverse proxy.
#[derive(Clone, Debug, Parser, PartialEq, Eq)]
#[command(version, about)]
pub struct Cli {
    /// The configuration file.
    #[arg(
        short,
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
    /// Runs the gateway: SIGHUP reloads the file, SIGUSR1 reopens the log, SIGUSR2 hands over to a new process,
    /// SIGTERM drains, SIGINT stops.
    #[default]
    Run,
    /// Reads the file and prints every mistake, or what the file means and guarantees.
    Check {
        /// The configuration file; the same as `--config`.
        file: Option<PathBuf>,
        /// Prints what a reload would change instead, compared with another file, or with what runs: `running`.
        #[arg(long, value_name = "FILE|running")]
        against: Option<PathBuf>,
        /// Treats warnings as mistakes: exits with 78 if there are any.
        #[arg(long)]
        strict: bool,
        /// Assumes that missing variables and secret files are there, so that the rest can be checked.
        #[arg(long)]
        without_secrets: bool,
    },
    /// Prints the id by which logs call a client.
    Id {
        /// The policy whose partition names the client.
        policy: String,
        /// The client, written as in `overrides`: `live_123`, or `header:x-tenant=acme, method=GET`.
        value: String,
    },
    /// Says which route takes a request, by which policies it is limited, and why.
    Explain(RequestArguments),
    /// Writes a small commented file to start from; never over another one.
    Init {
        /// Where requests go, such as `http://127.0.0.1:9000`; without it, they are echoed.
        #[arg(long, value_name = "URL")]
        upstream: Option<String>,
    },
    /// Shows what a single client has left, and changes it: raise, block, reset, give back.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Shows what happens at the gateway that runs with the file: who is refused, by what, and what is in trouble.
    Top {
        /// Prints the present state once, as plain text, instead of following it.
        #[arg(long)]
        once: bool,
    },
    /// Shows what the next requests go through at the gateway that runs with the file, step by step.
    Trace(TraceArguments),
    /// Has the gateway that runs with the file read it again, and says what has changed, or what is wrong with it.
    Reload,
    /// Has the gateway that runs with the file start its binary again and hand everything over, and prints the result.
    Upgrade,
    /// Prints the JSON Schema of the configuration file, with which editors complete and check it.
    Schema,
    /// Prints a script that completes commands and options in a shell.
    #[command(alias = "completions")]
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Prints the manual page, in the format of man(7).
    #[command(alias = "manual")]
    Manpage,
    /// Prints which build is installed, and which one runs with the file.
    Version,
}

/// Reads the command line; for help, the version or a mistake, prints that and exits.
///
/// # Errors
/// The exit status, if a word or option is another program's; what to write instead has been printed.
pub fn parse() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        let Some(instead) = habits::instead_of(&error) else {
            error.exit()
        };
        eprintln!("tollgate: {instead}");
        ExitCode::from(EXIT_USAGE)
    })
}

/// Prints what a command has found; a reader that has seen enough may close the pipe.
fn write_out(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
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
/// The exit status of a command line with mistakes, which is also clap's.
const EXIT_USAGE: u8 = 2;

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
        assert_eq!(parsed("tollgate -c a"), cli("a", None));
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
                    against: None,
                    strict: false,
                    without_secrets: false,
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
                    against: None,
                    strict: false,
                    without_secrets: false,
                })
            )
        );
    }

    #[test]
    fn what_other_programs_are_told_is_answered_with_the_right_command() {
        for (line, instead) in [
            (
                "my.toml",
                Some(
                    "`my.toml` is no command: `tollgate --config my.toml` runs this file, \
                     `tollgate check my.toml` checks it",
                ),
            ),
            ("run my.toml", Some("`tollgate --config my.toml` runs")),
            (
                "/etc/tollgate",
                Some("`tollgate check /etc/tollgate` checks"),
            ),
            ("-t", Some("`-t` is unknown: `tollgate check FILE`")),
            ("-t -c my.toml", Some("`tollgate check FILE`")),
            ("-c my.toml -t", Some("`tollgate check FILE`")),
            ("validate", Some("`tollgate check FILE`")),
            ("-s reload", Some("`tollgate reload`")),
            ("-f my.toml", Some("`tollgate --config FILE`")),
            ("start", Some("`tollgate run`")),
            ("stop", Some("SIGTERM")),
            ("-v", Some("`tollgate version`")),
            ("chek", None),
            ("--help", None),
        ] {
            let line = format!("tollgate {line}");
            let error = Cli::try_parse_from(line.split(' ')).expect_err("a mistake");
            let found = habits::instead_of(&error);
            let is_right = match (&found, instead) {
                (Some(found), Some(instead)) => found.contains(instead),
                (found, instead) => found.is_none() && instead.is_none(),
            };
            assert!(is_right, "{line}: {found:?}");
        }
    }
}
