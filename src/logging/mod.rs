//! Events of the gateway itself: what an operator must know, but never a line for each request.
//!
//! Events go to the same [`Output`] as the access log, as text for people or as one JSON object on each line. Level and
//! shape can change while the gateway runs. Events of libraries, some of which would log each frame or byte, are left
//! out at every level.

mod files;
mod output;
mod recent;
mod sink;

pub use files::{LogFileError, LogFiles};
pub use output::{Output, OutputError};
pub use recent::RecentEvents;
pub(crate) use sink::Block;

use std::fmt;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, Layer};
use tracing_subscriber::layer::{Layer as _, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, reload};

/// The shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Changes how events are logged while the gateway runs.
#[derive(Clone, Debug)]
pub struct Logging {
    level: reload::Handle<LevelFilter, Registry>,
    shape: EventFormat,
    recent: RecentEvents,
}

/// Formats events as text or as JSON, whichever was set last.
#[derive(Clone, Debug)]
struct EventFormat {
    is_json: Arc<AtomicBool>,
    text: Format<Full>,
    json: Format<Json>,
}

impl Logging {
    /// Makes a subscriber that writes events to `output`. It is to be installed once per process.
    pub fn new(output: Output, level: Level, format: LogFormat) -> (Self, impl Subscriber) {
        let (filter, level) = reload::Layer::new(LevelFilter::from_level(level));
        let shape = EventFormat {
            is_json: Arc::new(AtomicBool::new(format == LogFormat::Json)),
            text: Format::default().with_ansi(io::stdout().is_terminal()),
            // Spans are left out, because their fields are formatted before the shape is known.
            json: Format::default()
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false),
        };
        let events = Layer::new().event_format(shape.clone()).with_writer(output);
        let recent = RecentEvents::default();
        let kept = Layer::new()
            .event_format(shape.json.clone())
            .with_writer(recent.clone())
            // Less severe events contain addresses of clients.
            .with_filter(filter_fn(|event| {
                *event.level() <= Level::INFO && event.target() != NAMES_CLIENTS
            }));
        let own = filter_fn(is_own);
        let subscriber = Registry::default()
            .with(filter)
            .with(own)
            .with(events)
            .with(kept);
        let logging = Self {
            level,
            shape,
            recent,
        };
        (logging, subscriber)
    }

    /// Returns the recent events.
    pub fn recent(&self) -> &RecentEvents {
        &self.recent
    }

    /// Changes level and shape.
    pub fn set(&self, level: Level, format: LogFormat) {
        // The handle fails only when the subscriber is gone, and then there is nothing to change.
        let _ = self.level.reload(LevelFilter::from_level(level));
        self.shape.is_json.store(format == LogFormat::Json, Relaxed);
    }
}

/// Target of events that name clients, which are not kept among the recent events.
pub const NAMES_CLIENTS: &str = concat!(env!("CARGO_CRATE_NAME"), "::clients");

/// Whether an event is the gateway's own, not a library's.
fn is_own(event: &Metadata<'_>) -> bool {
    let path = event.target().strip_prefix(env!("CARGO_CRATE_NAME"));
    path.is_some_and(|path| path.is_empty() || path.starts_with("::"))
}

/// Returns the shape of log lines: the configured one, otherwise text on a terminal and JSON elsewhere.
pub fn format_of(configured: Option<LogFormat>, file: Option<&Path>) -> LogFormat {
    configured.unwrap_or_else(|| {
        if file.is_none() && io::stdout().is_terminal() {
            LogFormat::Text
        } else {
            LogFormat::Json
        }
    })
}

impl<S, N> FormatEvent<S, N> for EventFormat
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.is_json.load(Relaxed) {
            self.json.format_event(context, writer, event)
        } else {
            self.text.format_event(context, writer, event)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn level_and_shape_change_while_running_and_only_own_events_are_logged() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("log");
        let output = Output::open(LogFiles {
            events: Some(&file),
            access: None,
        });
        let output = output.expect("a log file");
        let (logging, subscriber) = Logging::new(output.clone(), Level::INFO, LogFormat::Json);
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!("too quiet");
            tracing::info!(policy = "a\n\u{1b}[31mb", "policy changed");
            logging.set(Level::DEBUG, LogFormat::Text);
            tracing::debug!(target: "h2::codec::framed_read", "a library's");
            tracing::error!(target: "tollgated", "another's");
            tracing::debug!(port = 80, "listening");
        });
        output.flush();
        let text = std::fs::read_to_string(&file).expect("a log");
        let lines: Vec<&str> = text.lines().collect();
        let [json, plain] = lines[..] else {
            panic!("two lines: {text}")
        };
        let mut json: Value = serde_json::from_str(json).expect("a JSON object");
        json["timestamp"].take();
        assert_eq!(
            json,
            serde_json::json!({
                "timestamp": null, "level": "INFO", "target": "tollgate::logging::tests",
                "message": "policy changed", "policy": "a\n\u{1b}[31mb",
            })
        );
        let (_, event) = plain.split_once(' ').expect("a time first");
        assert_eq!(event, "DEBUG tollgate::logging::tests: listening port=80");
    }
}
