//! The process: how it starts, what it refuses to start on and how it reloads.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::process::{command, free_address, run_to_end};
use crate::support::ratelimit::{policy, remaining};
use crate::support::{Client, Config, Metered, Origin, Process, eventually, get};

/// A file with a listener at this address, and mistakes on lines 8, 9, 13 and 14.
fn mistaken(address: impl std::fmt::Display) -> String {
    format!(
        "[listeners.public]\n\
         address = \"{address}\"\n\
         \n\
         [upstreams.api]\n\
         endpoints = [\"builtin:echo\"]\n\
         \n\
         [policies.per-client]\n\
         quota = \"100 per minut\"\n\
         algorithm = \"sliding-windw\"\n\
         \n\
         [[routes]]\n\
         path = \"/*\"\n\
         upstream = \"apii\"\n\
         policies = [\"per-clint\"]\n"
    )
}

/// A file with one quota for all clients on `/*`, in front of the echo.
fn limited(quota: &str) -> Config {
    let lines = format!("quota = '{quota}'\npartition = []");
    Config::to("builtin:echo")
        .policy("per-client", &lines)
        .route("/*", "policies = ['per-client']")
}

/// Returns the quota that an answer reports; the request spends a unit of it.
fn told_quota(process: &Process) -> i64 {
    let answer = get(process.public, "/", "");
    policy(&answer)[0].1[0].1
}

/// Waits until answers report this quota, and returns how many requests were spent on it.
#[track_caller]
fn wait_for_quota(process: &Process, quota: i64) -> i64 {
    let mut spent = 0;
    eventually(&format!("a reload to {quota}"), || {
        spent += 1;
        (told_quota(process) == quota).then_some(())
    });
    spent
}

/// Writes to a pipe once a reader has opened it; `before` runs between the two.
fn write_to_reader(pipe: &Path, text: &str, before: impl FnOnce()) {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(O_NONBLOCK);
    let mut writer = eventually("the pipe is read", || options.open(pipe).ok());
    before();
    writer.write_all(text.as_bytes()).expect("it is still read");
}

/// Makes opening a pipe fail if nobody reads it; the same number on every Linux but MIPS and Alpha.
const O_NONBLOCK: i32 = 0o4000;

#[test]
fn a_reload_that_is_asked_for_while_the_file_is_first_read_follows() {
    let folder = tempfile::tempdir().expect("a directory");
    let pipe = folder.path().join("gateway.toml");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    let (public, admin) = (free_address(), free_address());
    let text = limited("1 per minute").address(&public.to_string());
    let text = text.admin(&admin.to_string()).text();
    let mut child = command(&pipe)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let hang_up = || {
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-HUP", &id]).status();
        assert!(sent.expect("kill runs").success());
    };
    write_to_reader(&pipe, &text, hang_up);
    eventually("it has read the file", || Client::try_connect(public).ok());
    let reload = text.replace("1 per minute", "7 per minute");
    write_to_reader(&pipe, &reload, || ());
    eventually("the reload is in force", || {
        let answer = Client::try_connect(public).ok()?.get("/", "");
        (policy(&answer)[0].1[0].1 == 7).then_some(())
    });
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn the_start_says_where_it_listens_what_it_read_and_how_to_try_it() {
    let process = Process::start(&limited("100 per minute"));
    let public = process.public.to_string();
    process.wait_for_line(&[&public]);
    process.wait_for_line(&[&process.admin.to_string()]);
    process.wait_for_line(&[&process.file().display().to_string()]);
    process.wait_for_line(&["curl", &public]);
}

#[test]
fn a_mistaken_file_is_exit_78_with_every_mistake_before_any_port_is_bound() {
    // If the port were bound first, the start would fail because of it, and with another status.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("a bound socket");
    let output = run_to_end(&mistaken(address));
    assert_eq!(output.status.code(), Some(78));
    let told = String::from_utf8_lossy(&output.stderr);
    for part in [
        "gateway.toml:8:",
        "gateway.toml:9:",
        "gateway.toml:13:",
        "gateway.toml:14:",
        "did you mean",
        "sliding-window",
        "minut",
        "apii",
        "per-clint",
    ] {
        assert!(told.contains(part), "no {part:?} in:\n{told}");
    }
}

#[test]
fn a_reload_under_load_loses_no_request_and_no_count() {
    let origin = Origin::plain();
    let with = |quota: i64| {
        limited(&format!("{quota} per day"))
            .endpoints(&[origin.url()])
            .route(&format!("/only-{quota}"), "")
    };
    let process = Process::start(&with(1_000_000));
    let stop = AtomicBool::new(false);
    let spent = thread::scope(|scope| {
        let load = [(); 4].map(|()| {
            scope.spawn(|| {
                let mut client = Client::connect(process.public);
                let mut asked = 0;
                while !stop.load(Ordering::SeqCst) {
                    assert_eq!(client.post("/load", "", "hello").status, 200);
                    asked += 1;
                }
                asked
            })
        });
        let mut spent = 0;
        for quota in [2_000_000, 500_000, 1_500_000] {
            process.rewrite(&with(quota));
            process.signal("HUP");
            spent += wait_for_quota(&process, quota);
            assert_eq!(
                get(process.public, &format!("/only-{quota}"), "").status,
                200
            );
        }
        stop.store(true, Ordering::SeqCst);
        let asked = load.map(|thread| thread.join().expect("no request is lost"));
        assert!(asked.iter().all(|x| *x > 0), "{asked:?}");
        spent + asked.iter().sum::<i64>()
    });
    let answer = get(process.public, "/", "");
    assert_eq!(remaining(&answer, "per-client"), 1_500_000 - spent - 1);
    // Requests to routes without a policy reached the origin too.
    assert_eq!(i64::try_from(origin.requests().len()), Ok(spent + 1 + 3));
}

#[test]
fn a_mistaken_file_at_reload_keeps_the_old_one() {
    let process = Process::start(&limited("100 per minute"));
    assert_eq!(told_quota(&process), 100);
    for mistaken in ["quota = [\n", &mistaken(process.public)] {
        let reloads = || -> Vec<String> {
            let text = process.metrics();
            let lines = text.lines().filter(|x| !x.starts_with('#'));
            let told = lines.filter(|x| x.contains("reload"));
            told.map(str::to_owned).collect()
        };
        let before = reloads();
        process.rewrite_text(mistaken);
        process.signal("HUP");
        eventually("the metric says so", || (reloads() != before).then_some(()));
        assert_eq!(told_quota(&process), 100);
    }
    process.wait_for_line(&["per-clint"]);
    process.rewrite(&limited("300 per minute"));
    process.signal("HUP");
    wait_for_quota(&process, 300);
}
