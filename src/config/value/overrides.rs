//! Patterns of `overrides`, which say which clients an override applies to.

use super::{ValueError, did_you_mean, method, nearest, network, one_of, part_choice};
use crate::config::display;
use crate::request::{BadPattern, Choice, Part, PartPattern, Partition, Pattern};

/// The parts of a request that choose the override of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Chooser<'p> {
    /// The policy's partition, or the parts in `overrides_by`.
    pub by: &'p Partition,
    /// Whether the values are verified tiers, which are shown in clear because they are not clients' keys.
    pub are_tiers: bool,
}

impl Chooser<'_> {
    /// Parses a pattern: for a partition of one part, the value alone; for others, a value for each part
    /// that it names, such as `header:x-api-key=live_*, ip=10.0.0.0/8`.
    ///
    /// After a comma, a part begins only if the name of a part and `=` follow, so values may contain both.
    pub fn pattern(&self, text: &str) -> Result<Pattern, ValueError> {
        if let [Choice(parts)] = &*self.by.0
            && let [part] = &**parts
        {
            let name = display::part(part);
            if text
                .strip_prefix(&*name)
                .is_some_and(|rest| rest.starts_with('='))
            {
                return Err(ValueError::new(
                    "names a part, but the partition has only one",
                    "the value alone",
                )
                .hint(format!("leave `{name}=` out: the policy has no other part")));
            }
            return Ok(vec![Some(self.part(part, text)?)]);
        }
        let mut pattern: Pattern = vec![None; self.by.0.len()];
        let mut is_named = vec![false; self.by.0.len()];
        for (name, value) in self.named(text)? {
            let (item, alternative, part) = self.find(name)?;
            if std::mem::replace(&mut is_named[item], true) {
                return Err(ValueError::new(
                    "names one part of the partition twice",
                    "each part once",
                ));
            }
            let said = self.part(part, value)?.of_alternative(alternative);
            // A part that is left out matches everything, too.
            let says_nothing = said.is_everything() && self.by.0[item].0.len() == 1;
            pattern[item] = (!says_nothing).then_some(said);
        }
        Ok(pattern)
    }

    /// Splits a pattern into the parts that it names, each with its value.
    fn named<'t>(&self, text: &'t str) -> Result<Vec<(&'t str, &'t str)>, ValueError> {
        let name_at = |at: usize| Some(text[at..].split_once('=')?.0.trim());
        let Some(name) = name_at(0) else {
            return Err(ValueError::new(
                "does not say which part it is about",
                self.expected(),
            ));
        };
        let (mut named, mut name, mut start) = (Vec::new(), name, 0);
        for (comma, _) in text.match_indices(',') {
            if let Some(next) = name_at(comma + 1).filter(|next| is_name(next)) {
                named.push((name, value_of(&text[start..comma])));
                (name, start) = (next, comma + 1);
            }
        }
        named.push((name, value_of(&text[start..])));
        Ok(named)
    }

    /// Finds a part by its name; returns the index of its item, the index of its alternative there, and the part.
    fn find(&self, name: &str) -> Result<(usize, usize, &Part), ValueError> {
        let names = || {
            self.by
                .0
                .iter()
                .flat_map(|choice| &choice.0)
                .map(display::part)
        };
        let unknown = || {
            let names: Vec<String> = names().collect();
            let hint = did_you_mean(name, names.iter().map(String::as_str));
            ValueError::new(
                "names a part that the partition does not have",
                self.expected(),
            )
            .maybe_hint(hint)
        };
        let wanted = match part_choice(name) {
            Ok(Choice(parts)) if parts.len() == 1 => parts,
            _ => return Err(unknown()),
        };
        let found = self.by.0.iter().enumerate().find_map(|(item, choice)| {
            let alternative = choice.0.iter().position(|part| *part == wanted[0])?;
            Some((item, alternative, &choice.0[alternative]))
        });
        found.ok_or_else(unknown)
    }

    fn part(&self, part: &Part, text: &str) -> Result<PartPattern, ValueError> {
        let text = text.trim();
        let is_glob = text.ends_with('*');
        let pattern = match part {
            Part::Ip if text != "*" => {
                network(text)
                    .map(PartPattern::network)
                    .map_err(|mut wrong| {
                        let network = || "write a network: `10.0.0.0/8`".to_owned();
                        wrong.hint = is_glob.then(network).or(wrong.hint);
                        wrong
                    })?
            }
            _ => PartPattern::text(part, text).map_err(bad)?,
        };
        if *part == Part::Method && !is_glob {
            method(text)?;
        }
        Ok(if self.are_tiers {
            pattern.in_clear(text)
        } else {
            pattern
        })
    }

    fn expected(&self) -> String {
        let parts = self.by.0.iter().flat_map(|choice| &choice.0);
        let parts: Vec<String> = parts
            .map(|part| format!("{}=VALUE", display::part(part)))
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        one_of(&parts)
    }
}

fn value_of(named: &str) -> &str {
    named.split_once('=').map_or("", |(_, value)| value)
}

/// Whether a text is the name of a part, or nearly.
fn is_name(text: &str) -> bool {
    match text.split_once(':') {
        Some((kind, name)) => {
            let is_part = |byte: u8| byte.is_ascii_graphic() && byte != b',';
            nearest(kind, KINDS).is_some() && text.bytes().all(is_part) && !name.is_empty()
        }
        None => part_choice(text).is_ok(),
    }
}

fn bad(bad: BadPattern) -> ValueError {
    match bad {
        BadPattern::Empty => ValueError::new("is empty", VALUES)
            .unquoted("this pattern")
            .hint("an empty value counts as missing; `*` is every value"),
        BadPattern::StarInside => ValueError::new("has a `*` before its end", VALUES),
        BadPattern::Host => ValueError::new(
            "is not a host",
            "a host such as `api.example.com`, without a port, or `api.*`",
        ),
        BadPattern::Credential => ValueError::new(
            "is not a credential that a request can have",
            "a scheme and what follows it, such as `Bearer abc`, `Bearer *` or `Basic YTpi`",
        )
        .hint("after `Basic` comes what clients send: the base64 of `NAME:PASSWORD`"),
    }
}

/// Kinds of parts that a name follows, as in `header:NAME`.
const KINDS: [&str; 5] = ["header", "cookie", "query", "path", "jwt"];
const VALUES: &str = "a value, or a glob with one `*` at its end such as `live_*`";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::grant;

    fn partition(items: &[&str]) -> Partition {
        let choices = items
            .iter()
            .map(|item| part_choice(item).expect("a good item"));
        Partition(choices.collect())
    }

    fn pattern(items: &[&str], text: &str) -> Result<Pattern, ValueError> {
        let by = &partition(items);
        Chooser {
            by,
            are_tiers: false,
        }
        .pattern(text)
    }

    /// Whether a pattern restricts just these items: the alternative, the part and the value of each.
    fn said(pattern: &Pattern, texts: &[(usize, &str, &str)]) -> bool {
        let expected = texts.iter().map(|(alternative, part, text)| {
            let choice = part_choice(part).expect("a part");
            let one = match &choice.0[0] {
                Part::Ip => PartPattern::network(network(text).expect("a network")),
                part => PartPattern::text(part, text).expect("a value"),
            };
            Some(one.of_alternative(*alternative))
        });
        let expected: Vec<_> = expected.collect();
        pattern.iter().filter(|said| said.is_some()).eq(&expected)
    }

    /// A partition, a pattern of it, and the items that it restricts: alternative, part, value.
    type Row<'t> = (&'t [&'t str], &'t str, &'t [(usize, &'t str, &'t str)]);

    #[test]
    fn values_may_have_commas_and_equals_signs() {
        let compound = ["header:x-tenant", "header:x-user | ip", "route"];
        let table: [Row<'_>; 9] = [
            (&["header:a"], "b, c=d", &[(0, "header:a", "b, c=d")]),
            (&["header:a"], "host=b", &[(0, "header:a", "host=b")]),
            (
                &compound,
                "header:x-tenant=a",
                &[(0, "header:x-tenant", "a")],
            ),
            (
                &compound,
                "ip=10.0.0.0/8, header:X-Tenant = a",
                &[(0, "header:x-tenant", "a"), (1, "ip", "10.0.0.0/8")],
            ),
            (
                &compound,
                "header:x-tenant=a, b=c,d,header:x-user=e==",
                &[
                    (0, "header:x-tenant", "a, b=c,d"),
                    (0, "header:x-user", "e=="),
                ],
            ),
            (&compound, "route=/a/{b}, c", &[(0, "route", "/a/{b}, c")]),
            (
                &compound,
                "header:x-tenant=http://a?b=c, http://d=e",
                &[(0, "header:x-tenant", "http://a?b=c, http://d=e")],
            ),
            (
                &compound,
                "header:x-tenant=*, route=a",
                &[(0, "route", "a")],
            ),
            (&compound, "header:x-user=*", &[(0, "header:x-user", "*")]),
        ];
        for (items, text, expected) in table {
            let pattern = pattern(items, text).expect(text);
            assert!(said(&pattern, expected), "{text}: {pattern:?}");
        }
    }

    #[test]
    fn a_pattern_says_how_to_mend_it() {
        let two: &[&str] = &["header:x-tenant", "ip"];
        for (items, text, problem, hint) in [
            (two, "a", "does not say which part it is about", None),
            (
                two,
                "ip=10.0.0.1, ip=10.0.0.2",
                "names one part of the partition twice",
                None,
            ),
            (
                two,
                "header:x-tennant=a",
                OTHER,
                Some("did you mean `header:x-tenant`?"),
            ),
            (
                two,
                "ip=10.0.0.1, heder:x-tenant=a",
                OTHER,
                Some("did you mean `header:x-tenant`?"),
            ),
            (two, "ip=10.0.0.1, host=a", OTHER, None),
            (
                two,
                "ip=10.0.*",
                "is not a network",
                Some("write a network: `10.0.0.0/8`"),
            ),
            (
                &["ip"],
                "10.0.0.0/33",
                "is not a network",
                Some("an IPv4 network has a prefix of 0 to 32 bits"),
            ),
            (
                &["ip"],
                "ip=10.0.0.1",
                "names a part, but the partition has only one",
                Some("leave `ip=` out: the policy has no other part"),
            ),
            (
                &["method"],
                "get",
                "is not a method",
                Some("methods are case-sensitive: `GET`"),
            ),
        ] {
            let wrong = pattern(items, text).expect_err(text);
            assert_eq!(
                (wrong.problem, wrong.hint.as_deref()),
                (problem, hint),
                "{text}"
            );
        }
        let meant = grant("blockd").expect_err("no quota").hint;
        assert_eq!(meant.as_deref(), Some("did you mean `blocked`?"));
    }

    const OTHER: &str = "names a part that the partition does not have";
}
