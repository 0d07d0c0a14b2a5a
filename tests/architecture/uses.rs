//! What each file uses, and the files that define it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Arm, Attribute, Block, Field, ImplItem, Item, ItemUse, Local, Macro, Path};
use syn::{Stmt, StmtMacro, TraitItem, Variant, Visibility};

use crate::crate_map::{self, CrateMap, Names, Target, is_of_tests, is_within, join};

/// For the modules of two files, what the first one uses that the second one defines.
pub type Uses = BTreeMap<(String, String), BTreeSet<String>>;

/// Reads what each file uses of others.
///
/// An item is used by each path that leads to it: in imports, types, expressions and patterns, in signatures and in
/// bodies, and among the tokens of macros and attributes. A path through a re-export uses the file that defines the
/// item, not the one that re-exports it. What is reached through a type (a variant, an associated function) is used
/// where the type is defined. A method call on a value uses nothing, because its type need not be written.
///
/// A re-export of something in or below its own module uses nothing, nor do declarations of modules or code that is
/// compiled for tests only.
///
/// # Panics
/// If a path of the crate leads nowhere, for example because a macro defines what it names.
pub fn read(map: &CrateMap) -> Uses {
    let mut found = Uses::new();
    for (module, file) in &map.files {
        let mut reader = Reader {
            map,
            module: module.clone(),
            blocks: Vec::new(),
            found: &mut found,
        };
        reader.visit_file(file);
    }
    found
}

struct Reader<'m> {
    map: &'m CrateMap,
    /// The module that is being read.
    module: String,
    /// Names in the blocks around the code that is being read, outermost first.
    blocks: Vec<Names>,
    found: &'m mut Uses,
}

impl Reader<'_> {
    fn path(&mut self, path: &[String]) {
        for target in self.resolve(path) {
            self.target(target);
        }
    }

    fn resolve(&self, path: &[String]) -> BTreeSet<Target> {
        let found = self.map.resolve(&self.module, &self.blocks, path);
        let is_rooted = ["crate", "self", "super"].contains(&&*path[0]);
        let is_lost = is_rooted && found.is_empty();
        assert!(!is_lost, "{}: {path:?} leads nowhere", self.module);
        found
    }

    fn target(&mut self, target: Target) {
        let file = self.map.file_of(&self.module);
        if let Target::Item(of, name) = target
            && of != file
        {
            let edge = (file.to_owned(), of);
            self.found.entry(edge).or_default().insert(name);
        }
    }

    fn import(&mut self, item: &ItemUse) {
        if item.leading_colon.is_some() {
            return;
        }
        let is_export = !matches!(item.vis, Visibility::Inherited);
        for import in crate_map::imports(&item.tree) {
            for target in self.resolve(&import.path) {
                let is_inner =
                    matches!(&target, Target::Item(of, _) if is_within(of, &self.module));
                if !(is_export && is_inner) {
                    self.target(target);
                }
            }
        }
    }

    /// Reads the paths among tokens: identifiers with `::` between them.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if let TokenTree::Group(group) = &tokens[at] {
                self.tokens(group.stream());
            }
            let (path, end) = path_at(&tokens, at);
            if let [name] = &*path
                && tokens.get(end).is_some_and(|next| punct(next) == Some('!'))
            {
                let target = self.map.resolve_macro(&self.module, name);
                if let Some(target) = target {
                    self.target(target);
                }
            }
            if !(path.is_empty() || is_field(&tokens, at, end)) {
                self.path(&path);
            }
            at = end;
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_of_tests(crate_map::head(item).0) {
            return;
        }
        match item {
            Item::Use(import) => self.import(import),
            Item::Mod(module) => {
                let Some((_, items)) = &module.content else {
                    return;
                };
                let inner = join(&self.module, &module.ident.to_string());
                let outer = std::mem::replace(&mut self.module, inner);
                let blocks = std::mem::take(&mut self.blocks);
                for item in items {
                    self.visit_item(item);
                }
                (self.module, self.blocks) = (outer, blocks);
            }
            item => visit::visit_item(self, item),
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        let items = block.stmts.iter().filter_map(|statement| match statement {
            Stmt::Item(item) => Some(item),
            _ => None,
        });
        self.blocks.push(Names::of(items));
        visit::visit_block(self, block);
        self.blocks.pop();
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            let segments = path.segments.iter();
            let segments: Vec<_> = segments.map(|segment| segment.ident.to_string()).collect();
            self.path(&segments);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        if let Some(name) = call.path.get_ident() {
            let target = self.map.resolve_macro(&self.module, &name.to_string());
            if let Some(target) = target {
                self.target(target);
            }
        }
        visit::visit_macro(self, call);
    }

    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        self.tokens(tokens.clone());
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(it) => &*it.attrs,
            ImplItem::Fn(it) => &it.attrs,
            ImplItem::Type(it) => &it.attrs,
            ImplItem::Macro(it) => &it.attrs,
            _ => &[],
        };
        if !is_of_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        let attributes = match item {
            TraitItem::Const(it) => &*it.attrs,
            TraitItem::Fn(it) => &it.attrs,
            TraitItem::Type(it) => &it.attrs,
            TraitItem::Macro(it) => &it.attrs,
            _ => &[],
        };
        if !is_of_tests(attributes) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if !is_of_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast Variant) {
        if !is_of_tests(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if !is_of_tests(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if !is_of_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_stmt_macro(&mut self, call: &'ast StmtMacro) {
        if !is_of_tests(&call.attrs) {
            visit::visit_stmt_macro(self, call);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let path = attribute.path();
        if !["doc", "cfg", "allow", "expect"]
            .iter()
            .any(|one| path.is_ident(one))
        {
            visit::visit_attribute(self, attribute);
        }
    }
}

/// Returns the path that begins at `start`, and where it ends; empty if there is none, or if `::` precedes it.
pub fn path_at(tokens: &[TokenTree], start: usize) -> (Vec<String>, usize) {
    let (mut path, mut at) = (Vec::new(), start);
    while let Some(TokenTree::Ident(name)) = tokens.get(at) {
        path.push(name.to_string());
        at += 1;
        if !is_separator(&tokens[at..]) {
            break;
        }
        at += 2;
    }
    let is_foreign = start >= 2 && is_separator(&tokens[start - 2..]);
    if is_foreign {
        path.clear();
    }
    (path, at.max(start + 1))
}

pub fn is_separator(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(first), second, ..] = tokens else {
        return false;
    };
    let is_joint = first.as_char() == ':' && first.spacing() == Spacing::Joint;
    is_joint && punct(second) == Some(':')
}

/// Whether the path is the name of a field, a method, an argument, a lifetime or a metavariable.
fn is_field(tokens: &[TokenTree], start: usize, end: usize) -> bool {
    let before = |back: usize| start.checked_sub(back).and_then(|at| punct(&tokens[at]));
    if before(1) == Some('.') {
        return before(2) != Some('.');
    }
    if before(1) == Some('$') {
        return !matches!(&tokens[start], TokenTree::Ident(name) if name == "crate");
    }
    let is_alone = end == start + 1;
    let names = |token: &TokenTree| match token {
        TokenTree::Punct(it) => matches!(it.as_char(), '=' | ':') && it.spacing() == Spacing::Alone,
        _ => false,
    };
    before(1) == Some('\'') || (is_alone && tokens.get(end).is_some_and(names))
}

fn punct(token: &TokenTree) -> Option<char> {
    match token {
        TokenTree::Punct(punct) => Some(punct.as_char()),
        _ => None,
    }
}
