//! The names in each module of a crate, and the file that defines what a path names.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Ident, Item, Meta, UseTree};

/// The modules of a crate by their paths (`a::b`; the root's is empty), except those of tests.
pub struct CrateMap {
    modules: BTreeMap<String, Module>,
    /// The files, by their modules.
    pub files: BTreeMap<String, syn::File>,
}

struct Module {
    /// Module of the file in which it is written.
    file: String,
    names: Names,
}

/// The names of a module or a block.
#[derive(Default)]
pub struct Names {
    named: BTreeMap<String, Vec<Named>>,
    globs: Vec<Vec<String>>,
    /// Macros, which modules declared further down see without a path.
    macros: BTreeSet<String>,
}

enum Named {
    Item,
    Module,
    Import(Vec<String>),
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Something that a file defines: the file's module, and the name there.
    Item(String, String),
    /// A module, by its path.
    Module(String),
}

/// What one branch of a `use` imports.
pub struct Import {
    /// The path, without the `*` of a glob.
    pub path: Vec<String>,
    /// The name that it gets; `None` for a glob.
    name: Option<String>,
}

impl CrateMap {
    /// Reads the modules that `lib` declares, directly or not; `texts` maps modules to the text of their files.
    pub fn read(texts: &BTreeMap<String, String>) -> Self {
        let mut map = Self {
            modules: BTreeMap::new(),
            files: BTreeMap::new(),
        };
        let mut declared = vec![String::new()];
        while let Some(path) = declared.pop() {
            let key = if path.is_empty() { "lib" } else { &path };
            let text = (texts.get(key)).unwrap_or_else(|| panic!("{key} is declared and no file"));
            let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{key}: {error}"));
            map.add(&path, &path, &file.items, &mut declared);
            map.files.insert(path, file);
        }
        map
    }

    fn add(&mut self, path: &str, file: &str, items: &[Item], declared: &mut Vec<String>) {
        for item in items {
            if let Item::Mod(module) = item
                && !is_of_tests(&module.attrs)
            {
                let inner = join(path, &module.ident.to_string());
                match &module.content {
                    Some((_, items)) => self.add(&inner, file, items, declared),
                    None => declared.push(inner),
                }
            }
        }
        let (file, names) = (file.to_owned(), Names::of(items.iter()));
        self.modules.insert(path.to_owned(), Module { file, names });
    }

    /// Returns the module of the file in which a module is written.
    pub fn file_of(&self, module: &str) -> &str {
        &self.modules[module].file
    }

    /// Returns what a path in a module leads to, within blocks of these names, outermost first.
    pub fn resolve(&self, module: &str, blocks: &[Names], path: &[String]) -> BTreeSet<Target> {
        let (Some(first), mut seen) = (path.first(), Vec::new()) else {
            return BTreeSet::new();
        };
        let found = blocks.iter().rev().map(|names| {
            let first = self.named_in(names, module, first, &mut seen);
            self.follow(first, &path[1..], &mut seen)
        });
        let found = { found }.find(|targets| !targets.is_empty());
        found.unwrap_or_else(|| self.from(module, path, &mut Vec::new()))
    }

    /// Returns where a macro called by its bare name is defined: above in the file, or in a module around it.
    pub fn resolve_macro(&self, module: &str, name: &str) -> Option<Target> {
        let mut around = Some(module);
        while let Some(path) = around {
            if self.modules[path].names.macros.contains(name) {
                let file = self.file_of(path).to_owned();
                return Some(Target::Item(file, name.to_owned()));
            }
            around = parent(path);
        }
        None
    }

    /// Follows a path that begins in a module.
    fn from(
        &self,
        module: &str,
        path: &[String],
        seen: &mut Vec<(String, String)>,
    ) -> BTreeSet<Target> {
        let Some((first, rest)) = path.split_first() else {
            return [Target::Module(module.to_owned())].into();
        };
        let first = match &**first {
            "crate" => [Target::Module(String::new())].into(),
            "self" => [Target::Module(module.to_owned())].into(),
            "super" => (parent(module).into_iter())
                .map(|outer| Target::Module(outer.to_owned()))
                .collect(),
            name => self.named(module, name, seen),
        };
        self.follow(first, rest, seen)
    }

    /// Follows the rest of a path whose beginning leads to `first`; what an item contains is in the item's file.
    fn follow(
        &self,
        first: BTreeSet<Target>,
        rest: &[String],
        seen: &mut Vec<(String, String)>,
    ) -> BTreeSet<Target> {
        let is_module = |target: &Target| matches!(target, Target::Module(_));
        if rest.is_empty() || !first.iter().any(is_module) {
            return first;
        }
        let mut found = BTreeSet::new();
        for target in first {
            if let Target::Module(module) = target {
                found.extend(self.from(&module, rest, seen));
            }
        }
        found
    }

    /// Returns what a name means in a module.
    fn named(
        &self,
        module: &str,
        name: &str,
        seen: &mut Vec<(String, String)>,
    ) -> BTreeSet<Target> {
        let asked = (module.to_owned(), name.to_owned());
        if seen.contains(&asked) {
            return BTreeSet::new();
        }
        seen.push(asked);
        let found = self.named_in(&self.modules[module].names, module, name, seen);
        seen.pop();
        found
    }

    fn named_in(
        &self,
        names: &Names,
        module: &str,
        name: &str,
        seen: &mut Vec<(String, String)>,
    ) -> BTreeSet<Target> {
        let mut found = BTreeSet::new();
        for named in names.named.get(name).into_iter().flatten() {
            match named {
                Named::Item => {
                    let file = self.file_of(module).to_owned();
                    found.insert(Target::Item(file, name.to_owned()));
                }
                Named::Module => {
                    found.insert(Target::Module(join(module, name)));
                }
                Named::Import(path) => found.extend(self.from(module, path, seen)),
            }
        }
        // A name that a module defines or imports itself hides one of the same kind from a glob.
        let is_module = |target: &Target| matches!(target, Target::Module(_));
        let kinds: Vec<_> = found.iter().map(is_module).collect();
        for glob in &names.globs {
            for target in self.from(module, glob, seen) {
                if let Target::Module(of) = target {
                    let more = self.named(&of, name, seen).into_iter();
                    found.extend(more.filter(|target| !kinds.contains(&is_module(target))));
                }
            }
        }
        found
    }
}

impl Names {
    /// Collects the names that these items define, except those of tests.
    pub fn of<'i>(items: impl Iterator<Item = &'i Item>) -> Self {
        let mut names = Self::default();
        for item in items {
            let (attributes, name) = head(item);
            if is_of_tests(attributes) {
                continue;
            }
            let kind = match item {
                Item::Use(import) => {
                    if import.leading_colon.is_none() {
                        names.import(&import.tree);
                    }
                    continue;
                }
                Item::Mod(_) => Named::Module,
                _ => Named::Item,
            };
            if let Some(name) = name.map(Ident::to_string) {
                if let Item::Macro(_) = item {
                    names.macros.insert(name.clone());
                }
                names.named.entry(name).or_default().push(kind);
            }
        }
        names
    }

    fn import(&mut self, tree: &UseTree) {
        for import in imports(tree) {
            match import.name {
                Some(name) => {
                    let named = self.named.entry(name).or_default();
                    named.push(Named::Import(import.path));
                }
                None => self.globs.push(import.path),
            }
        }
    }
}

/// Returns the branches of a `use`.
pub fn imports(tree: &UseTree) -> Vec<Import> {
    let mut found = Vec::new();
    gather(tree, &mut Vec::new(), &mut found);
    found
}

fn gather(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<Import>) {
    let (last, name) = match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            gather(&inner.tree, path, found);
            path.pop();
            return;
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                gather(tree, path, found);
            }
            return;
        }
        UseTree::Glob(_) => (None, None),
        UseTree::Name(it) => (Some(&it.ident), Some(&it.ident)),
        UseTree::Rename(it) => (Some(&it.ident), Some(&it.rename)),
    };
    let is_self = last.is_some_and(|last| last == "self");
    let name = name.map(|name| match path.last() {
        Some(of) if name == "self" => of.clone(),
        _ => name.to_string(),
    });
    let last = last.filter(|_| !is_self).map(Ident::to_string);
    let path = path.iter().cloned().chain(last).collect();
    found.push(Import { path, name });
}

/// Returns an item's attributes, and the name that it defines.
pub fn head(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(it) => (&it.attrs, Some(&it.ident)),
        Item::Enum(it) => (&it.attrs, Some(&it.ident)),
        Item::ExternCrate(it) => (&it.attrs, None),
        Item::Fn(it) => (&it.attrs, Some(&it.sig.ident)),
        Item::ForeignMod(it) => (&it.attrs, None),
        Item::Impl(it) => (&it.attrs, None),
        Item::Macro(it) => (&it.attrs, it.ident.as_ref()),
        Item::Mod(it) => (&it.attrs, Some(&it.ident)),
        Item::Static(it) => (&it.attrs, Some(&it.ident)),
        Item::Struct(it) => (&it.attrs, Some(&it.ident)),
        Item::Trait(it) => (&it.attrs, Some(&it.ident)),
        Item::TraitAlias(it) => (&it.attrs, Some(&it.ident)),
        Item::Type(it) => (&it.attrs, Some(&it.ident)),
        Item::Union(it) => (&it.attrs, Some(&it.ident)),
        Item::Use(it) => (&it.attrs, None),
        _ => (&[], None),
    }
}

/// Whether an item with these attributes is compiled for tests only.
pub fn is_of_tests(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string() == "test",
        _ => false,
    };
    attributes.iter().any(is_test)
}

/// Whether a module is `of` itself, or lies within it.
pub fn is_within(module: &str, of: &str) -> bool {
    of.is_empty()
        || module
            .strip_prefix(of)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns the path of the module `name` within another one.
pub fn join(module: &str, name: &str) -> String {
    if module.is_empty() {
        return name.to_owned();
    }
    format!("{module}::{name}")
}

fn parent(module: &str) -> Option<&str> {
    if module.is_empty() {
        return None;
    }
    Some(module.rsplit_once("::").map_or("", |(outer, _)| outer))
}
