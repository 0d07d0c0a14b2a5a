//! What Prometheus makes of a gateway: it reads both forms of the metrics, and the alerts and the dashboard that are
//! shipped ask for series that exist.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::redis::{Port, Server, dependent, run, spawn};
use crate::support::{Config, Metered as _, Origin, Process, eventually, get};

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// A gateway that exports every metric there is.
struct Whole {
    process: Process,
    _redis: Server,
    _origin: Origin,
}

impl Whole {
    #[track_caller]
    fn start() -> Self {
        let (redis, origin) = (Server::start(), Origin::plain());
        let tls = format!("{FOLDER}/tests/config/tls/public");
        let config = Config::to(origin.url())
            .policy("p", "quota = ['100 per minute', '1000 per hour']")
            .route("/*", "policies = ['p']")
            .with(&format!(
                "[listeners.tls]\naddress = '127.0.0.1:0'\n\
                 tls.certificates = [{{ certificate = '{tls}.pem', key = '{tls}.key' }}]\n\
                 [store]\nurl = 'redis://{}'\ntimeout = '10s'",
                redis.address()
            ));
        let process = Process::start(&config);
        process.wait_for_metric("tollgate_store_breaker{");
        assert_eq!(get(process.public, "/", "").status, 200);
        Self {
            process,
            _redis: redis,
            _origin: origin,
        }
    }

    /// Returns the names of all samples.
    fn samples(&self) -> BTreeSet<String> {
        let page = self.process.metrics();
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let names = lines.filter_map(|line| line.split(['{', ' ']).next());
        names.map(str::to_owned).collect()
    }
}

/// Returns the words of a text that name series of a gateway.
fn series_in(text: &str) -> BTreeSet<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let words = text.split(|character| !is_part(character));
    let of_gateways = words.filter(|word| {
        let own = ["tollgate_", "process_"];
        own.iter().any(|prefix| word.starts_with(prefix))
    });
    of_gateways.map(str::to_owned).collect()
}

fn read(file: &str) -> String {
    let text = fs::read_to_string(Path::new(FOLDER).join(file));
    text.unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn text_form_passes_promtool_without_a_remark() {
    let whole = Whole::start();
    let mut promtool = Command::new("promtool");
    let mut promtool = promtool
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed: it is in the Debian package prometheus");
    let mut input = promtool.stdin.take().expect("it is piped");
    let written = input.write_all(whole.process.metrics().as_bytes());
    written.expect("promtool reads");
    drop(input);
    let output = promtool.wait_with_output().expect("promtool ends");
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert_eq!(said, ["", ""]);
    assert!(output.status.success());
}

#[test]
fn every_series_of_alerts_and_dashboard_is_one_of_a_gateway() {
    let whole = Whole::start();
    let samples = whole.samples();
    for file in [
        "packaging/prometheus/rules.yml",
        "packaging/prometheus/rules.test.yml",
        "packaging/grafana/tollgate.json",
    ] {
        let asked = series_in(&read(file));
        assert!(asked.len() > 10, "{file}: {asked:?}");
        let unknown: Vec<_> = asked.difference(&samples).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

#[test]
fn every_metric_is_documented_and_no_other() {
    let whole = Whole::start();
    let page = whole.process.metrics();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families: BTreeSet<String> = types
        .filter_map(|of| Some(of.split_once(' ')?.0.to_owned()))
        .collect();
    let text = read("docs/operations.md");
    let (_, section) = text.split_once("\n## Metrics\n").expect("a section");
    let (section, _) = section.split_once("\n## ").expect("another one");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented = rows.filter_map(|row| row.split(" | ").next());
    let documented: BTreeSet<String> = documented.flat_map(series_in).collect();
    assert_eq!(documented, families);
}

#[test]
fn alert_rules_pass_their_tests_and_each_has_one() {
    let folder = Path::new(FOLDER).join("packaging/prometheus");
    for arguments in [
        ["check", "rules", "rules.yml"],
        ["test", "rules", "rules.test.yml"],
    ] {
        let mut promtool = Command::new("promtool");
        run(promtool.args(arguments).current_dir(&folder), "prometheus");
    }
    let (rules, tests) = (
        read("packaging/prometheus/rules.yml"),
        read("packaging/prometheus/rules.test.yml"),
    );
    let alerts = rules
        .lines()
        .filter_map(|line| line.split_once("- alert: "));
    for (_, alert) in alerts {
        assert!(tests.contains(alert), "{alert} has no test");
    }
}

#[test]
fn dashboard_is_json_whose_panels_lie_beside_each_other() {
    let dashboard: Value =
        serde_json::from_str(&read("packaging/grafana/tollgate.json")).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("a list");
    let mut taken = BTreeSet::new();
    for panel in panels {
        let place = |side: &str| panel["gridPos"][side].as_u64().expect("a number");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(x < 24 && taken.insert((x, y)), "{}", panel["title"]);
            }
        }
        let is_asking = panel["targets"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        assert_eq!(is_asking, panel["type"] != "row", "{}", panel["title"]);
    }
}

#[test]
fn prometheus_scrapes_both_forms() {
    let whole = Whole::start();
    let text = without_accept(whole.process.admin);
    let prometheus = Prometheus::start(&[("open", whole.process.admin), ("text", text)]);
    for job in ["open", "text"] {
        let last = |query: &str| prometheus.query(&format!("{query}{{job=\"{job}\"}}"));
        eventually(&format!("a scrape of {job}"), || {
            (last("up") == Some(1.0)).then_some(())
        });
        let version = env!("CARGO_PKG_VERSION");
        let build = format!("tollgate_build_info{{job=\"{job}\",version=\"{version}\"}}");
        assert_eq!(prometheus.query(&build), Some(1.0), "{job}");
        let page = whole.process.metrics();
        let lines = page.lines().filter(|line| !line.starts_with('#')).count();
        let scraped = last("scrape_samples_scraped");
        assert_eq!(
            scraped.map(|samples| samples.to_string()),
            Some(lines.to_string())
        );
        // Each metric has the same type in both forms.
        for (metric, kind) in [
            ("tollgate_request_duration_seconds", "histogram"),
            ("tollgate_store_bytes", "gauge"),
        ] {
            assert_eq!(prometheus.type_of(job, metric), kind, "{job} {metric}");
        }
    }
    assert_eq!(prometheus.type_of("open", "tollgate_build"), "info");
    assert_eq!(prometheus.type_of("open", "tollgate_requests"), "counter");
    assert_eq!(prometheus.type_of("text", "tollgate_build_info"), "gauge");
    assert_eq!(
        prometheus.type_of("text", "tollgate_requests_total"),
        "counter"
    );
}

/// Forwards requests without the field by which Prometheus asks for OpenMetrics; returns the address to scrape.
fn without_accept(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound port");
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut head) = (client.expect("a connection"), Vec::new());
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).is_ok_and(|read| read > 0)
            {
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).expect("a head of Prometheus");
            let lines = head.split_inclusive("\r\n");
            // Accept-Encoding goes too, so that the page is not compressed.
            let kept: String = lines.filter(|line| !line.starts_with("Accept")).collect();
            let mut gateway = TcpStream::connect(to).expect("the admin port");
            gateway.write_all(kept.as_bytes()).expect("it reads");
            // The client may no longer be listening.
            let _ = std::io::copy(&mut gateway, &mut client);
            let _ = client.shutdown(Shutdown::Both);
        }
    });
    address
}

/// A Prometheus of its own; it is killed when dropped.
struct Prometheus {
    child: Child,
    port: Port,
    _directory: TempDir,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes each target twice a second.
    #[track_caller]
    fn start(jobs: &[(&str, SocketAddr)]) -> Self {
        let directory = tempfile::tempdir().expect("a folder");
        let (file, data) = (
            directory.path().join("file.yml"),
            directory.path().join("data"),
        );
        let mut text =
            "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\nscrape_configs:\n".to_owned();
        for (job, target) in jobs {
            let targets = format!("targets: ['{target}']");
            writeln!(
                text,
                "- {{job_name: {job}, static_configs: [{{{targets}}}]}}"
            )
            .expect("memory takes every byte");
        }
        fs::write(&file, text).expect("the folder is writable");
        let port = Port::reserve();
        let mut command = dependent("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={}", port.address))
            .arg("--log.level=error");
        Self {
            child: spawn(command, "prometheus", "prometheus"),
            port,
            _directory: directory,
        }
    }

    /// Asks the API; returns `None` if it does not answer yet.
    fn ask(&self, target: &str) -> Option<Value> {
        TcpStream::connect(self.port.address).ok()?;
        let answer = get(self.port.address, target, "");
        (answer.status == 200).then(|| answer.json()["data"].clone())
    }

    /// Returns the value of a query that matches a single series.
    fn query(&self, query: &str) -> Option<f64> {
        let data = self.ask(&format!("/api/v1/query?query={}", escaped(query)))?;
        data["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// Returns the type of a metric of that job.
    fn type_of(&self, job: &str, metric: &str) -> String {
        let target = escaped(&format!("{{job=\"{job}\"}}"));
        let data = self.ask(&format!(
            "/api/v1/targets/metadata?match_target={target}&metric={metric}"
        ));
        let data = data.expect("it answers");
        data[0]["type"].as_str().unwrap_or_default().to_owned()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        write!(escaped, "%{byte:02X}").expect("memory takes every byte");
        escaped
    })
}
