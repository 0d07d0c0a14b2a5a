//! The `tollgate` command: arguments, signals, exit codes.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use tollgate::cli::check::Strictness;
use tollgate::cli::{self, Command, EXIT_CONFIG};
use tollgate::clock::Clock;
use tollgate::config::{ConfigText, MissingValues};
use tollgate::gateway::{Gateway, StartError};
use tollgate::snapshot::ListenAddress;

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
        Command::Reload => cli::reload::reload(&cli.config),
        Command::Version => {
            cli::version();
            ExitCode::SUCCESS
        }
        Command::Explain(request) => cli::explain::print(&cli.config, &request),
        Command::Id { policy, value } => cli::id::id(&cli.config, &policy, &value),
        Command::Run => run(&cli.config).unwrap_or_else(|error| {
            eprintln!("tollgate: {error:#}");
            ExitCode::FAILURE
        }),
    }
}

/// Runs a gateway until a signal ends it.
fn run(file: &Path) -> anyhow::Result<ExitCode> {
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Before the file is opened, so that no signal meets the default action: whoever has just written
        // the file may already say so.
        let mut hangup = signal(SignalKind::hangup())?;
        let mut rotated = signal(SignalKind::user_defined1())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("tollgate: {}", cli::unreadable(file, &error));
                return Ok(ExitCode::from(EXIT_CONFIG));
            }
        };
        // Before anything runs, so that no event is lost.
        let prepare = |gateway: &mut Gateway| {
            greet(gateway, file);
            gateway.log_events();
        };
        let config = ConfigText::of(file, &text);
        let mut gateway = match Gateway::start_with(config, Clock::system(), prepare) {
            Ok(gateway) => gateway,
            Err(StartError::File(report)) => {
                let color = std::io::stderr().is_terminal();
                eprint!(
                    "{}",
                    report.render(&file.display().to_string(), &text, color)
                );
                return Ok(ExitCode::from(EXIT_CONFIG));
            }
            Err(error) => return Err(error.into()),
        };
        tracing::info!("listening");
        loop {
            tokio::select! {
                _ = hangup.recv() => drop(gateway.reload_file()),
                _ = rotated.recv() => gateway.reopen_log(),
                _ = terminate.recv() => break,
                _ = interrupt.recv() => {
                    gateway.forcer()();
                    break;
                }
            }
        }
        tracing::info!("draining: no longer ready; requests in progress finish");
        let force = gateway.forcer();
        let mut drained = tokio::task::spawn_blocking(move || gateway.shutdown());
        loop {
            tokio::select! {
                done = &mut drained => return done.map(|()| ExitCode::SUCCESS).map_err(Into::into),
                _ = interrupt.recv() => force(),
            }
        }
    })
}

/// Says on standard error where the gateway listens and what to try.
fn greet(gateway: &Gateway, file: &Path) {
    eprintln!(
        "tollgate {}: read {}",
        env!("CARGO_PKG_VERSION"),
        file.display()
    );
    for (name, address) in gateway.addresses() {
        let scheme = gateway.scheme(name);
        match address {
            ListenAddress::Tcp(address) => {
                eprintln!("  listening on {scheme}://{address} (listeners.{name})");
            }
            ListenAddress::Unix(_) => {
                eprintln!("  listening on {address} ({scheme}, listeners.{name})");
            }
        }
    }
    if let Some(address) = gateway.admin_address() {
        eprintln!("  admin port on http://{address}: /livez /readyz /metrics");
    }
    if let Some((name, address)) = gateway.addresses().first() {
        let scheme = gateway.scheme(name);
        match address {
            ListenAddress::Tcp(address) => eprintln!("  try: curl -i {scheme}://{address}/"),
            ListenAddress::Unix(path) => {
                let path = path.display();
                eprintln!("  try: curl -i --unix-socket {path} {scheme}://localhost/");
            }
        }
    }
}

/// Each proxied request needs two descriptors, and the soft limit is often 1024.
fn raise_descriptor_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        eprintln!("tollgate: cannot raise the limit of open files: {error}");
    }
}
