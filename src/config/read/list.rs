//! Reads lists: those of the file, and those in a variable, whose items are separated by commas.

use std::borrow::Cow;

use toml::de::DeValue;

use super::scalar::{ListItem, OneItem, Scalar};
use super::variables::expand;
use crate::config::file::Spanned;
use crate::config::pieces::only_variable;
use crate::config::secrets::{redacted, without_defaults};

impl<'t> Scalar<'t, '_> {
    /// Reads a list, each item by itself, and keeps the items that are right.
    ///
    /// A string that consists of one variable stands for a list, too.
    pub fn items<T>(
        mut self,
        example: &str,
        one: OneItem,
        read: impl Fn(Scalar<'_, '_>) -> Option<T>,
    ) -> Option<Vec<Spanned<T>>> {
        let nodes: Vec<_> = match self.node.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            DeValue::String(written)
                if one != OneItem::Table && only_variable(written).is_some() =>
            {
                return self.items_of_variable(written, read);
            }
            DeValue::String(_) | DeValue::Table(_) if one == OneItem::Plain => vec![self.node],
            other => {
                let wanted = match one {
                    OneItem::InList | OneItem::Table => "a list",
                    OneItem::Plain => "a string or a list",
                };
                let raw = self.raw();
                let alone = one != OneItem::Table
                    && (other.is_str() || other.is_integer())
                    && !raw.contains('\n')
                    && redacted(raw) == raw;
                self.mistyped(wanted, format!("a list such as `{example}`"))
                    .maybe_hint(alone.then(|| format!("did you mean `[{raw}]`?")));
                return None;
            }
        };
        let items = nodes.into_iter().filter_map(|node| {
            let value = read(self.part(format!("an item of {}", self.subject), node))?;
            let span = node.span();
            Some(Spanned { value, span })
        });
        Some(items.collect())
    }

    /// Reads the list that a variable stands for. Blanks around an item are not part of it, and the last one may be
    /// followed by a comma, as in a list of the file.
    fn items_of_variable<T>(
        mut self,
        written: &'t str,
        read: impl Fn(Scalar<'_, '_>) -> Option<T>,
    ) -> Option<Vec<Spanned<T>>> {
        self.note_secret_files(written);
        let list = match expand(written, self.source.env, &mut Vec::new()) {
            Ok(list) => list,
            Err(undefined) => {
                self.undefined(undefined);
                return None;
            }
        };
        if list.trim().is_empty() {
            return Some(Vec::new());
        }
        let list = list.trim();
        let list = list.strip_suffix(',').unwrap_or(list);
        let is_only = !list.contains(',');
        let items = (1..).zip(list.split(',')).filter_map(|(number, item)| {
            let (span, item) = (self.node.span(), item.trim());
            if item.is_empty() {
                let message = format!("item {number} of `{}` is empty", without_defaults(written));
                (self.report).mistake(&span, message, "a value between two commas");
                return None;
            }
            let number = (!is_only).then_some(number);
            let of_list = ListItem { written, number };
            let node = toml::Spanned::new(span.clone(), DeValue::String(Cow::Borrowed(item)));
            let value = read(Scalar {
                subject: format!("an item of {}", self.subject),
                node: &node,
                source: self.source,
                report: self.report,
                of_list: Some(of_list),
            })?;
            Some(Spanned { value, span })
        });
        Some(items.collect())
    }
}
