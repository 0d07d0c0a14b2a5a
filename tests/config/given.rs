//! Files whose variables and secret files are missing, and what `tollgate check --without-secrets` says of them.

use std::path::Path;

use tollgate::cli::check::{partial, summary};
use tollgate::config::{ConfigText, MissingValues, load};
use tollgate::limit::plan::SeriesId;

use crate::compile::golden;

#[test]
fn what_is_missing_is_taken_for_given_and_nothing_that_hangs_on_it_is_a_mistake() {
    golden("tests/config/given", 4, |name, text| {
        let config = ConfigText {
            missing: MissingValues::AreGiven,
            ..ConfigText::of(Path::new(name), text)
        };
        match load(config, &|_| None, &mut |_| SeriesId(0)) {
            Ok(loaded) => summary(name, &loaded),
            Err(report) if report.is_empty() => partial(name, &report),
            Err(report) => report.render(name, text, false),
        }
    });
}
