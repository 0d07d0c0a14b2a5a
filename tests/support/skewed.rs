//! Gateways whose clock is wrong: a preloaded library of a few lines replaces libc's clock.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::process::command;
use super::{Config, Process, get};

/// Tolerance for an answer's `Date`, which has whole seconds and may come late on a busy machine.
const TOLERANCE: Duration = Duration::from_mins(1);

/// Starts a gateway whose clock is `seconds` ahead, or behind if negative, and checks that it is.
#[track_caller]
pub fn start_skewed(config: &Config, seconds: i64) -> Process {
    let process = Process::start_as(config, |file| skewed(file, seconds));
    let answer = get(process.public, "/no-such-path", "");
    let date = answer
        .field("date")
        .expect("an answer of the gateway's own");
    let date = httpdate::parse_http_date(date).expect("a date");
    let by = Duration::from_secs(seconds.unsigned_abs());
    let now = SystemTime::now();
    let expected = if seconds < 0 { now - by } else { now + by };
    let off = date.duration_since(expected);
    let off = off.unwrap_or_else(|error| error.duration());
    assert!(
        off < TOLERANCE,
        "its clock is not {seconds} s ahead: {date:?}"
    );
    process
}

/// Returns the command that runs a gateway with that file and a skewed clock.
fn skewed(file: &Path, seconds: i64) -> Command {
    let library = file.with_file_name("skewed.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/skewed.c");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", source, "-o"])
        .arg(&library);
    compiler.arg(format!("-DSKEW={seconds}"));
    let status = compiler.status().expect("a C compiler is installed");
    assert!(status.success(), "{compiler:?}");
    let mut gateway = command(file);
    gateway.env("LD_PRELOAD", library);
    gateway
}
