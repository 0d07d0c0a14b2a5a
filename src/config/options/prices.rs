//! `cost_by` and `prices` of `[policies.NAME]`.

use super::ValueShape;
use super::kind::{ValueSpec, decimal, text};
use crate::config::display;
use crate::config::file::{PriceText, RawPriceRow, RawPrices};
use crate::config::read::{Form, FreeKeys, Scalar};
use crate::config::secrets::redacted;
use crate::config::value::{PRICED_SOURCES, WEIGHTS, dearest, sources, sources_pattern, weight};
use crate::cost::NumberSource;

/// `cost_by`
pub(super) fn cost_by() -> ValueSpec<Option<Vec<NumberSource>>> {
    let parse = |text: &str| sources(text, PRICED_SOURCES);
    let spell = |them: &Vec<NumberSource>| display::sources(them);
    text("request-json:/model", parse, spell)
        .matching(sources_pattern(PRICED_SOURCES))
        .or_none("none")
}

/// `prices`
pub(super) fn prices() -> ValueSpec<RawPrices> {
    let read = |scalar: Scalar<'_, '_>| {
        let rows = scalar.entries(&PATTERNS, quoted, row)?;
        let rows = rows
            .into_iter()
            .map(|(pattern, prices)| RawPriceRow { pattern, prices });
        Some(RawPrices(rows.collect()))
    };
    let row = vec![
        ValueShape::Word(vec!["dearest"]),
        ValueShape::FreeTable(Box::new(ValueShape::Number)),
    ];
    let shape = ValueShape::FreeTable(Box::new(ValueShape::OneOf(row)));
    let count = |prices: &RawPrices| prices.0.len().to_string();
    ValueSpec::new(PATTERNS.example, shape, read, count).or(RawPrices::default())
}

/// Reads a row: a table of named prices, or the word `dearest`.
fn row(value: Scalar<'_, '_>) -> Option<PriceText> {
    if !value.is_table() {
        let word = Form::NumberOrText("dearest");
        return value.read(&word, dearest).map(|()| PriceText::Dearest);
    }
    let price = decimal(WEIGHTS, weight);
    let prices = value.entries(&NAMES, quoted, |price_text| price.read(price_text))?;
    let prices = prices.into_iter().map(|(name, price)| (name, price.value));
    Some(PriceText::Named(prices.collect()))
}

fn quoted(key: &str) -> String {
    redacted(key).into_owned()
}

const PATTERNS: FreeKeys = FreeKeys {
    example: "{ \"gpt-5*\" = { input = 1.25 } }",
    noun: "a pattern",
    dotted: "gpt-5.1",
    // Names of prices are words; versions of models are numbers.
    is_inner: |name| name.starts_with(char::is_alphabetic),
};

const NAMES: FreeKeys = FreeKeys {
    example: "{ input = 1.25 }",
    noun: "the name of a price",
    dotted: "input.cached",
    is_inner: |_| false,
};
