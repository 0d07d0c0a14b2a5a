//! A table of prices: the factors of a cost's terms, chosen by a text in the request.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::weight::Weight;

/// Longest text that chooses prices, in bytes.
pub const PRICED_TEXT_MAX: usize = 256;

/// Prices that a text in the request chooses; `S` says where the text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priced<S> {
    /// Where the text is; if several places report one, all must report the same.
    pub by: Vec<S>,
    /// The table of prices.
    pub table: Arc<PriceTable>,
}

/// Factors of a policy's terms, by patterns of the text that chooses them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceTable {
    rows: Vec<Factors>,
    /// Rows of single texts.
    texts: BTreeMap<Box<str>, u32>,
    /// Rows of prefixes, each for all texts that begin with it.
    prefixes: BTreeMap<Box<str>, u32>,
    /// The row of all other texts.
    others: Others,
    dearest: Factors,
    cheapest: Factors,
    /// The largest price of each name, for display.
    largest: Vec<(Box<str>, Weight)>,
}

/// What the terms of a policy are multiplied by, in the order of the terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Factors {
    /// Factors of the cost.
    pub cost: Box<[Weight]>,
    /// Factors of the reserve.
    pub reserve: Box<[Weight]>,
    /// Factors of what is charged if a response does not report its cost.
    pub unknown: Box<[Weight]>,
}

/// What a text costs if no pattern matches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// Nothing: the request is refused.
    #[default]
    Refused,
    /// For each term, the largest factor of all rows.
    Dearest,
    /// The prices of this row.
    Row(u32),
}

/// The factors that apply to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriceRow {
    /// The terms' own factors, because there is no table.
    #[default]
    NoTable,
    /// The factors of this row.
    Row(u32),
    /// For each term, the largest factor of all rows.
    Dearest,
    /// For each term, the smallest factor of all rows.
    Cheapest,
}

impl PriceTable {
    /// Makes a table of patterns with their factors. A pattern is a text, or a prefix that ends with `*`; `*` alone is
    /// for all other texts, which otherwise pay the dearest prices if `has_dearest`. `largest` has the largest price of
    /// each name.
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

    /// Returns the row for a request with this text, or without one; `None` if the request is to be refused.
    pub fn find(&self, text: Option<&str>) -> Option<PriceRow> {
        let found =
            text.and_then(|text| self.texts.get(text).copied().or(self.longest_prefix(text)));
        match (found, self.others) {
            (Some(row), _) | (None, Others::Row(row)) => Some(PriceRow::Row(row)),
            (None, Others::Dearest) => Some(PriceRow::Dearest),
            (None, Others::Refused) => None,
        }
    }

    /// Returns how many rows the table has.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns what happens to texts that no pattern matches.
    pub fn others(&self) -> Others {
        self.others
    }

    /// Returns the largest price of each name.
    pub fn largest(&self) -> &[(Box<str>, Weight)] {
        &self.largest
    }

    /// Returns the factors of a request; `None` if the terms keep their own.
    pub(super) fn factors(&self, row: PriceRow) -> Option<&Factors> {
        match row {
            PriceRow::NoTable => None,
            PriceRow::Row(row) => self.rows.get(row as usize),
            PriceRow::Dearest => Some(&self.dearest),
            PriceRow::Cheapest => Some(&self.cheapest),
        }
    }

    /// Finds the row of the longest prefix that a text begins with. The last prefix that does not sort after the text
    /// is the longest one, or has it in common with the text, so the search goes on with only what the two share.
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
    /// Chooses one factor for each term from those of all rows.
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
