//! Why an order was not carried out.

use crate::store::directives::DirectiveError;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// What was asked for is wrong: what, and what was expected.
    #[error("{0}")]
    Wrong(String),
    /// There is no such policy, or nothing of what should end.
    #[error("{0}")]
    Unknown(String),
    /// The store could not be asked, or is full.
    #[error(transparent)]
    Store(#[from] DirectiveError),
}
