//! Names of types: no two types of the crate have one.

use std::collections::BTreeMap;

use syn::visit::{Visit, visit_item_mod};
use syn::{Ident, ItemEnum, ItemMod, ItemStruct, ItemTrait, ItemType, ItemUnion};

use crate::crate_map::{CrateMap, is_of_tests};

/// Where each name is given to a type.
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

impl Types<'_> {
    fn note(&mut self, name: &Ident) {
        let files = self.found.entry(name.to_string()).or_default();
        files.push(self.file.to_owned());
    }
}

impl<'ast> Visit<'ast> for Types<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_of_tests(&module.attrs) {
            visit_item_mod(self, module);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        if !is_of_tests(&item.attrs) {
            self.note(&item.ident);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        if !is_of_tests(&item.attrs) {
            self.note(&item.ident);
        }
    }

    fn visit_item_union(&mut self, item: &'ast ItemUnion) {
        if !is_of_tests(&item.attrs) {
            self.note(&item.ident);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        if !is_of_tests(&item.attrs) {
            self.note(&item.ident);
        }
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        if !is_of_tests(&item.attrs) {
            self.note(&item.ident);
        }
    }
}
