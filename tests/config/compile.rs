//! Good files and what `tollgate check` says of them, exactly.
//!
//! `GOLDEN=write cargo test --test config` writes what the files come to; read the
//! difference before you commit it.

use std::fs;
use std::path::Path;

use tollgate::cli::check::summary;
use tollgate::clock::Micros;
use tollgate::config::changes::{Changes, changes};
use tollgate::config::{ConfigText, load};
use tollgate::limit::plan::{CHECKS_MAX, SeriesId};
use tollgate::limit::{Align, OldestBucket};
use tollgate::snapshot::Grant;
use tollgate::store::{Series, SeriesRole, Shape};

use crate::support::toml_files;

#[test]
fn good_files_get_exactly_the_summary_beside_them() {
    golden("tests/config/good", 10, |name, text| {
        let path = Path::new("tests/config/good").join(name);
        match load(ConfigText::of(&path, text), &variable, &mut |_| SeriesId(0)) {
            Ok(loaded) => {
                let inside = format!("{loaded:?}");
                assert!(!inside.contains("hunter2"), "{inside}");
                summary(name, &loaded)
            }
            Err(report) => panic!("{}", report.render(name, text, false)),
        }
    });
}

#[test]
fn a_table_that_moves_into_an_included_file_is_no_change() {
    let path = Path::new("tests/config/good/include.toml");
    let text = fs::read_to_string(path).expect("a readable file");
    let load = |text: &str| {
        let loaded = load(ConfigText::of(path, text), &|_| None, &mut |_| SeriesId(0));
        loaded.expect("a good file").file
    };
    let part = |name: &str| {
        fs::read_to_string(path.with_file_name("parts/good.d").join(name)).expect("a readable file")
    };
    let apart = load(&text);
    let (_, main) = text.split_once('\n').expect("lines");
    let together = [&part("20-web.toml"), main, &part("10-login.toml")].concat();
    let Changes {
        applied,
        needs_restart,
    } = changes(&load(&together), &apart);
    let included = "include [] → [parts/good.d/*.toml, parts/good.d/20-web.toml]";
    assert_eq!(
        (applied, needs_restart),
        (vec![included.to_owned()], vec![])
    );
}

fn variable(name: &str) -> Option<String> {
    let value = match name {
        "ORIGINS" => " http://10.0.0.1:9000,\thttp://10.0.0.2:9000,\n",
        "METHODS" => "GET,POST",
        "QUOTAS" => "10 per second, 100 per minute",
        "NOTHING" => "",
        "SECRETS" => "tests/config/good/parts",
        _ => return None,
    };
    Some(value.to_owned())
}

/// Compares what `outcome` makes of each file with the text beside it.
pub fn golden(folder: &str, least: usize, outcome: impl Fn(&str, &str) -> String) {
    let files = toml_files(folder);
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

/// Returns a file with one policy that has these lines.
fn with_policy(lines: &str) -> String {
    format!(
        "[listeners.main]\naddress = '127.0.0.1:0'\n[upstreams.echo]\nendpoints = ['builtin:echo']\n\
         [policies.a]\n{lines}\n[[routes]]\npath = '/*'\nupstream = 'echo'\npolicies = ['a']\n"
    )
}

fn mistakes(text: &str) -> Vec<String> {
    let loaded = load(text, &|_| None, &mut |_| SeriesId(0));
    loaded
        .err()
        .map_or(Vec::new(), |report| report.lines("a.toml", text))
}

#[test]
fn the_longest_list_of_a_policy_counts_and_its_windows_have_a_bound() {
    let quotas = |count: usize| {
        let quotas: Vec<String> = (1..=count).map(|s| format!("'1 per {s} s'")).collect();
        quotas.join(", ")
    };
    let list = |count| {
        with_policy(&format!(
            "quota = '1 per s'\noverrides = {{ '10.0.0.1' = [{}] }}",
            quotas(count)
        ))
    };
    assert_eq!(mistakes(&list(32)), [""; 0]);
    let many = mistakes(&list(CHECKS_MAX + 1));
    assert!(
        many.iter()
            .any(|line| line.contains("the route's policies have 256 quotas")),
        "{many:?}"
    );
    let apart = |count: usize| {
        let rows = (1..=count).map(|s| format!("'10.0.0.{s}' = '5 per {s} s'\n"));
        with_policy(&format!(
            "quota = '1 per s'\n[policies.a.overrides]\n{}",
            rows.collect::<String>()
        ))
    };
    assert_eq!(mistakes(&apart(32)), [""; 0]);
    let [one] = &mistakes(&apart(34))[..] else {
        panic!("one mistake");
    };
    assert!(
        one.starts_with(
            "a.toml:40:1: the overrides of this policy have too many different windows"
        ),
        "{one}"
    );
}

#[test]
fn a_grant_is_kept_once_and_a_window_has_one_series() {
    let text = with_policy(
        "quota = ['1 per 2s', '9 per minute']\n[policies.a.overrides]\n'10.0.0.1' = '5 per 2s'\n\
         '10.0.0.2' = ['5 per 2000ms']\n'10.0.0.3' = { quota = '7 per 3s' }\n'10.0.0.4' = '5 per 2s'\n\
         '10.0.0.5' = ['5 per 2s', '7 per 3s']\n'10.0.0.6' = 'blocked'\n'10.0.0.7' = 'blocked'\n\
         [policies.b]\nquota = '10 per second'\nalgorithm = 'gcra'\nmode = 'off'\n",
    );
    let mut asked = Vec::new();
    let loaded = load(&text, &|_| None, &mut |series| {
        asked.push(series.clone());
        SeriesId(u32::try_from(asked.len()).expect("few"))
    });
    let snapshot = loaded.expect("a good file").snapshot;
    let series = |policy: &str, shape: &Shape, window_s| Series {
        policy: policy.into(),
        role: SeriesRole::Real,
        shape: shape.clone(),
        window: Micros::from_secs(window_s),
    };
    let sliding = Shape::SlidingWindow {
        buckets: 10,
        oldest: OldestBucket::Weighted,
        align: Align::Epoch,
    };
    let expected = [
        series("a", &sliding, 2),
        series("a", &sliding, 60),
        series("a", &sliding, 3),
        series("b", &Shape::Gcra, 1),
    ];
    assert_eq!(asked, expected);
    let policies = snapshot.policies.raw.iter();
    let ids = policies.flat_map(|policy| policy.grant.quotas());
    let ids: Vec<u32> = ids.map(|quota| quota.series_id.0).collect();
    assert_eq!(ids, [1, 2, 4]);
    let overrides = snapshot.policies.raw[0]
        .overrides
        .as_ref()
        .expect("it has some");
    assert_eq!(overrides.grant_of, [0, 0, 1, 0, 2, 3, 3]);
    let quotas = overrides.grants.iter().map(|grant| {
        let quotas = grant.quotas().iter();
        quotas
            .map(|quota| {
                (
                    quota.items.policy_item().expect("it has one"),
                    quota.series_id.0,
                )
            })
            .collect::<Vec<_>>()
    });
    let expected: [&[(&str, u32)]; 4] = [
        &[("\"a\";q=5;w=2", 1)],
        &[("\"a\";q=7;w=3", 3)],
        &[("\"a:2s\";q=5;w=2", 1), ("\"a:3s\";q=7;w=3", 3)],
        &[],
    ];
    assert_eq!(quotas.collect::<Vec<_>>(), expected);
    assert_eq!(overrides.grants[3], Grant::Blocked);
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

#[test]
fn a_table_of_prices_has_at_most_so_many_rows_and_names() {
    let file = |rows: usize, names: usize| {
        let terms = (0..names).map(|n| format!("{{ from = 'response-json:/n', price = 'n{n}' }}"));
        let prices: Vec<String> = (0..names).map(|n| format!("n{n} = 1")).collect();
        let prices = prices.join(", ");
        let rows = (0..rows).map(|row| format!("m{row} = {{ {prices} }}\n"));
        format!(
            "[listeners.main]\naddress = '127.0.0.1:0'\n[upstreams.echo]\nendpoints = ['builtin:echo']\n\
             [policies.a]\nquota = '100000000 per hour'\nreserve_default = 5\n\
             cost_by = 'request-json:/model'\ncost = [{}]\n[policies.a.prices]\n\
             '*' = 'dearest'\n{}[[routes]]\npath = '/*'\nupstream = 'echo'\npolicies = ['a']\n",
            terms.collect::<Vec<_>>().join(", "),
            rows.collect::<String>(),
        )
    };
    let report = |text: &str| load(text, &|_| None, &mut |_| SeriesId(0)).map(drop);
    for (rows, names, wrong) in [
        (10_000, 1, None),
        (10_001, 1, Some("`prices` has 10001 rows")),
        (1, 16, None),
        (1, 17, Some("the terms name 17 prices")),
    ] {
        let text = file(rows, names);
        let shown = report(&text).map_err(|report| report.render("a.toml", &text, false));
        match wrong {
            None => assert_eq!(shown, Ok(())),
            Some(wrong) => assert!(shown.is_err_and(|shown| shown.contains(wrong)), "{rows}"),
        }
    }
}
