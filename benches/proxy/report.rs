//! The printed report: a table for each section, then its bars.

use super::load::Cost;
use super::sections::{Bar, Section};
use super::servers::{Gateway, Servers};
use super::support::machine::Others;
use super::support::{median, quartiles};

/// If others used more of the processors' time than this share, the report warns.
const OTHERS_MAX: f64 = 0.05;

/// Counts the bars that were met and missed.
#[derive(Default)]
pub struct Verdicts {
    met: usize,
    missed: usize,
}

impl Verdicts {
    /// Judges the values of one figure, one per round: the bar is missed if the lower quartile is
    /// above it.
    pub fn judge(&mut self, what: &str, unit: &str, values: Vec<f64>, bar: f64) {
        let at = quartiles(values);
        let is_missed = at.lower > bar;
        let verdict = if is_missed { "missed" } else { "ok" };
        let count = if is_missed {
            &mut self.missed
        } else {
            &mut self.met
        };
        *count += 1;
        println!(
            "  {what:<68}{:>6.2} ({:.2} to {:.2})  bar {bar:.2} {unit:<8} {verdict}",
            at.middle, at.lower, at.upper
        );
    }

    pub fn print(&self) {
        let bars = self.met + self.missed;
        println!("\n{} of {bars} bars met", self.met);
    }
}

/// Prints a row for each gateway, with its cost relative to the first.
pub fn section(section: &Section, gateways: &[Gateway], costs: &[Vec<Cost>]) {
    println!(
        "\n{:<44}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}",
        section.title, "CPU", "user", "kernel", "ratio", "busy", "Redis", "calls"
    );
    for (gateway, own) in gateways.iter().zip(costs) {
        let middle = |figure: fn(&Cost) -> f64| median(own.iter().map(figure).collect());
        let ratios = own.iter().zip(&costs[0]);
        let ratios = ratios.map(|(own, first)| own.gateway() / first.gateway());
        print!(
            "{:<44}{:>8.2}{:>8.2}{:>8.2}{:>8.2}{:>8.2}",
            gateway.name,
            middle(Cost::gateway),
            middle(|cost| cost.user),
            middle(|cost| cost.kernel),
            median(ratios.collect()),
            middle(|cost| cost.busy),
        );
        match gateway.redis {
            Some(_) => println!(
                "{:>8.2}{:>8.3}",
                middle(|cost| cost.redis),
                middle(|cost| cost.calls)
            ),
            None => println!(),
        }
    }
}

/// Prints for every build whether it meets a bar.
pub fn bar(
    bar: &Bar,
    servers: &Servers,
    gateways: &[Gateway],
    costs: &[Vec<Cost>],
    verdicts: &mut Verdicts,
) {
    for (build, name) in servers.builds().iter().map(|build| &build.name).enumerate() {
        let find = |kind| {
            let is_it = |gateway: &Gateway| {
                gateway.kind == kind && gateway.build.is_none_or(|its| its == build)
            };
            let at = gateways.iter().position(is_it);
            at.expect("a section has what its bars name")
        };
        let (own, peer) = (find(bar.own), find(bar.peer));
        let rounds = costs[own].iter().zip(&costs[peer]);
        let values = rounds.map(|(own, peer)| bar.figure.of(own, peer)).collect();
        let most = if name == "pgo" { bar.pgo } else { bar.plain };
        let what = format!("{} / {}", gateways[own].name, gateways[peer].name);
        verdicts.judge(&what, bar.figure.unit(), values, most);
    }
}

/// Warns if others used the processors.
pub fn others(others: &Others) {
    let Others { foreign, stolen } = *others;
    if foreign + stolen > OTHERS_MAX {
        println!(
            "  warning: other processes used {:.0} % of the processors, other machines {:.0} %",
            foreign * 100.0,
            stolen * 100.0
        );
    }
}
