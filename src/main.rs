//! The `tollgate` command: arguments and exit codes.

use std::process::ExitCode;

use tollgate::cli::check::Strictness;
use tollgate::cli::{self, Command};
use tollgate::config::MissingValues;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    match cli.command.unwrap_or_default() {
        Command::Check {
            file,
            against,
            strict,
            without_secrets,
        } => {
            let strictness = if strict {
                Strictness::WarningsAreMistakes
            } else {
                Strictness::WarningsPass
            };
            let missing = if without_secrets {
                MissingValues::AreGiven
            } else {
                MissingValues::AreMistakes
            };
            let file = file.unwrap_or(cli.config);
            match against {
                Some(against) => cli::against::check_against(&file, &against, strictness, missing),
                None => cli::check::check(&file, strictness, missing),
            }
        }
        Command::Init { upstream } => cli::init::init(&cli.config, upstream.as_deref()),
        Command::Keys(command) => cli::keys::keys(&cli.config, &command),
        Command::Top { once: true } => cli::top::once(&cli.config),
        Command::Top { once: false } => cli::top::follow(&cli.config),
        Command::Trace(arguments) => cli::trace::trace(&cli.config, &arguments),
        Command::Reload => cli::reload::reload(&cli.config),
        Command::Upgrade => cli::upgrade::upgrade(&cli.config),
        Command::Schema => cli::generate::schema(),
        Command::Completion { shell } => cli::generate::completion(shell),
        Command::Manpage => cli::generate::manpage(),
        Command::Version => {
            cli::version::version(&cli.config);
            ExitCode::SUCCESS
        }
        Command::Explain(request) => cli::explain::print(&cli.config, &request),
        Command::Id { policy, value } => cli::id::id(&cli.config, &policy, &value),
        Command::Run => cli::run::run(&cli.config),
    }
}
