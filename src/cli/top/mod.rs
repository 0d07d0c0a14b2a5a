//! `tollgate top`: the first screen of the dashboard in a terminal.
//!
//! `feed` follows `/api/live` (`wire` has its format) and reconnects; `model` holds what is known, bounded by `series`;
//! `screen` draws that with `summary`, `bars` and `panes`, and does nothing else; `terminal` reads keys and owns the
//! terminal. Every text from a gateway or a client is a [`text::SafeText`] from the moment it is read.

mod bars;
mod feed;
mod model;
mod palette;
mod panes;
mod screen;
mod series;
mod summary;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod wire;

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;

use http::{Method, StatusCode};

use self::model::GatewayView;
use super::client::{AdminClient, ClientError};
use super::write_out;
use crate::clock::Clock;

/// Shows what happens at the gateway that runs with the file at `path`, until the user quits. Exits with 0, or like
/// other commands if the gateway cannot be asked.
pub fn follow(path: &Path) -> ExitCode {
    if !io::stdout().is_terminal() {
        eprintln!("tollgate: {NO_TERMINAL}");
        return ExitCode::FAILURE;
    }
    let clock = Clock::system();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let shown = runtime.map(|runtime| {
        runtime.block_on(async {
            let (events, history) = feed::begin(path).await?;
            let view = GatewayView::new(history, clock.steady());
            Ok(terminal::show(path, view, events, &clock).await)
        })
    });
    match shown {
        Ok(Ok(Ok(()))) => ExitCode::SUCCESS,
        Ok(Err(error)) => ClientError::report(&error),
        Ok(Ok(Err(error))) | Err(error) => {
            eprintln!("tollgate: the terminal cannot be used: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the state of the gateway that runs with the file at `path`. Exits like other commands.
pub fn once(path: &Path) -> ExitCode {
    match answer(path) {
        Ok(view) => {
            let columns = ratatui::crossterm::terminal::size();
            let columns = match columns {
                Ok((columns, _)) if io::stdout().is_terminal() => columns.into(),
                _ => COLUMNS,
            };
            let text = screen::written(&view, columns);
            write_out(&text);
            ExitCode::SUCCESS
        }
        Err(error) => error.report(),
    }
}

fn answer(path: &Path) -> Result<GatewayView, ClientError> {
    let client = AdminClient::of(path)?;
    let mut answer = client.ask(Method::GET, "/api/live", None)?;
    if answer.status != StatusCode::OK {
        let detail = answer.content["detail"].as_str().unwrap_or_default();
        return Err(ClientError::Refused(detail.to_owned()));
    }
    let history = client.read(answer.content["history"].take())?;
    let step = client.read(answer.content["step"].take())?;
    Ok(GatewayView::once(history, step, Clock::system().steady()))
}

const NO_TERMINAL: &str = "standard output is not a terminal: `tollgate top --once` prints how things stand as text, and \
                           `GET /api/live` of the admin port has it as JSON";
/// Columns of the printed text if there is no terminal.
const COLUMNS: usize = 100;
