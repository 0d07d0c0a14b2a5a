//! The readers of strangers' bytes, tested against their laws: `targets` states the laws, `hostile` makes input.
//!
//! Here each target runs its seeds, the cases of the threat model among them, and some thousand
//! inputs made of their pieces. `scripts/fuzz` runs the same targets under libFuzzer (`fuzz/`),
//! which looks for what no piece leads to. What either finds becomes a seed, and a test named
//! after the claim it broke.

use std::collections::BTreeSet;
use std::path::PathBuf;

mod answers;
mod hostile;
#[path = "../support/mod.rs"]
mod support;
mod targets;
mod wire;

use hostile::{files, lines, run};

#[test]
fn a_path_has_one_normal_form_which_no_origin_reads_otherwise() {
    run(targets::path::holds, &lines("path"), 12_000);
}

#[test]
fn a_request_takes_the_route_that_trying_each_rule_finds() {
    run(targets::route::holds, &lines("route"), 4_000);
}

#[test]
fn a_client_is_whom_a_slow_walk_past_the_trusted_names() {
    run(targets::client::holds, &lines("client"), 8_000);
}

#[test]
fn a_host_has_one_spelling_or_is_refused() {
    run(targets::host::holds, &lines("host"), 12_000);
}

#[test]
fn stripping_leaves_all_that_is_for_the_origin_and_nothing_else() {
    run(targets::fields::holds, &lines("fields"), 6_000);
}

#[test]
fn requests_share_a_quota_exactly_if_their_parts_are_equal() {
    run(targets::partition::holds, &lines("partition"), 4_000);
}

#[test]
fn a_named_value_is_the_one_that_every_origin_reads() {
    run(targets::named_values::holds, &lines("named_values"), 20_000);
}

#[test]
fn a_proxy_header_is_never_read_past_its_end() {
    run(targets::proxy_header::holds, &lines("proxy_header"), 20_000);
}

#[test]
fn a_response_is_read_alike_in_any_pieces() {
    run(targets::response::holds, &lines("response"), 10_000);
}

#[test]
fn a_body_tells_the_numbers_that_a_full_parser_finds() {
    run(targets::cost::holds, &lines("cost"), 6_000);
}

#[test]
fn a_token_that_nobody_signed_never_verifies() {
    run(targets::token::holds, &lines("token"), 4_000);
}

#[test]
fn parts_share_a_digest_exactly_if_they_are_equal() {
    run(targets::partition_id::holds, &lines("partition_id"), 8_000);
}

#[test]
fn a_record_is_one_line_whatever_bytes_are_in_it() {
    run(targets::log_line::holds, &lines("log_line"), 4_000);
}

#[test]
fn a_scalar_is_spelled_as_it_is_read() {
    run(targets::scalar::holds, &lines("scalar"), 1_200);
}

#[test]
fn a_file_is_accepted_whole_or_reported_where_it_is_wrong() {
    let mut seeds = files(&["tests/config/good", "tests/config/bad", "."]);
    seeds.extend(lines("config"));
    run(targets::config::holds, &seeds, 400);
}

/// `scripts/fuzz` runs the binaries in `fuzz/`, which nothing else compiles.
#[test]
fn every_target_has_seeds_and_a_binary_for_libfuzzer() {
    let names = |folder| {
        let files = std::fs::read_dir(hostile::at(folder)).expect(folder);
        let stem = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
        let names = files.filter_map(|file| stem(file.expect("an entry").path()));
        names.collect::<BTreeSet<String>>()
    };
    let mut targets = names("tests/fuzz/targets");
    targets.remove("mod");
    assert_eq!(names("fuzz/fuzz_targets"), targets);
    let manifest = std::fs::read_to_string(hostile::at("fuzz/Cargo.toml")).expect("a manifest");
    for name in &targets {
        lines(name);
        let binary = format!("[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n");
        assert!(manifest.contains(&binary), "{name} is no binary");
    }
}
