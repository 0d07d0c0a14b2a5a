//! Why an order was not carried out.

use crate::store::directives::DirectiveError;

/// Why a command on single clients failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// The command is wrong: what is wrong, and what was expected.
    #[error("{0}")]
    Wrong(String),
    /// There is no such policy, or nothing that could be ended.
    #[error("{0}")]
    Unknown(String),
    /// The store cannot be asked, or is full.
    #[error(transparent)]
    Store(#[from] DirectiveError),
}
