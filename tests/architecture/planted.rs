//! Each kind of circle is found, and what makes no circle is not.

use std::collections::BTreeMap;

use crate::circles;

/// Returns the files that form each circle; files are given as module and text.
fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files = files
        .iter()
        .map(|(module, text)| ((*module).to_owned(), (*text).to_owned()));
    let circles = circles::find(&files.collect::<BTreeMap<_, _>>());
    let files = circles.into_iter().map(|circle| circle.files);
    files.map(|files| files.into_iter().collect()).collect()
}

/// Returns whether `room::a` with this text forms a circle with `room::b`, which uses its `A`.
///
/// The room exports `B` of `b` as `Own`, and all of `b` by a glob; another room exports `B` as `Far`.
fn is_circle(text: &str) -> bool {
    let a = format!("pub struct A; {text}");
    let files = [
        ("lib", "mod room; mod other;"),
        ("other", "pub mod deep;"),
        ("other::deep", "pub use crate::room::b::B as Far;"),
        ("room", ROOM),
        ("room::a", &a),
        ("room::b", B),
    ];
    let circle = vec![vec!["room::a".to_owned(), "room::b".to_owned()]];
    let found = found(&files);
    assert!(found.is_empty() || found == circle, "{text}: {found:?}");
    !found.is_empty()
}

const ROOM: &str = "
pub mod a;
pub mod b;
pub use b::B as Own;
pub use all::*;
mod all {
    pub use super::b::*;
}
";
const B: &str = "
use super::a::A;
pub struct B;
pub fn of(_: A) {}
macro_rules! made { () => {} }
pub(crate) use made;
";

#[test]
fn a_use_is_found_however_it_is_written() {
    for text in [
        "use super::b::B;",
        "use crate::room::{b::{self, B}};",
        "use super::b; fn f(_: b::B) {}",
        "use super::b::B as Other;",
        "use super::b::{B as _};",
        "use super::b as other; fn f(_: other::B) {}",
        "fn f(_: super::b::B) {}",
        "fn f(_: crate::room::b::B) {}",
        "mod inner { pub use super::super::b::B as C; } fn f(_: self::inner::C) {}",
        "mod inner { fn f(_: super::super::b::B) {} }",
        "fn f() { use super::b; b::of(A); }",
        "pub use super::b::B;",
        "pub(crate) use super::b::of as other;",
    ] {
        assert!(is_circle(text), "{text}");
    }
}

#[test]
fn a_use_is_found_behind_exports_of_other_names() {
    for text in [
        "use super::Own;",
        "fn f(_: super::Own) {}",
        "fn f() { crate::other::deep::Far; }",
        "use super::B;",
        "use super::*; fn f(_: B) {}",
        "fn f() { use super::*; of(A); }",
        "use crate::other::*; fn f(_: deep::Far) {}",
    ] {
        assert!(is_circle(text), "{text}");
    }
}

#[test]
fn a_use_is_found_wherever_it_stands() {
    for text in [
        "struct S { b: super::b::B }",
        "struct S(Vec<Option<super::b::B>>);",
        "enum E { V { b: super::b::B } }",
        "impl A { fn method(&self) -> Option<super::b::B> { None } }",
        "impl A { fn method(&self) { let _ = super::b::B; } }",
        "impl super::b::B { fn method(&self) {} }",
        "impl From<super::b::B> for A { fn from(_: super::b::B) -> A { A } }",
        "trait T { fn method(&self, b: &super::b::B); }",
        "fn f<T: Into<super::b::B>>(_: T) {}",
        "fn f() where A: Into<super::b::B> {}",
        "fn f(a: A) -> bool { matches!(a, super::b::B) }",
        "fn f() { if let super::b::B = A {} }",
        "fn f() { A.method::<super::b::B>(); }",
        "fn f() { super::b::B::method(A); }",
        "const C: usize = size_of::<super::b::B>();",
        "fn f() { println!(\"{}\", super::b::of(A)); }",
        "fn f() { assert!(vec![1, (crate::room::b::of)(A)].is_empty()); }",
        "use super::b; fn f() { println!(\"{}\", { [..b::B::LENGTH] }); }",
        "macro_rules! m { () => { $crate::room::b::of(A) } }",
        "fn f() { super::b::made!(); }",
        "fn f() { println!(\"{}\", super::b::made!()); }",
        "#[error(\"{}\", super::b::of(A))] struct S;",
    ] {
        assert!(is_circle(text), "{text}");
    }
}

#[test]
fn what_is_no_use_is_not_found() {
    for text in [
        "",
        "/// As [`super::b::B`].\nfn f() {}",
        "fn f() { let text = \"super::b::B\"; }",
        "use super::b;",
        "pub(in crate::room) fn f() {}",
        "use b::B; fn f(_: ::b::B) {}",
        "fn f(b: u8) { b.b(); let _ = S { b }; }",
        "fn f() { println!(\"{b}\", b = 1); macro_of_another::b!(); }",
        "use super::*; fn f() { info!(b = 1, it.b, $b, 'b) }",
        "#[cfg(test)] use super::b::B;",
        "#[cfg(test)] mod tests { use super::super::b::B; }",
        "#[cfg(test)] fn f(_: super::b::B) {}",
        "impl A { #[cfg(test)] fn f(_: super::b::B) {} }",
        "struct S { #[cfg(test)] b: super::b::B }",
        "fn f() { #[cfg(test)] let b = super::b::B; }",
        "fn f() { match 1 { #[cfg(test)] 2 => super::b::of(A), _ => {} } }",
    ] {
        assert!(!is_circle(text), "{text}");
    }
}

#[test]
fn a_parent_that_declares_and_exports_is_in_no_circle() {
    let room =
        "mod a; mod b; pub use a::A; pub(crate) use b::B; pub(super) use self::b::*; pub struct C;";
    let a = "pub struct A(super::C, super::B);";
    let b = "use super::C; pub struct B(C);";
    let files = [
        ("lib", "mod room;"),
        ("room", room),
        ("room::a", a),
        ("room::b", b),
    ];
    assert_eq!(found(&files), Vec::<Vec<String>>::new());
    let room = format!("{room} impl C {{ fn b(&self) -> B {{ b::B }} }}");
    let files = [
        ("lib", "mod room;"),
        ("room", &*room),
        ("room::a", a),
        ("room::b", b),
    ];
    assert_eq!(found(&files), [["room", "room::b"]]);
}

#[test]
#[should_panic(expected = "leads nowhere")]
fn a_path_that_cannot_be_followed_is_said() {
    is_circle("made! {} fn f(_: super::b::Made) {}");
}

#[test]
fn a_circle_through_others_is_one_circle() {
    let files = [
        ("lib", "mod a; mod b; mod c; mod d; #[cfg(test)] mod e;"),
        ("a", "use crate::b::B; pub struct A;"),
        ("b", "use crate::c::C; pub struct B;"),
        ("c", "use crate::a::A; use crate::d::D; pub struct C;"),
        ("d", "pub struct D;"),
    ];
    assert_eq!(found(&files), [["a", "b", "c"]]);
    let texts = files.map(|(module, text)| (module.to_owned(), text.to_owned()));
    let shown = circles::find(&texts.into())
        .iter()
        .map(ToString::to_string)
        .collect::<String>();
    let expected = "a circle of 3 files:\n  a uses b: B\n  b uses c: C\n  c uses a: A\n";
    assert_eq!(shown, expected);
}
