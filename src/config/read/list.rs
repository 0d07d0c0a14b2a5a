//! Lists in a table: each item is read by itself, and those that are right are kept.

use toml::de::DeValue;

use super::scalar::Scalar;
use super::table::{Table, plain};
use super::wording::mistyped;
use crate::config::file::At;
use crate::config::value::Wrong;

impl<'t> Table<'t, '_> {
    /// Takes a list of strings that parse themselves; `such_as` is an example of one.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        such_as: &str,
        parse: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Option<At<Vec<At<T>>>> {
        self.items(key, such_as, OneItem::InList, |item| {
            item.text(such_as, &parse)
        })
    }

    /// Takes a list, or the one item that would be in it.
    pub(super) fn list_or_one<T>(
        &mut self,
        key: &'static str,
        such_as: &str,
        parse: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Option<At<Vec<At<T>>>> {
        self.items(key, such_as, OneItem::Plain, |item| {
            item.text(such_as, &parse)
        })
    }

    /// Takes a list of names that a later stage looks up.
    pub(super) fn names(&mut self, key: &'static str) -> Vec<At<String>> {
        let names = self.items(key, "per-client", OneItem::InList, |item| {
            item.free_text("per-client")
        });
        plain(names).unwrap_or_default()
    }

    fn items<T>(
        &mut self,
        key: &'static str,
        such_as: &str,
        one: OneItem,
        mut read: impl FnMut(Scalar<'t, '_>) -> Option<At<T>>,
    ) -> Option<At<Vec<At<T>>>> {
        let found = self.find(key)?;
        let (node, span) = (found.node, found.node.span());
        let nodes: Vec<_> = match node.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            DeValue::String(_) if one == OneItem::Plain => vec![node],
            other => {
                let raw = found.raw();
                let alone = other.is_str() && !raw.contains('\n');
                let mistake = mistyped(&found.subject, one.wanted(), node)
                    .expected(format!("a list such as `[\"{such_as}\"]`"))
                    .maybe_hint(alone.then(|| format!("did you mean `[{raw}]`?")));
                found.report.add(mistake);
                return None;
            }
        };
        let subject = format!("an item of `{key}`");
        let value = nodes.into_iter().filter_map(|node| {
            read(Scalar {
                subject: subject.clone(),
                node,
                source: self.source,
                report: self.report,
            })
        });
        let value = value.collect();
        Some(At { value, span })
    }
}

/// How a list may be written that has one item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OneItem {
    InList,
    Plain,
}

impl OneItem {
    fn wanted(self) -> &'static str {
        match self {
            Self::InList => "a list",
            Self::Plain => "a string or a list",
        }
    }
}
