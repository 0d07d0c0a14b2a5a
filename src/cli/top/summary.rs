//! The part that is always shown: a sentence on what is refused, the last ten minutes, and a line each on the store,
//! the endpoints and the last reload.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::bars::bars;
use super::model::{FAILED, GatewayView, REFUSED, REQUESTS, Rate};
use super::palette::Palette;
use super::text::{fitted, shortened, shortened_line, span, time_of_day, width};
use super::wire::ShownReload;
use crate::clock::Timestamp;

/// Returns the gateway's name, and how old the data is at `now`.
pub(super) fn title(
    view: &GatewayView,
    palette: &Palette,
    now: Timestamp,
    columns: usize,
) -> Line<'static> {
    let age_s = now.since(view.updated).0 / 1_000_000;
    let time = time_of_day(&view.latest.time, &view.latest.time);
    let age = format!("{} UTC, {} ago", time, span(age_s));
    let is_old = view.outage.is_some() || age_s >= OLD_AFTER_S;
    let style = if is_old {
        palette.warning
    } else {
        palette.quiet
    };
    let left = columns.saturating_sub(width(&age));
    let name = fitted(&shortened(&name(view), left.saturating_sub(2)), left);
    Line::from(vec![
        Span::styled(name, palette.strong),
        Span::styled(age, style),
    ])
}

/// Returns the gateway's name: its version and file, and whether it is not ready.
pub(super) fn name(view: &GatewayView) -> String {
    let overview = &view.latest.overview;
    let file = overview.configuration.file.as_str();
    let is_ready = overview.ready || overview.started.as_str().is_empty();
    let not_ready = if is_ready { "" } else { ", not ready" };
    let file = if file.is_empty() {
        ""
    } else {
        &format!(", {file}")
    };
    format!("tollgate {}{file}{not_ready}", overview.version)
        .trim_end()
        .to_owned()
}

/// Says how many requests are refused, and by which policy.
pub(super) fn headline(view: &GatewayView, palette: &Palette) -> Line<'static> {
    let [requests, refused, failed] =
        [REQUESTS, REFUSED, FAILED].map(|counter| view.rate(&view.totals, counter));
    let seconds = view.seconds_lately();
    if requests.count + refused.count + failed.count == 0 {
        return Line::raw(format!("no requests in the last {seconds} s"));
    }
    let is_high = requests.is_high();
    let shown = |rate: Rate| {
        if is_high {
            rate.per_second()
        } else {
            rate.count.to_string()
        }
    };
    let unit = match (is_high, requests.count) {
        (true, _) => "requests a second".to_owned(),
        (false, 1) => format!("request in the last {seconds} s"),
        (false, _) => format!("requests in the last {seconds} s"),
    };
    let requests = shown(requests);
    let mut spans = if refused.count == 0 {
        vec![Span::raw(format!("{requests} {unit}, none refused"))]
    } else {
        let verb = match (is_high, refused.count) {
            (true, _) => "are",
            (false, 1) => "was",
            (false, _) => "were",
        };
        let by = most_refusing(view).unwrap_or_default();
        vec![
            Span::styled(shown(refused), palette.refused.patch(palette.strong)),
            Span::raw(format!(" of {requests} {unit} {verb} refused{by}")),
        ]
    };
    if failed.count > 0 {
        let verb = if is_high { "fail" } else { "failed" };
        spans.push(Span::raw("; "));
        spans.push(Span::styled(
            format!("{} {verb}", shown(failed)),
            palette.refused.patch(palette.strong),
        ));
    }
    Line::from(spans)
}

/// Says which policy has refused most lately.
fn most_refusing(view: &GatewayView) -> Option<String> {
    let policies = view.policies.iter();
    let refusing = policies.map(|(name, points)| (view.rate(points, REFUSED).count, name));
    let refusing: Vec<_> = refusing.filter(|(count, _)| *count > 0).collect();
    let (_, most) = refusing.iter().max_by_key(|(count, _)| *count)?;
    let by = if refusing.len() == 1 { "by" } else { "most by" };
    Some(format!(", {by} {most}"))
}

/// Says why no updates arrive, if none do, and when the next try is.
pub(super) fn outage(
    view: &GatewayView,
    palette: &Palette,
    now: Timestamp,
) -> Option<Line<'static>> {
    let outage = view.outage.as_ref()?;
    let left = outage.retry_at.since(now).secs_ceil();
    let next = if left == 0 {
        "connecting …".to_owned()
    } else {
        format!("next try in {left} s")
    };
    Some(Line::styled(
        format!("no news: {next}: {}", outage.reason),
        palette.warning.patch(palette.strong),
    ))
}

/// Draws the last ten minutes, each counter in `height` lines.
pub(super) fn sparklines(
    view: &GatewayView,
    palette: &Palette,
    columns: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let drawn = columns.saturating_sub(LABEL_COLUMNS + RATE_COLUMNS + PEAK_COLUMNS + 2);
    let counters = [
        ("requests", REQUESTS, Style::new()),
        ("refused", REFUSED, palette.refused),
        ("failed", FAILED, palette.refused),
    ];
    let lines = counters.into_iter().flat_map(|(label, counter, style)| {
        let values = view.totals.values(counter);
        let peak = view.rate_of_step(values.iter().copied().max().unwrap_or(0));
        let rate = view.rate(&view.totals, counter).per_second() + "/s";
        let lines = bars(&values, view.steps, drawn, height).into_iter();
        lines.enumerate().map(move |(row, bars)| {
            let is_last = row + 1 == height;
            let (label, rate) = if is_last {
                (label, rate.as_str())
            } else {
                ("", "")
            };
            let peak = format!("peak {}/s", peak.per_second());
            let peak = if is_last { peak.as_str() } else { "" };
            Line::from(vec![
                Span::raw(fitted(label, LABEL_COLUMNS)),
                Span::raw(format!("{rate:>RATE_COLUMNS$} ")),
                Span::styled(bars, style),
                Span::styled(format!(" {}", fitted(peak, PEAK_COLUMNS)), palette.quiet),
            ])
        })
    });
    lines.collect()
}

/// Returns a line each on the state of the store, the endpoints and the last reload.
pub(super) fn states(view: &GatewayView, palette: &Palette, columns: usize) -> Vec<Line<'static>> {
    let is_known = !view.latest.time.as_str().is_empty();
    let lines = [
        store(view, palette),
        endpoints(view, palette),
        reload(view, palette),
    ];
    let labels = ["store", "endpoints", "reload"].into_iter();
    let lines = labels.zip(lines).map(|(label, state)| {
        let state = if is_known { state } else { Span::raw("…") };
        let line = Line::from(vec![Span::raw(fitted(label, LABEL_COLUMNS + 1)), state]);
        shortened_line(line, columns)
    });
    lines.collect()
}

pub(super) fn store(view: &GatewayView, palette: &Palette) -> Span<'static> {
    let store = &view.latest.store;
    match store.state.as_str() {
        "ok" => Span::raw(store.text.to_string()),
        state => Span::styled(format!("{state}: {}", store.text), palette.warning),
    }
}

fn endpoints(view: &GatewayView, palette: &Palette) -> Span<'static> {
    let endpoints = &view.latest.endpoints;
    let (total, available) = (endpoints.total, endpoints.available);
    let first = endpoints.troubled.first();
    let first = first.map(|one| format!(": {} {}: {}", one.upstream, one.name, one.text));
    match first {
        None if total == 0 => Span::raw("there are none"),
        None if total == 1 => Span::raw("the only one takes requests"),
        None => Span::raw(format!("all {total} take requests")),
        Some(first) => Span::styled(
            format!("{available} of {total} take requests{first}"),
            palette.warning,
        ),
    }
}

fn reload(view: &GatewayView, palette: &Palette) -> Span<'static> {
    if let Some(reload) = &view.latest.reload {
        return reload_said(view, reload, palette);
    }
    let started = time_of_day(&view.latest.overview.started, &view.latest.time);
    Span::raw(format!("none since the start at {started}"))
}

pub(super) fn reload_said(
    view: &GatewayView,
    reload: &ShownReload,
    palette: &Palette,
) -> Span<'static> {
    let time = time_of_day(&reload.time, &view.latest.time);
    let said = format!("{time}, {}: {}", reload.source, reload.text);
    match reload.result.as_str() {
        "applied" => Span::raw(said),
        _ => Span::styled(said, palette.warning),
    }
}

/// Age at which the data counts as old: the gateway sends a step every two seconds.
const OLD_AFTER_S: u64 = 6;
const LABEL_COLUMNS: usize = 9;
const RATE_COLUMNS: usize = 8;
const PEAK_COLUMNS: usize = 13;
