//! Names of types: no two types of the crate share one.

use std::collections::BTreeMap;

use syn::visit::{Visit, visit_item, visit_item_mod};
use syn::{Item, ItemMod};

use crate::crate_map::{CrateMap, is_of_tests};

/// Collects the files that give each name to a type.
struct Types<'c> {
    file: &'c str,
    found: &'c mut BTreeMap<String, Vec<String>>,
}

/// Finds the names that several structs, enums, unions, traits and aliases have, with their files.
pub fn given_twice(texts: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = BTreeMap::new();
    for (file, items) in &CrateMap::read(texts).files {
        Types {
            file,
            found: &mut found,
        }
        .visit_file(items);
    }
    let several = found.into_iter().filter(|(_, files)| files.len() > 1);
    several
        .map(|(name, files)| format!("{name} in {}", files.join(", ")))
        .collect()
}

impl<'ast> Visit<'ast> for Types<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_of_tests(&module.attrs) {
            visit_item_mod(self, module);
        }
    }

    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Struct(item) => (&item.attrs, &item.ident),
            Item::Enum(item) => (&item.attrs, &item.ident),
            Item::Union(item) => (&item.attrs, &item.ident),
            Item::Trait(item) => (&item.attrs, &item.ident),
            Item::Type(item) => (&item.attrs, &item.ident),
            other => return visit_item(self, other),
        };
        if !is_of_tests(attributes) {
            let files = self.found.entry(name.to_string()).or_default();
            files.push(self.file.to_owned());
        }
    }
}
