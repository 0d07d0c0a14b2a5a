//! The two formats of Prometheus metrics, OpenMetrics and the older text format: which of them a scraper wants, and how
//! the text format is made from OpenMetrics.

use http::HeaderMap;
use http::header::ACCEPT;

/// A format in which metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4, for everything that does not ask for OpenMetrics.
    Text,
}

impl Exposition {
    /// Returns the format that a request's `Accept` prefers (RFC 9110, section 12.5.1); the text format if it prefers
    /// neither.
    pub fn accepted_by(headers: &HeaderMap) -> Self {
        let (mut open_metrics, mut text) = (0.0_f32, 0.0_f32);
        let values = headers.get_all(ACCEPT).iter();
        let values = values.filter_map(|value| value.to_str().ok());
        for range in values.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let (mut weight, mut is_known) = (1.0, true);
            for parameter in parts {
                match parameter.split_once('=') {
                    Some(("q" | "Q", text)) => weight = weight_of(text),
                    Some(("version", version)) => is_known = VERSIONS.contains(&version),
                    _ => {}
                }
            }
            if !is_known {
                continue;
            }
            if media_type.eq_ignore_ascii_case("application/openmetrics-text") {
                open_metrics = weight.max(open_metrics);
            } else if media_type.eq_ignore_ascii_case("text/plain") {
                text = weight.max(text);
            }
        }
        if open_metrics > 0.0 && open_metrics >= text {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// Returns the media type of the format.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Converts OpenMetrics to the text format. Samples are the same. Counters and info metrics take the names of their
/// samples, info metrics become gauges, and there are no units and no end marker.
pub(super) fn text_of(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + open_metrics.len() / 64);
    let mut help = None;
    for line in open_metrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            text.extend([line, "\n"]);
            continue;
        };
        // The name of a metric is known once its type is, which follows the help.
        if let Some(of) = comment.strip_prefix("HELP ") {
            help = of.split_once(' ');
        } else if let Some((name, kind)) =
            (comment.strip_prefix("TYPE ")).and_then(|of| of.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                kind => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                text.extend(["# HELP ", name, suffix, " ", help, "\n"]);
            }
            text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        }
    }
    text
}

/// Versions of both formats that are accepted; 0.0.1 was OpenMetrics as a draft, and differs in nothing that is used
/// here.
const VERSIONS: [&str; 3] = ["1.0.0", "0.0.1", "0.0.4"];

/// Reads a weight; a malformed one counts as 0.
fn weight_of(text: &str) -> f32 {
    let weight = text.parse().ok();
    let weight = weight.filter(|weight| (0.0..=1.0).contains(weight));
    weight.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn what_accepts_open_metrics_at_least_as_much_as_text_gets_it() {
        use Exposition::{OpenMetrics, Text};
        let prometheus = "application/openmetrics-text;version=1.0.0,\
                          application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, form) in [
            (prometheus, OpenMetrics),
            ("application/openmetrics-text", OpenMetrics),
            (
                "Application/OpenMetrics-Text; version=1.0.0; charset=utf-8",
                OpenMetrics,
            ),
            (
                "text/plain;q=0.5, application/openmetrics-text;q=0.5",
                OpenMetrics,
            ),
            ("text/plain;q=0.6, application/openmetrics-text;q=0.5", Text),
            ("application/openmetrics-text;version=2.0.0", Text),
            ("application/openmetrics-text;q=0", Text),
            ("application/openmetrics-text;q=2", Text),
            ("application/openmetrics-text;q=NaN", Text),
            ("text/plain;version=0.0.4", Text),
            ("application/vnd.google.protobuf", Text),
            ("*/*", Text),
            ("", Text),
            (";;,=", Text),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(Exposition::accepted_by(&headers), form, "{accept}");
        }
        let mut headers = HeaderMap::new();
        assert_eq!(Exposition::accepted_by(&headers), Text);
        for one in ["text/plain;q=0.5", "application/openmetrics-text"] {
            headers.append(ACCEPT, HeaderValue::from_static(one));
        }
        assert_eq!(Exposition::accepted_by(&headers), OpenMetrics);
    }

    #[test]
    fn text_has_the_samples_of_open_metrics_under_its_own_types() {
        let open_metrics = "# HELP a_build The version.\n# TYPE a_build info\n\
            a_build_info{version=\"1\"} 1\n# HELP a_requests # HELP.\n# TYPE a_requests counter\n\
            a_requests_total{route=\"# TYPE a b\"} 2\n# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n\
            a_bytes 3\n# HELP a_s Time.\n# TYPE a_s histogram\na_s_sum 1.5\n# EOF\n";
        let text = "# HELP a_build_info The version.\n# TYPE a_build_info gauge\n\
            a_build_info{version=\"1\"} 1\n# HELP a_requests_total # HELP.\n\
            # TYPE a_requests_total counter\na_requests_total{route=\"# TYPE a b\"} 2\n\
            # TYPE a_bytes gauge\na_bytes 3\n# HELP a_s Time.\n# TYPE a_s histogram\na_s_sum 1.5\n";
        assert_eq!(text_of(open_metrics), text);
    }
}
