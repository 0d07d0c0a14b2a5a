//! Metrics of a gateway, as its admin port shows them.

use std::net::SocketAddr;
use std::str::FromStr;

use super::{Process, Running, eventually, get};

/// A gateway whose admin port is on.
pub trait Metered {
    /// Returns the address of the admin port.
    fn admin(&self) -> SocketAddr;

    /// Returns the whole metrics page.
    fn metrics(&self) -> String {
        get(self.admin(), "/metrics", "").text()
    }

    /// Returns the sum of a metric's samples; a name that ends with labels selects the samples with those.
    #[track_caller]
    fn metric(&self, name: &str) -> u64 {
        let text = self.metrics();
        let is_of = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| name.contains('{') || rest.starts_with(['{', ' ']))
        };
        let values = text.lines().filter(is_of).map(|line| {
            let value = line
                .rsplit(' ')
                .next()
                .and_then(|line| line.parse::<u64>().ok());
            value.unwrap_or_else(|| panic!("not a whole number: {line:?}"))
        });
        values.sum()
    }

    /// Returns the value of a series; `None` if there is no such series.
    fn series<T: FromStr>(&self, series: &str) -> Option<T> {
        let text = self.metrics();
        let value = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(value)
    }

    /// Waits until the metrics page contains `text`.
    #[track_caller]
    fn wait_for_metric(&self, text: &str) {
        eventually(text, || self.metrics().contains(text).then_some(()));
    }
}

impl Metered for Running {
    #[track_caller]
    fn admin(&self) -> SocketAddr {
        self.gateway.admin_address().expect("an admin port")
    }
}

impl Metered for Process {
    fn admin(&self) -> SocketAddr {
        self.admin
    }
}
