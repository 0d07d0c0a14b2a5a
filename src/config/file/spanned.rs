//! A value and where it stands in the file.

use std::ops::Range;

/// A value and where it stands in the file, in bytes.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its place.
    pub span: Range<usize>,
}

/// Equal values are equal wherever they stand.
impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}
