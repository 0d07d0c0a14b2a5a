//! What other proxies and libraries call the keys and tables of the file, and how to write them here.
//!
//! Each line of `other_names.txt` has the titles of tables, other names of a key in them, and a hint.

/// Returns how to write `key`, if that is the name that other products give a key of the table with this title.
pub(super) fn hint(title: &str, key: &str) -> Option<&'static str> {
    let key = key.to_ascii_lowercase().replace('-', "_");
    let mut lines = lines().filter(|line| line.titles.split("; ").any(|one| one == title));
    let found = lines.find(|line| line.names.split(' ').any(|name| name == key));
    found.map(|line| line.hint)
}

/// A line of `other_names.txt`.
struct OtherName {
    titles: &'static str,
    names: &'static str,
    hint: &'static str,
}

fn lines() -> impl Iterator<Item = OtherName> {
    let lines = include_str!("other_names.txt").lines();
    lines.filter_map(|line| {
        let mut columns = line.split(" | ");
        Some(OtherName {
            titles: columns.next()?,
            names: columns.next()?,
            hint: columns.next()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::TABLES;

    #[test]
    fn no_other_name_is_a_key_of_its_table() {
        assert!(lines().count() > 80);
        for line in lines() {
            for title in line.titles.split("; ") {
                let mut tables = TABLES.iter().filter(|table| table.title == title);
                let table = tables.next();
                let is_key = |name: &&str| {
                    table.is_some_and(|table| table.names().any(|known| known == *name))
                };
                assert_eq!(line.names.split(' ').find(is_key), None, "of {title}");
            }
        }
    }

    #[test]
    fn a_name_is_known_however_it_is_spelled() {
        for key in ["dry_run", "dry-run", "Dry_Run"] {
            let hint = hint("[policies.NAME]", key);
            assert_eq!(hint, Some("did you mean `mode = \"shadow\"`?"), "{key}");
        }
        assert_eq!(hint("[listeners.NAME]", "dry_run"), None);
    }
}
