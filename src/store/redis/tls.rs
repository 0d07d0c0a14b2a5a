//! TLS to Redis: read and checked once, when the file is compiled.

use std::sync::Arc;

/// How connections to Redis are encrypted.
///
/// Equal if made of the same certificates and key.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Made once, so that sessions resume.
    pub(super) config: Arc<rustls::ClientConfig>,
    /// Of everything it was made of.
    digest: blake3::Hash,
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Tls {}
