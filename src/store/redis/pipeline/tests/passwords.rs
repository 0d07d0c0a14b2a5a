//! Passwords that change at the server and in a file.

use std::fs;
use std::path::Path;

use super::messages::captured;
use super::*;
use crate::store::settings::Password;

#[tokio::test(flavor = "local")]
async fn password_that_is_refused_is_read_again() {
    let (log, _logging) = captured();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    fs::write(&file, "old").expect("a file");
    let server = Server::start_with(&["requirepass old"]);
    let password = from(&file);
    let target = DialTarget {
        password: Some(password.clone()),
        ..target(server.address())
    };
    let pipelines =
        [(); 2].map(|()| Pipeline::open(PrimaryResolver::Fixed(target.clone()), context()));
    for pipeline in &pipelines {
        pipeline.asked(plan("k", 1)).await.expect("an answer");
    }
    for (version, rotated) in [(1, "new"), (2, "newer")] {
        server.command(&["CONFIG", "SET", "requirepass", rotated]);
        fs::write(&file, rotated).expect("a file");
        server.command(&["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
        for pipeline in &pipelines {
            while pipeline.asked(plan("k", 1)).await.is_err() {
                sleep(Duration::from_millis(5)).await;
            }
        }
        assert_eq!(password.version(), version, "read once for all");
    }
    let text = log.text();
    assert_eq!(text.matches("store: password changed").count(), 2, "{text}");
    assert!(!text.contains("ERROR"), "nobody has to act: {text}");
}

/// The file is read after each attempt that is refused; between attempts are seconds.
#[tokio::test(flavor = "local")]
async fn file_that_is_written_late_is_read_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    fs::write(&file, "old").expect("a file");
    let server = Server::start_with(&["requirepass new"]);
    let target = DialTarget {
        password: Some(from(&file)),
        ..target(server.address())
    };
    let pipeline = Pipeline::open(PrimaryResolver::Fixed(target), context());
    becomes(&pipeline, PipelineState::Down).await;
    fs::write(&file, "new").expect("a file");
    becomes(&pipeline, PipelineState::Up).await;
    pipeline.asked(plan("k", 1)).await.expect("an answer");
}

fn from(file: &Path) -> Password {
    let path = file.to_owned();
    let read = move || fs::read_to_string(&path).map_err(|error| error.to_string());
    let text = read().expect("the file is there");
    Password::from_source(&text, "${file:password}", move || read().map(Into::into))
}
