//! `tollgate explain`: what becomes of a request, and why.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use futures_util::FutureExt as _;
use http::Method;

use super::client::AdminClient;
use super::request_arguments::RequestArguments;
use super::{EXIT_USAGE, file, write_out};
use crate::clock::Clock;
use crate::config::{Loaded, MissingValues};
use crate::explain::{AskedRequest, BadQuestion, ExplainMode, Explanation, explain};
use crate::limiter::Limiter;
use crate::proxy::process::{partition_key, secret_key};
use crate::store::{MemoryStore, Session};

/// Reads the file at `path`, and prints what becomes of a request. Exits with 0 whatever becomes of it, with 78 if the
/// file has mistakes, with 2 if the request cannot be read, or with 1 if the running gateway cannot be asked.
pub fn print(path: &Path, request: &RequestArguments) -> ExitCode {
    let asked = match request.asked() {
        Ok(asked) => asked,
        Err(bad) => return usage(&bad),
    };
    if request.live {
        return print_live(path, request);
    }
    let loaded = match file::load(path, MissingValues::AreMistakes) {
        Ok(loaded) => loaded,
        Err(status) => return status,
    };
    match explained(&loaded, &asked) {
        Ok(explanation) => {
            write_out(&explanation.to_string());
            ExitCode::SUCCESS
        }
        Err(bad) => usage(&bad),
    }
}

/// Prints what the gateway that runs with the file at `path` says.
fn print_live(path: &Path, request: &RequestArguments) -> ExitCode {
    let answer = AdminClient::of(path)
        .and_then(|client| client.ask(Method::POST, "/api/explain", Some(&request.json())));
    let content = match answer {
        Ok(answer) => answer.content,
        Err(error) => return error.report(),
    };
    let Some(text) = content["text"].as_str() else {
        let detail = content["detail"].as_str();
        let detail = detail.unwrap_or("the gateway does not say what becomes of it");
        eprintln!("tollgate: {detail}");
        return ExitCode::FAILURE;
    };
    write_out(text);
    ExitCode::SUCCESS
}

fn usage(bad: &BadQuestion) -> ExitCode {
    eprintln!("tollgate: {bad}");
    ExitCode::from(EXIT_USAGE)
}

/// Explains what becomes of a request under a file.
///
/// # Errors
/// If there is no listener for the request.
pub fn explained(loaded: &Loaded, asked: &AskedRequest) -> Result<Explanation, BadQuestion> {
    let (snapshot, clock) = (&loaded.snapshot, Clock::system());
    let store = &snapshot.store;
    // This store stays empty.
    let counters = Session::Memory(Arc::new(MemoryStore::new(clock.clone(), store.max_memory)));
    let limiter = Limiter {
        snapshot,
        partition_key: &partition_key(store, &NO_KEY),
        digest_key: &secret_key(store).unwrap_or(NO_KEY),
        store: &counters,
        thresholds: None,
        notes: None,
    };
    let explaining = explain(limiter, asked, clock.wall(), ExplainMode::File);
    (explaining.now_or_never()).expect("nobody is asked")
}

/// Replaces the key that a gateway without `key_secret` draws when it starts.
const NO_KEY: [u8; 32] = [0; 32];
