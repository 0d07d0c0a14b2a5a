//! Tables of prices: each row becomes the factors of a policy's terms.

use std::collections::BTreeSet;

use crate::config::file::{PriceText, RawPolicy, RawPriceRow, Spanned, Table};
use crate::config::options::POLICY;
use crate::config::report::Report;
use crate::config::secrets::redacted;
use crate::config::value::{CostText, did_you_mean};
use crate::cost::{
    Amount, BadWeight, Factors, NumberSource, PRICED_TEXT_MAX, PriceTable, Priced, Sum, Term,
    Weight,
};

/// The terms of a policy by the keys that list them, and the prices that they name.
struct PricedTerms<'t> {
    sums: ReportedSums<'t>,
    /// Names of the prices that the terms use.
    names: BTreeSet<&'t str>,
}

/// The terms of `cost`, `reserve` and `cost_unknown`, by key; `None` for a key that is not read from bodies.
type ReportedSums<'t> = [(&'static str, Option<&'t Sum<NumberSource>>); 3];

/// Returns the lists of terms of a policy, by key.
pub(super) fn reported_sums(policy: &RawPolicy) -> ReportedSums<'_> {
    let cost = match &policy.cost {
        CostText::Body(sum) => Some(sum),
        _ => None,
    };
    let unknown = policy.cost_unknown.as_ref().and_then(Amount::reported);
    [
        ("cost", cost),
        ("reserve", policy.reserve.reported()),
        ("cost_unknown", unknown),
    ]
}

/// Compiles `cost_by` and `prices`, or returns `None` if the policy has no prices, or a mistake in them.
pub(super) fn compile(
    table: &Table<RawPolicy>,
    report: &mut Report,
) -> Option<Priced<NumberSource>> {
    if table.is_incomplete(POLICY.about.title) {
        return None;
    }
    let terms = PricedTerms::of(&table.value);
    let place = match (table.place("cost_by"), table.place("prices")) {
        (Some(_), Some(place)) => place,
        (Some(place), None) => {
            (report.mistake(place, "`cost_by` without `prices`", "a table with `prices`"))
                .hint("add `prices = { \"gpt-5*\" = { input = 1.25 } }`");
            return None;
        }
        (None, Some(place)) => {
            (report.mistake(
                place,
                "`prices` without `cost_by`",
                "a table with `cost_by`",
            ))
            .hint("add `cost_by = \"request-json:/model\"`: the text that selects the prices");
            return None;
        }
        (None, None) => {
            terms.check_without_prices(table, report);
            return None;
        }
    };
    let rows = &table.value.prices.0;
    let has_prices = |row: &&RawPriceRow| matches!(row.prices.value, PriceText::Named(_));
    let count = rows.iter().filter(has_prices).count();
    let names = terms.names.len();
    let (message, expected) = match (count, names) {
        (0, _) => (
            "`prices` has no row with prices".to_owned(),
            "at least one row",
        ),
        (_, 0) => ("no term has a `price`".to_owned(), "a term with a `price`"),
        _ if count > ROWS_MAX => (format!("`prices` has {count} rows"), "at most 10000 rows"),
        _ if names > NAMES_MAX => (format!("the terms name {names} prices"), "at most 16 names"),
        _ => return Some(terms.priced(table, report)),
    };
    let hint = (count == 0 || names == 0).then(|| {
        "a row is `\"gpt-5*\" = { input = 1.25 }`, a term `{ from = …, price = \"input\" }`"
            .to_owned()
    });
    report.mistake(place, message, expected).maybe_hint(hint);
    None
}

impl<'t> PricedTerms<'t> {
    fn of(policy: &'t RawPolicy) -> Self {
        let sums = reported_sums(policy);
        let terms = sums.iter().filter_map(|(_, sum)| *sum);
        let terms = terms.flat_map(|sum| &sum.terms);
        Self {
            sums,
            names: terms.filter_map(|term| term.price.as_deref()).collect(),
        }
    }

    /// Compiles the rows of `prices`.
    fn priced(&self, table: &Table<RawPolicy>, report: &mut Report) -> Priced<NumberSource> {
        let rows = &table.value.prices.0;
        let has_dearest = |row: &RawPriceRow| row.prices.value == PriceText::Dearest;
        let compiled = rows.iter().filter_map(|row| {
            check_pattern(&row.pattern, report);
            self.row(row, report)
        });
        let compiled: Vec<_> = compiled.collect();
        let has_dearest = rows.iter().any(has_dearest);
        Priced {
            by: table.value.cost_by.clone().unwrap_or_default(),
            table: PriceTable::new(compiled, has_dearest, self.largest(rows)).into(),
        }
    }

    /// Refuses terms with a price in a policy without `prices`.
    fn check_without_prices(&self, table: &Table<RawPolicy>, report: &mut Report) {
        for (key, sum) in self.sums {
            let mut terms = sum.iter().flat_map(|sum| &sum.terms);
            if let Some(name) = terms.find_map(|term| term.price.as_deref())
                && let Some(place) = table.place(key)
            {
                let message =
                    format!("a term of `{key}` has the price `{name}`, but there are no `prices`");
                (report.mistake(place, message, "a table with `prices` and `cost_by`"))
                    .hint("add them, or write the factor: `times = 1.25`");
            }
        }
    }

    /// Compiles a row, or returns `None` if it has no prices of its own, or a mistake.
    fn row(&self, row: &RawPriceRow, report: &mut Report) -> Option<(String, Factors)> {
        let (pattern, place) = (&row.pattern.value, &row.prices.span);
        let shown = redacted(pattern);
        let prices = match &row.prices.value {
            PriceText::Named(prices) => prices,
            PriceText::Dearest if pattern == "*" => return None,
            PriceText::Dearest => {
                let expected = "a table such as `{ input = 1.25 }`";
                (report.mistake(place, format!("`{shown}` cannot be `dearest`"), expected)).hint(
                    "`\"*\" = \"dearest\"` gives the dearest prices to all values without a row",
                );
                return None;
            }
        };
        let known: Vec<_> = self.names.iter().map(|name| format!("`{name}`")).collect();
        for (name, _) in prices {
            if !self.names.contains(&*name.value) {
                let message = format!("no term has the price `{}`", redacted(&name.value));
                let hint = did_you_mean(&name.value, self.names.iter().copied());
                (report.mistake(&name.span, message, known.join(" or "))).maybe_hint(hint);
            }
        }
        let price = |name: &str| {
            let mut prices = prices.iter();
            prices
                .find(|(known, _)| known.value == name)
                .map(|(_, price)| *price)
        };
        let lacking = self.names.iter().filter(|name| price(name).is_none());
        let lacking: Vec<_> = lacking.map(|name| format!("`{name}`")).collect();
        if !lacking.is_empty() {
            let message = format!("the prices of `{shown}` lack {}", lacking.join(", "));
            let hint = "every row has every price that a term names, if need be as 0";
            (report.mistake(place, message, format!("a table with {}", known.join(", "))))
                .hint(hint);
            return None;
        }
        let factors = |sum: Option<&'t Sum<NumberSource>>| -> Result<Box<[Weight]>, _> {
            let terms = sum.into_iter().flat_map(|sum| &sum.terms);
            terms.map(|term| factor(term, price)).collect()
        };
        let [cost, reserve, unknown] = self.sums.map(|(_, sum)| factors(sum));
        let all = (|| {
            Ok(Factors {
                cost: cost?,
                reserve: reserve?,
                unknown: unknown?,
            })
        })();
        let all = all.map_err(|(name, bad): (&str, BadWeight)| {
            let message = format!(
                "`times` of a term and the price `{name}` of `{shown}`: their product {bad}"
            );
            report.mistake(
                place,
                message,
                "a product up to 1000000000 with at most 9 decimals",
            );
        });
        Some((pattern.clone(), all.ok()?))
    }

    /// Returns the largest price of each name.
    fn largest(&self, rows: &[RawPriceRow]) -> Vec<(Box<str>, Weight)> {
        let largest = self.names.iter().filter_map(|name| {
            let prices = rows.iter().filter_map(|row| match &row.prices.value {
                PriceText::Named(prices) => prices.iter().find(|(known, _)| known.value == *name),
                PriceText::Dearest => None,
            });
            let largest = prices.map(|(_, price)| *price).max()?;
            Some(((*name).into(), largest))
        });
        largest.collect()
    }
}

/// Returns the factor of a term, or the name of its price if the product with that is not a weight.
fn factor(
    term: &Term<NumberSource>,
    price: impl Fn(&str) -> Option<Weight>,
) -> Result<Weight, (&str, BadWeight)> {
    let Some(name) = term.price.as_deref() else {
        return Ok(term.times);
    };
    let price = price(name).unwrap_or(Weight::ONE);
    term.times.times(price).map_err(|bad| (name, bad))
}

/// Refuses a pattern that can match nothing.
fn check_pattern(Spanned { value, span }: &Spanned<String>, report: &mut Report) {
    let prefix = value.strip_suffix('*').unwrap_or(value);
    let shown = redacted(value);
    if prefix.contains('*') {
        let message = format!("`{shown}` has a `*` that is not at its end");
        (report.mistake(span, message, "a value, or a prefix that ends with `*`"))
            .hint("the longest prefix that matches counts");
    }
    if prefix.len() > PRICED_TEXT_MAX {
        let message = "this pattern is longer than any value that is looked for";
        report.mistake(span, message, format!("at most {PRICED_TEXT_MAX} bytes"));
    }
}

/// Most rows of a table.
const ROWS_MAX: usize = 10_000;

/// Most prices that the terms of a policy name.
const NAMES_MAX: usize = 16;
