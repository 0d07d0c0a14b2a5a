//! The lists in the lower part of the screen: policies, routes, clients, notifications, and things in trouble.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::model::{
    ADMITTED, FAILED, GatewayView, NEAR_LIMIT, REFUSED, REQUESTS, Rate, WOULD_REFUSE,
};
use super::palette::Palette;
use super::summary::{reload_said, store};
use super::text::{SafeText, fitted, shortened, time_of_day, wrapped};
use super::wire::DecisionRates;

/// A list of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Policies,
    Routes,
    Refused,
    Nearest,
    Notifications,
    Health,
}

/// Content of a list.
pub(super) struct PaneContent {
    pub(super) title: String,
    /// Titles of the columns.
    pub(super) header: Option<Line<'static>>,
    pub(super) rows: Vec<Line<'static>>,
}

impl Pane {
    /// All lists, in the order in which they are shown.
    pub(super) const ALL: [Self; 6] = [
        Self::Policies,
        Self::Routes,
        Self::Refused,
        Self::Nearest,
        Self::Notifications,
        Self::Health,
    ];

    /// Returns the list's content, fitted into `columns`.
    pub(super) fn content(
        self,
        view: &GatewayView,
        palette: &Palette,
        columns: usize,
    ) -> PaneContent {
        let list = List {
            view,
            palette,
            columns,
        };
        let mut content = match self {
            Self::Policies => list.policies(),
            Self::Routes => list.routes(),
            Self::Refused => list.refused(),
            Self::Nearest => list.nearest(),
            Self::Notifications => list.notifications(),
            Self::Health => list.health(),
        };
        if content.rows.is_empty() {
            content.header = None;
            content.rows = vec![Line::styled(self.nothing(), palette.quiet)];
        }
        content
    }

    /// Returns the text of an empty list.
    fn nothing(self) -> &'static str {
        match self {
            Self::Policies => "no policy has decided anything in the last ten minutes",
            Self::Routes => "no request has come in the last ten minutes",
            Self::Refused => "no client has been refused",
            Self::Nearest => "no client is near a quota",
            Self::Notifications => "no client has reached a threshold of `notify`",
            Self::Health => "nothing is known yet",
        }
    }
}

struct List<'a> {
    view: &'a GatewayView,
    palette: &'a Palette,
    columns: usize,
}

impl List<'_> {
    fn policies(&self) -> PaneContent {
        let header = ["admitted", "refused", "would refuse", "near limit"];
        let rows = self.view.policies.iter().map(|(name, points)| {
            let followed = |counter| self.view.rate_followed(points, counter);
            let rates = [
                (Some(self.view.rate(points, ADMITTED)), Style::new()),
                (Some(self.view.rate(points, REFUSED)), self.palette.refused),
                (followed(WOULD_REFUSE), self.palette.warning),
                (followed(NEAR_LIMIT), self.palette.warning),
            ];
            self.counted(name, rates, &header)
        });
        PaneContent {
            title: format!(
                "Policies, per second over the last {} s",
                self.view.seconds_lately()
            ),
            rows: rows.collect(),
            header: Some(self.header_of_counted("policy", &header)),
        }
    }

    fn routes(&self) -> PaneContent {
        let header = ["requests", "refused", "failed"];
        let rows = self.view.routes.iter().map(|(name, points)| {
            let rates = [
                (REQUESTS, Style::new()),
                (REFUSED, self.palette.refused),
                (FAILED, self.palette.refused),
            ];
            let rates =
                rates.map(|(counter, style)| (Some(self.view.rate(points, counter)), style));
            self.counted(name, rates, &header)
        });
        PaneContent {
            title: format!(
                "Routes, per second over the last {} s",
                self.view.seconds_lately()
            ),
            rows: rows.collect(),
            header: Some(self.header_of_counted("route", &header)),
        }
    }

    fn refused(&self) -> PaneContent {
        let (count, policy) = (12, self.policy_columns());
        let client = self.columns.saturating_sub(count + policy + 2);
        let rows = self.view.latest.top.refused.iter().map(|one| {
            let refused = if one.at_least == one.at_most {
                one.at_least.to_string()
            } else {
                format!("{}–{}", one.at_least, one.at_most)
            };
            Line::from(vec![
                Span::styled(fitted(&refused, count), self.palette.refused),
                Span::raw(format!(" {} ", fitted(one.policy.as_str(), policy))),
                Span::raw(shortened(one.client.as_str(), client)),
            ])
        });
        PaneContent {
            title: "Clients refused most, in the last 5 to 10 min".to_owned(),
            rows: rows.collect(),
            header: Some(self.header(&[
                ("refused", count),
                ("policy", policy),
                ("client", client),
            ])),
        }
    }

    fn nearest(&self) -> PaneContent {
        let (used, left, policy) = (7, 16, self.policy_columns());
        let client = self.columns.saturating_sub(used + left + policy + 3);
        let rows = self.view.latest.top.nearest.iter().map(|one| {
            let used_percent = format!("{:.1} %", one.used_percent);
            let remaining = format!("{} of {}", one.remaining, one.limit);
            let style = if one.remaining == 0 {
                self.palette.warning
            } else {
                Style::new()
            };
            Line::from(vec![
                Span::styled(fitted(&used_percent, used), style),
                Span::raw(format!(" {} ", fitted(&remaining, left))),
                Span::raw(format!("{} ", fitted(one.policy.as_str(), policy))),
                Span::raw(shortened(one.client.as_str(), client)),
            ])
        });
        let header = [
            ("used", used),
            ("left", left),
            ("policy", policy),
            ("client", client),
        ];
        PaneContent {
            title: "Clients nearest to a quota".to_owned(),
            rows: rows.collect(),
            header: Some(self.header(&header)),
        }
    }

    fn notifications(&self) -> PaneContent {
        let rows = self.view.latest.notifications.iter().map(|one| {
            let time = time_of_day(&one.at, &self.view.latest.time);
            let (percent, quota) = (one.threshold_percent, &one.quota);
            let (policy, client) = (&one.policy, &one.client);
            let said = format!("{time}  {percent} % of {quota}  {policy}  {client}");
            Line::raw(shortened(&said, self.columns))
        });
        PaneContent {
            title: "Notifications".to_owned(),
            rows: rows.collect(),
            header: None,
        }
    }

    fn health(&self) -> PaneContent {
        let latest = &self.view.latest;
        let mut rows = Vec::new();
        if !latest.store.state.as_str().is_empty() {
            rows.extend(self.wrapped("store: ", &store(self.view, self.palette)));
        }
        if let Some(rates) = &latest.store.decisions_per_second {
            rows.extend(self.decisions(rates));
        }
        for one in &latest.endpoints.troubled {
            let said = format!("{} {}: {}", one.upstream, one.name, one.text);
            rows.extend(self.wrapped("", &Span::styled(said, self.palette.warning)));
        }
        if let Some(reload) = &latest.reload {
            let said = reload_said(self.view, reload, self.palette);
            rows.extend(self.wrapped("reload: ", &said));
        }
        PaneContent {
            title: "Store, endpoints in trouble, reload".to_owned(),
            rows,
            header: None,
        }
    }

    /// Says how plans are decided, if Redis is the store.
    fn decisions(&self, rates: &DecisionRates) -> Vec<Line<'static>> {
        let ways = [
            ("by Redis", rates.redis),
            ("remembered", rates.remembered),
            ("leased", rates.leased),
            ("synced", rates.synced),
            ("late", rates.late),
            ("without Redis", rates.failed),
        ];
        let ways = ways.iter().filter(|(_, rate)| *rate > 0);
        let ways: Vec<_> = ways.map(|(way, rate)| format!("{rate} {way}")).collect();
        if ways.is_empty() {
            return Vec::new();
        }
        let is_failing = rates.failed + rates.late > 0;
        let style = if is_failing {
            self.palette.warning
        } else {
            Style::new()
        };
        self.wrapped(
            "decisions a second: ",
            &Span::styled(ways.join(", "), style),
        )
    }

    fn wrapped(&self, label: &str, said: &Span<'static>) -> Vec<Line<'static>> {
        let lines = wrapped(&format!("{label}{}", said.content), self.columns).into_iter();
        lines.map(|line| Line::styled(line, said.style)).collect()
    }

    /// Returns a row: a name, and rates under their titles.
    fn counted<const N: usize>(
        &self,
        name: &SafeText,
        rates: [(Option<Rate>, Style); N],
        header: &[&str; N],
    ) -> Line<'static> {
        let mut spans = vec![Span::raw(fitted(name.as_str(), self.name_columns(header)))];
        for ((rate, style), title) in rates.into_iter().zip(header) {
            let shown = rate.map_or("–".to_owned(), Rate::per_second);
            let is_counted = rate.is_some_and(|rate| rate.count > 0);
            let style = if is_counted {
                style
            } else {
                self.palette.quiet
            };
            spans.push(Span::raw(" "));
            spans.push(Span::styled(format!("{shown:>0$}", title.len()), style));
        }
        Line::from(spans)
    }

    fn header_of_counted(&self, name: &str, header: &[&str]) -> Line<'static> {
        let name = fitted(name, self.name_columns(header));
        Line::styled(format!("{name} {}", header.join(" ")), self.palette.quiet)
    }

    fn header(&self, titles: &[(&str, usize)]) -> Line<'static> {
        let titles = titles
            .iter()
            .map(|(title, columns)| fitted(title, *columns));
        let titles: Vec<String> = titles.collect();
        Line::styled(titles.join(" ").trim_end().to_owned(), self.palette.quiet)
    }

    /// Returns how many columns the numbers leave for a name.
    fn name_columns(&self, header: &[&str]) -> usize {
        let numbers: usize = header.iter().map(|title| title.len() + 1).sum();
        self.columns.saturating_sub(numbers).max(NAME_COLUMNS_MIN)
    }

    fn policy_columns(&self) -> usize {
        (self.columns / 4).clamp(NAME_COLUMNS_MIN, NAME_COLUMNS_MAX)
    }
}

const NAME_COLUMNS_MIN: usize = 8;
const NAME_COLUMNS_MAX: usize = 32;
