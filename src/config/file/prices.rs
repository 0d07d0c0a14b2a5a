//! `prices` of a policy, as written in the file.

use super::Spanned;
use crate::cost::Weight;

/// `prices`, in the file's order, which has no meaning.
#[derive(Clone, Debug, Default)]
pub struct RawPrices(pub Vec<RawPriceRow>);

/// One row of `prices`.
#[derive(Clone, Debug, PartialEq)]
pub struct RawPriceRow {
    /// Pattern of the texts that the row applies to.
    pub pattern: Spanned<String>,
    /// Prices for these texts.
    pub prices: Spanned<PriceText>,
}

/// Value of one row of `prices`.
#[derive(Clone, Debug, PartialEq)]
pub enum PriceText {
    /// `dearest`
    Dearest,
    /// Named prices.
    Named(Vec<(Spanned<String>, Weight)>),
}

impl PartialEq for RawPrices {
    fn eq(&self, other: &Self) -> bool {
        let [one, other] = [self, other].map(|Self(rows)| {
            let mut sorted: Vec<_> = rows.iter().map(RawPriceRow::sorted).collect();
            sorted.sort_unstable_by_key(|(pattern, _)| *pattern);
            sorted
        });
        one == other
    }
}

impl RawPriceRow {
    /// Returns the pattern, and its prices sorted by name, or `None` for `dearest`.
    fn sorted(&self) -> (&str, Option<Vec<(&str, Weight)>>) {
        let prices = match &self.prices.value {
            PriceText::Dearest => None,
            PriceText::Named(prices) => {
                let prices = prices.iter().map(|(name, price)| (&*name.value, *price));
                let mut prices: Vec<_> = prices.collect();
                prices.sort_unstable();
                Some(prices)
            }
        };
        (&self.pattern.value, prices)
    }
}
