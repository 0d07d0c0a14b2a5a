//! Lines of a reload about upstreams, and about what routes send to them.

use super::*;

#[test]
fn what_an_upstream_does_is_named_key_by_key() {
    let api = "[upstreams.api]\nendpoints = [\"http://127.0.0.1:9000\"]\n";
    let before = loaded(&BASE.replacen(
        api,
        &format!("{api}[upstreams.api.health]\npath = \"/healthz\"\ninterval = \"5s\"\n"),
        1,
    ));
    let after = loaded(&BASE.replacen(
        api,
        r#"
        [upstreams.api]
        endpoints = [{ url = "http://127.0.0.1:9000", weight = 3 }, { url = "http://127.0.0.1:9002" }]
        balance = "hash"
        hash_by = ["cookie:session | ip"]
        retry_budget = 0.5
        max_requests = 1000
        resolve_every = "5s"
        eject = { failures = 3, for = "1m" }
        [upstreams.api.health]
        path = "/ready"
        host = "api.example.com"
        status = [204, "3xx"]
        interval = "1s"
        timeout = "500ms"
        healthy_after = 1
        unhealthy_after = 5
        "#,
        1,
    ));
    assert_eq!(
        changes(&before.file, &after.file),
        applied(&[
            "upstream api: endpoints [http://127.0.0.1:9000] → [http://127.0.0.1:9000 (weight 3), http://127.0.0.1:9002]",
            "upstream api: balance round-robin → hash",
            "upstream api: hash_by none → [\"cookie:session | ip\"]",
            "upstream api: retry_budget 0.2 → 0.5",
            "upstream api: max_requests none → 1000",
            "upstream api: resolve_every 30s → 5s",
            "upstream api: health.path /healthz → /ready",
            "upstream api: health.host the endpoint's → api.example.com",
            "upstream api: health.status [2xx, 3xx] → [204, 3xx]",
            "upstream api: health.interval 5s → 1s",
            "upstream api: health.timeout 2s → 500ms",
            "upstream api: health.healthy_after 2 → 1",
            "upstream api: health.unhealthy_after 3 → 5",
            "upstream api: eject.failures 5 → 3",
            "upstream api: eject.for 10s → 60s",
        ])
    );
    assert_eq!(changes(&after.file, &after.file), Changes::default());
}

/// The value of a field may be a secret, so it stays out of the log.
#[test]
fn what_a_route_forwards_is_named_too() {
    let fields = |set: &str| {
        let table =
            format!("\n[routes.request_headers]\nset = {{ {set} }}\nremove = [\"x-debug\"]");
        let policies = "policies = [\"per-client\", \"bucket\"]";
        loaded(&BASE.replacen(
            policies,
            &format!("{policies}\nrewrite = \"/v2/*\"{table}"),
            1,
        ))
    };
    assert_eq!(
        changes(&loaded(BASE).file, &fields("x-key = 'hunter2'").file),
        applied(&[
            "route /*: rewrite none → /v2/*",
            "route /*: request_headers.set [] → [x-key]",
            "route /*: request_headers.remove [] → [x-debug]",
        ])
    );
    assert_eq!(
        changes(
            &fields("x-key = 'hunter2'").file,
            &fields("x-key = 'hunter3'").file
        ),
        applied(&["route /*: request_headers.set changed"])
    );
}
