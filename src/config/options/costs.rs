//! Keys of `[policies.NAME]` and of routes that take a number of units, or terms that bodies report.

use std::sync::LazyLock;

use super::kind::{ValueSpec, decimal, number, number_or_text, text, word};
use super::{TableSpec, ValueShape};
use crate::config::display;
use crate::config::file::{RouteCost, Spanned};
use crate::config::read::{FreeKeys, OneItem, Scalar};
use crate::config::secrets::redacted;
use crate::config::value::{
    COST_SOURCES, CostText, REPORTED_NUMBERS, RESERVE_SOURCES, Sources, UNKNOWN_SOURCES,
    ValueError, WEIGHTS, amount, price_name, reported_number, sources, sources_pattern, weight,
};
use crate::cost::{Amount, NumberSource, Sum, Take, Term, Weight};
use crate::limit::quota::COST_MAX;

/// `cost`
pub(super) fn cost() -> ValueSpec<CostText> {
    let plain = number_or_text("1", crate::config::value::cost, display::cost);
    let plain = plain.matching(format!(
        r"^\s*([0-9]+\s*$|re(quest|sponse)-header\s*:)|{}",
        sources_pattern(COST_SOURCES)
    ));
    let kind = or_terms(
        plain,
        &COST_TERM,
        COST_SOURCES,
        CostText::Body,
        display::cost,
    );
    kind.or(CostText::Units(1))
}

/// `reserve`
pub(super) fn reserve() -> ValueSpec<Amount<NumberSource>> {
    let plain = number_or_text("1", |text| amount(text, RESERVE_SOURCES), display::amount);
    let plain = plain.matching(amount_pattern(RESERVE_SOURCES));
    let kind = or_terms(
        plain,
        &RESERVE_TERM,
        RESERVE_SOURCES,
        Amount::Reported,
        display::amount,
    );
    kind.or(Amount::Units(1))
}

/// `cost_unknown`
pub(super) fn unknown() -> ValueSpec<Option<Amount<NumberSource>>> {
    let plain = number_or_text(
        "1000",
        |text| amount(text, UNKNOWN_SOURCES),
        display::amount,
    );
    let plain = plain.matching(amount_pattern(UNKNOWN_SOURCES));
    let kind = or_terms(
        plain,
        &UNKNOWN_TERM,
        UNKNOWN_SOURCES,
        Amount::Reported,
        display::amount,
    );
    kind.or_none("the reserve")
}

/// Returns the pattern of a number, or of the source of a single term.
fn amount_pattern(allowed: Sources) -> String {
    format!(r"^\s*[0-9]+\s*$|{}", sources_pattern(allowed))
}

/// `cost` of a route: a number, or a table of numbers by policy
pub(super) fn of_route() -> ValueSpec<RouteCost> {
    let units = number(0..=COST_MAX);
    let bounds = [0, COST_MAX].map(|bound| bound.to_string());
    let read = move |mut scalar: Scalar<'_, '_>| {
        if scalar.is_list() {
            let expected = "a number, or a table such as `{ per-key = 10 }`";
            scalar.mistyped("a number or a table", expected.to_owned());
            return None;
        }
        if !scalar.is_table() {
            return units.read(scalar).map(RouteCost::Each);
        }
        let read = |value: Scalar<'_, '_>| units.read(value);
        let name = |policy: &str| redacted(policy).to_string();
        let entries = scalar.entries(&POLICY_NAMES, name, read)?;
        let units = entries
            .into_iter()
            .map(|(policy, units)| (policy, units.value));
        Some(RouteCost::OfPolicies(units.collect()))
    };
    let shape = ValueShape::OneOf(vec![
        ValueShape::Integer,
        ValueShape::FreeTable(Box::new(ValueShape::Integer)),
    ]);
    ValueSpec::new("10", shape, read, display::route_cost).within(bounds)
}

/// A value that `plain` reads, or a term, or a list of terms. A term is a table with these `keys`; in a list, it may
/// also be only its source.
fn or_terms<V: PartialEq + Send + Sync + 'static>(
    plain: ValueSpec<V>,
    keys: &'static LazyLock<TableSpec<Term<NumberSource>>>,
    allowed: Sources,
    make: fn(Sum<NumberSource>) -> V,
    spell: fn(&V) -> String,
) -> ValueSpec<V> {
    let (example, plain_shape) = (plain.example.clone(), plain.shape.clone());
    let read = move |mut scalar: Scalar<'_, '_>| {
        if let Some(term) = scalar.table(keys) {
            return Some(make(Sum { terms: vec![term] }));
        }
        if !scalar.is_list() {
            return plain.read(scalar);
        }
        let such_as = format!("[{{ from = \"{}…\", times = 3 }}]", allowed.words[0]);
        let terms = scalar.items(&such_as, OneItem::InList, |mut item| {
            item.table(keys).or_else(|| named(allowed).read(item))
        })?;
        let terms = terms
            .into_iter()
            .map(|Spanned { value, .. }| value)
            .collect();
        Some(make(Sum { terms }))
    };
    let (source, term) = (named(allowed).shape, ValueShape::Table(keys.about.clone()));
    let item = ValueShape::OneOf(vec![source, term.clone()]);
    let shape = ValueShape::OneOf(vec![
        plain_shape,
        term,
        ValueShape::List(Box::new(item)),
        ValueShape::ListVariable,
    ]);
    ValueSpec::new(&example, shape, read, spell)
}

/// A term that is written as its source alone.
fn named(allowed: Sources) -> ValueSpec<Term<NumberSource>> {
    let parse = move |text: &str| {
        let sources = sources(text, allowed)?;
        Ok::<_, ValueError>(Term {
            sources,
            ..Term::default()
        })
    };
    let kind = text(allowed.words[0], parse, |term: &Term<NumberSource>| {
        display::sources(&term.sources)
    });
    kind.matching(sources_pattern(allowed))
}

/// A term of `cost`.
static COST_TERM: LazyLock<TableSpec<Term<NumberSource>>> =
    LazyLock::new(|| term("response-json:/usage/total_tokens", COST_SOURCES));

/// A term of `reserve`.
static RESERVE_TERM: LazyLock<TableSpec<Term<NumberSource>>> =
    LazyLock::new(|| term("request-json:/max_tokens", RESERVE_SOURCES));

/// A term of `cost_unknown`.
static UNKNOWN_TERM: LazyLock<TableSpec<Term<NumberSource>>> =
    LazyLock::new(|| term("response-bytes", UNKNOWN_SOURCES));

fn term(example: &'static str, allowed: Sources) -> TableSpec<Term<NumberSource>> {
    let from = text(
        example,
        move |text| sources(text, allowed),
        |them: &Vec<NumberSource>| display::sources(them),
    );
    TableSpec::<Term<NumberSource>>::of("term", "a term")
        .key("from", from.matching(sources_pattern(allowed)))
        .sets(|term| &mut term.sources)
        .doc("Where the number is.")
        .key(
            "times",
            decimal(WEIGHTS, weight)
                .within(WEIGHT_BOUNDS.map(str::to_owned))
                .or(Weight::ONE),
        )
        .sets(|term| &mut term.times)
        .doc("What the number is multiplied by.")
        .key(
            "price",
            text("input", price_name, Box::to_string).or_none("1"),
        )
        .sets(|term| &mut term.price)
        .doc("The name of the price in `prices` that it is multiplied by, too.")
        .key(
            "or",
            decimal(REPORTED_NUMBERS, reported_number).or_none("the cost is missing"),
        )
        .sets(|term| &mut term.or)
        .doc("What counts if the response ends well without this number.")
        .key("take", word(display::TAKES).or(Take::Largest))
        .sets(|term| &mut term.take)
        .doc("Which number counts if there are several:")
}

/// Smallest and largest factor of a term.
const WEIGHT_BOUNDS: [&str; 2] = ["-1000000000", "1000000000"];

/// Names of policies as keys of a route's table of costs.
const POLICY_NAMES: FreeKeys = FreeKeys {
    example: "{ per-key = 10 }",
    noun: "the name of a policy",
    dotted: "api.v1",
    is_inner: |_| false,
};
