//! Parts of an upstream that outlive a reload.

use std::sync::Arc;

use crate::snapshot::{Upstream, UpstreamKind};

/// Gives new upstreams the TLS of the running ones of the same name if the certificates are the same, to keep its
/// sessions.
pub(super) fn keep(running: &[Arc<Upstream>], new: &mut [Arc<Upstream>]) {
    for upstream in new {
        let same = running.iter().find(|one| one.name == upstream.name);
        let (Some(same), Some(upstream)) = (same, Arc::get_mut(upstream)) else {
            continue;
        };
        if let (UpstreamKind::Http(was), UpstreamKind::Http(is)) = (&same.kind, &mut upstream.kind)
            && was.tls == is.tls
        {
            is.tls.clone_from(&was.tls);
        }
    }
}
