//! Good files and what `tollgate check` says of them, exactly.
//!
//! `GOLDEN=write cargo test --test config` writes what the files come to; read the
//! difference before you commit it.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate::cli::check::summary;
use tollgate::config::load;
use tollgate::limit::plan::{CHECKS_MAX, SeriesId};

#[test]
fn good_files_get_exactly_the_summary_beside_them() {
    golden("tests/config/good", 10, |name, text| {
        match load(text, &|_| None, &mut |_| SeriesId(0)) {
            Ok(loaded) => {
                let inside = format!("{loaded:?}");
                assert!(!inside.contains("hunter2"), "{inside}");
                summary(name, &loaded)
            }
            Err(report) => panic!("{}", report.render(name, text, false)),
        }
    });
}

/// Compares what `outcome` makes of each file with the text beside it.
fn golden(folder: &str, least: usize, outcome: impl Fn(&str, &str) -> String) {
    let files = files(folder);
    assert!(
        files.len() >= least,
        "only {} files in {folder}",
        files.len()
    );
    let mut differ = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a readable file");
        let name = file.file_name().expect("a file").to_string_lossy();
        let is = outcome(&name, &text);
        assert!(
            !is.contains("hunter2"),
            "{name} gives a password away: {is}"
        );
        let beside = file.with_extension("txt");
        if std::env::var("GOLDEN").is_ok_and(|how| how == "write") {
            fs::write(&beside, &is).expect("a writable folder");
        }
        let should_be = fs::read_to_string(&beside).unwrap_or_default();
        if is != should_be {
            differ.push(format!(
                "--- {name} is\n{is}\n--- and should be\n{should_be}"
            ));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of the golden files")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_route_has_no_more_quotas_than_one_step_decides() {
    let file = |most: usize| {
        let quotas = |windows: std::ops::RangeInclusive<usize>| {
            let quotas: Vec<String> = windows.map(|s| format!("'1 per {s} s'")).collect();
            quotas.join(", ")
        };
        format!(
            "default_policies = ['a']\n[listeners.main]\naddress = '127.0.0.1:0'\n\
             [upstreams.echo]\nendpoints = ['builtin:echo']\n\
             [policies.a]\nquota = [{}]\n[policies.b]\nquota = [{}]\n\
             [[routes]]\npath = '/*'\nupstream = 'echo'\npolicies = ['a', 'b']\n",
            quotas(1..=100),
            quotas(1..=most - 100),
        )
    };
    let report = |text: &str| load(text, &|_| None, &mut |_| SeriesId(0)).map(drop);
    report(&file(CHECKS_MAX)).expect("so many are none too many");
    let text = file(CHECKS_MAX + 1);
    let report = report(&text).expect_err("one too many");
    let shown = report.render("a.toml", &text, false);
    assert!(shown.contains("have 256 quotas"), "{shown}");
}
