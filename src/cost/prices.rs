//! A table of prices: which factors the terms of a cost have, by a text in the request.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::weight::Weight;

/// Longest text that chooses prices, in bytes.
pub const PRICED_TEXT_MAX: usize = 256;

/// Prices that a text in the request chooses; `S` says where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priced<S> {
    /// Where the text stands; if several places tell one, it must be the same.
    pub by: Vec<S>,
    /// The prices.
    pub table: Arc<PriceTable>,
}

/// Factors by patterns of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceTable {
    rows: Vec<Factors>,
    /// The rows of single texts.
    texts: BTreeMap<Box<str>, u32>,
    /// The rows of all texts that begin so.
    prefixes: BTreeMap<Box<str>, u32>,
    /// The row of the other texts.
    others: Others,
    dearest: Factors,
    cheapest: Factors,
    /// The largest price of each name, to be shown.
    largest: Vec<(Box<str>, Weight)>,
}

/// What the terms of a policy are multiplied by, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Factors {
    /// Those of the cost.
    pub cost: Box<[Weight]>,
    /// Those of the reserve.
    pub reserve: Box<[Weight]>,
    /// Those of what an answer costs that did not tell.
    pub unknown: Box<[Weight]>,
}

/// What a text costs that no pattern matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// Its request is refused.
    #[default]
    Refused,
    /// The dearest of all prices.
    Dearest,
    /// The prices of this row.
    Row(u32),
}

/// The factors that a request was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriceRow {
    /// There is no table: each term has its own.
    #[default]
    NoTable,
    /// Those of this row.
    Row(u32),
    /// The largest of each term.
    Dearest,
    /// The smallest of each term.
    Cheapest,
}

impl PriceTable {
    /// Makes a table of patterns, each a text or a prefix that ends with `*`, with their factors; `*` alone is for all
    /// other texts. `largest` has the largest price of each name.
    pub fn new(
        rows: impl IntoIterator<Item = (String, Factors)>,
        has_dearest: bool,
        largest: Vec<(Box<str>, Weight)>,
    ) -> Self {
        let mut table = Self {
            largest,
            ..Self::default()
        };
        if has_dearest {
            table.others = Others::Dearest;
        }
        for (pattern, factors) in rows {
            let row = u32::try_from(table.rows.len()).expect("the file bounds them");
            match pattern.strip_suffix('*') {
                Some("") => table.others = Others::Row(row),
                Some(prefix) => {
                    table.prefixes.insert(prefix.into(), row);
                }
                None => {
                    table.texts.insert(pattern.into(), row);
                }
            }
            table.rows.push(factors);
        }
        table.dearest = Factors::each(&table.rows, Weight::max);
        table.cheapest = Factors::each(&table.rows, Weight::min);
        table
    }

    /// Returns the row of a request with this text, if it has one; none if it is to be refused.
    pub fn find(&self, text: Option<&str>) -> Option<PriceRow> {
        let found =
            text.and_then(|text| self.texts.get(text).copied().or(self.longest_prefix(text)));
        match (found, self.others) {
            (Some(row), _) | (None, Others::Row(row)) => Some(PriceRow::Row(row)),
            (None, Others::Dearest) => Some(PriceRow::Dearest),
            (None, Others::Refused) => None,
        }
    }

    /// Returns how many rows it has.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Says what happens to texts that no pattern matches.
    pub fn others(&self) -> Others {
        self.others
    }

    /// Returns the largest price of each name.
    pub fn largest(&self) -> &[(Box<str>, Weight)] {
        &self.largest
    }

    /// Returns the factors of a request.
    pub(super) fn factors(&self, row: PriceRow) -> Option<&Factors> {
        match row {
            PriceRow::NoTable => None,
            PriceRow::Row(row) => self.rows.get(row as usize),
            PriceRow::Dearest => Some(&self.dearest),
            PriceRow::Cheapest => Some(&self.cheapest),
        }
    }

    /// Finds the longest prefix of a text. The last one that is not behind the text in the order of texts is it, or
    /// shares all of it with the text, so that only what they share is left to be looked at.
    fn longest_prefix(&self, text: &str) -> Option<u32> {
        let mut rest = text;
        loop {
            let before = (Bound::Unbounded, Bound::Included(rest));
            let (prefix, row) = self.prefixes.range::<str, _>(before).next_back()?;
            if rest.starts_with(&**prefix) {
                return Some(*row);
            }
            let shared = rest.char_indices().zip(prefix.chars());
            let end = shared.take_while(|((_, one), other)| one == other).last();
            rest = &rest[..end.map_or(0, |((at, shared), _)| at + shared.len_utf8())];
        }
    }
}

impl Factors {
    /// Chooses a factor of each term from rows of the same length.
    fn each(rows: &[Self], choose: fn(Weight, Weight) -> Weight) -> Self {
        let of = |factors: fn(&Self) -> &[Weight]| {
            let mut rows = rows.iter().map(factors);
            let first = rows.next().unwrap_or_default().to_vec();
            let chosen = rows.fold(first, |mut chosen, row| {
                for (one, other) in chosen.iter_mut().zip(row) {
                    *one = choose(*one, *other);
                }
                chosen
            });
            chosen.into()
        };
        Self {
            cost: of(|row| &row.cost),
            reserve: of(|row| &row.reserve),
            unknown: of(|row| &row.unknown),
        }
    }
}
