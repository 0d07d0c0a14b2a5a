//! A value and its place in the file.

use std::ops::Range;

/// A value and its place in the file.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Byte range of the value in the file.
    pub span: Range<usize>,
}

/// Compares the values, but not their places.
impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}
