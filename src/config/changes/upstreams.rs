//! What of an upstream outlives a reload.

use std::sync::Arc;

use crate::snapshot::{HttpUpstream, Upstream, UpstreamKind};

/// Gives upstreams that are made of the same certificates the TLS of those that run: its sessions are
/// worth keeping.
pub(super) fn keep(running: &[Arc<Upstream>], new: &mut [Arc<Upstream>]) {
    for upstream in new {
        let same = running.iter().find(|one| one.name == upstream.name);
        let (Some(same), Some(upstream)) = (same, Arc::get_mut(upstream)) else {
            continue;
        };
        if let (UpstreamKind::Http(was), UpstreamKind::Http(is)) = (&same.kind, &mut upstream.kind)
            && client(was) == client(is)
        {
            let tls = is.tls.as_mut().zip(was.tls.as_ref());
            if let Some((is, was)) = tls {
                is.client = was.client.clone();
            }
        }
    }
}

fn client(http: &HttpUpstream) -> Option<&crate::tls::ClientTls> {
    http.tls.as_ref().map(|tls| &tls.client)
}
