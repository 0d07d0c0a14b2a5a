//! Files of many routes: good ones of several kinds, and one for each kind of mistake.

use std::fmt::Write as _;

/// What the routes of a file are like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What files usually have: hosts, prefixes, parameters, methods, headers.
    Mixed,
    /// Every route is an expression, and all texts begin alike.
    Regex,
    /// Every route has its own path, all at one level and for any host.
    Flat,
    /// Every route has the same path, and is told apart by a header's value.
    Tenants,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Mixed, Self::Regex, Self::Flat, Self::Tenants];

    pub fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Regex => "regex",
            Self::Flat => "flat",
            Self::Tenants => "tenants",
        }
    }

    pub fn named(name: &str) -> Self {
        let all = Self::ALL.into_iter();
        let found = all.into_iter().find(|kind| kind.name() == name);
        found.expect("the name of a kind")
    }
}

/// What is wrong with each route or policy.
#[derive(Clone, Copy)]
pub enum Mistake {
    Policy,
    Upstream,
    Key,
    Value,
    Tie,
    TwoStages,
    Doubled,
    Syntax,
}

impl Mistake {
    pub const ALL: [Self; 8] = [
        Self::Policy,
        Self::Upstream,
        Self::Key,
        Self::Value,
        Self::Tie,
        Self::TwoStages,
        Self::Doubled,
        Self::Syntax,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy misspelled",
            Self::Upstream => "no such upstream",
            Self::Key => "key misspelled",
            Self::Value => "value out of range",
            Self::Tie => "route ties",
            Self::TwoStages => "value and name",
            Self::Doubled => "policy doubled",
            Self::Syntax => "not TOML",
        }
    }
}

/// Makes a good file; its first policy allows 1000000 per minute.
pub fn good(routes: usize, kind: Kind) -> String {
    let mut text = top(routes);
    for at in 0..routes {
        text += "[[routes]]\n";
        match kind {
            Kind::Mixed => mixed(&mut text, at),
            Kind::Regex => {
                let _ = writeln!(
                    text,
                    "path_regex = '/v[0-9]+/service-{at}/[a-z0-9-]+(/.*)?'"
                );
            }
            Kind::Flat => {
                let _ = writeln!(text, "path = '/service-{at}/*'");
            }
            Kind::Tenants => {
                let _ = writeln!(
                    text,
                    "path = '/*'\nheaders = {{ x-tenant = 'tenant-{at}' }}"
                );
            }
        }
        let (one, other) = (at % policies(routes), (at * 7 + 3) % policies(routes));
        let _ = writeln!(text, "upstream = 'api'");
        if one == other {
            let _ = writeln!(text, "policies = ['policy-{one}']");
        } else {
            let _ = writeln!(text, "policies = ['policy-{one}', 'policy-{other}']");
        }
    }
    text
}

/// Makes a file with this mistake in every route, or in as many policies.
pub fn bad(routes: usize, mistake: Mistake) -> String {
    let mut text = top(routes);
    for at in 0..routes {
        let policy = at % policies(routes);
        let _ = match mistake {
            Mistake::Policy => writeln!(
                text,
                "[[routes]]\npath = '/{at}'\nupstream = 'api'\npolicies = ['polcy-{at}']"
            ),
            Mistake::Upstream => writeln!(
                text,
                "[[routes]]\npath = '/{at}'\nupstream = 'service-{at}'\npolicies = ['policy-{policy}']"
            ),
            Mistake::Key => writeln!(
                text,
                "[[routes]]\npath = '/{at}'\nupstream = 'api'\npolices = ['policy-{policy}']"
            ),
            Mistake::Value => writeln!(
                text,
                "[[routes]]\npath = '/{at}'\nupstream = 'api'\nresponse_timeout = '{at}d'"
            ),
            Mistake::Tie => writeln!(text, "[[routes]]\npath = '/a/b'\nupstream = 'api'"),
            Mistake::TwoStages => writeln!(
                text,
                "[[routes]]\npath = '/{at}'\nupstream = 'ap{at}'\ncost = -1\npolicies = ['polcy-{policy}']"
            ),
            Mistake::Doubled => writeln!(
                text,
                "[policies.policy-{policy}]\nquota = '1 per second'\n[[routes]]\npath = '/{at}'\nupstream = 'api'"
            ),
            Mistake::Syntax => {
                writeln!(text, "[[routes]]\npath = /{at}\nupstream = 'api'")
            }
        };
    }
    text
}

fn policies(routes: usize) -> usize {
    routes.div_ceil(10)
}

fn top(routes: usize) -> String {
    let mut text = format!(
        "[listeners.public]\naddress = '{PUBLIC}'\n\
         [admin]\naddress = '{ADMIN}'\n\
         [log]\naccess = 'off'\n\
         [upstreams.api]\nendpoints = 'builtin:status/204'\n"
    );
    for at in 0..policies(routes) {
        let _ = writeln!(text, "[policies.policy-{at}]");
        let _ = match at % 4 {
            0 => writeln!(text, "quota = '1000000 per minute'"),
            1 => writeln!(
                text,
                "quota = ['{} per 2s', '100000000 per hour']\npartition = ['header:x-api-key | ip']",
                5_000_000 + at
            ),
            2 => writeln!(
                text,
                "quota = '{} per second'\nalgorithm = 'gcra'\nburst = 1000000",
                100_000 + at % 50
            ),
            _ => writeln!(
                text,
                "quota = '{} per 10s'\nalgorithm = 'fixed-window'\npartition = ['route', 'ip']",
                10_000_000 + at
            ),
        };
    }
    text
}

/// Eight routes make a service, and a host has five services. Of ten hosts, seven are exact, two
/// are wildcards, and one stands for any host.
fn mixed(text: &mut String, at: usize) {
    let (service, host) = (at / 8, at / 40);
    let _ = match host % 10 {
        9 => Ok(()),
        7 | 8 => writeln!(text, "host = '*.group-{host}.example.com'"),
        _ => writeln!(text, "host = 'api-{host}.example.com'"),
    };
    let _ = match at % 8 {
        0 => writeln!(text, "path = '/service-{service}/*'"),
        1 => writeln!(text, "path = '/service-{service}/items'\nmethods = ['GET']"),
        2 => writeln!(
            text,
            "path = '/service-{service}/items'\nmethods = ['POST']"
        ),
        3 => writeln!(text, "path = '/service-{service}/items/{{id}}'"),
        4 => writeln!(
            text,
            "path = '/service-{service}/items/{{id}}'\nmethods = ['DELETE', 'PUT']\nheaders = {{ x-version = '2' }}"
        ),
        5 => writeln!(
            text,
            "path = '/service-{service}/items/{{id}}/parts/{{part}}'"
        ),
        6 => writeln!(text, "path = '/service-{service}/health'"),
        _ => writeln!(text, "path = '/service-{service}/{{version}}/search'"),
    };
}

/// Returns a request for the route at `at` of a mixed file: method, host, target.
pub fn request(at: usize) -> (&'static str, String, String) {
    let (service, host) = (at / 8, at / 40);
    let host = match host % 10 {
        9 => "x.org".to_owned(),
        7 | 8 => format!("a.b.group-{host}.example.com"),
        _ => format!("api-{host}.example.com"),
    };
    let (method, rest) = match at % 8 {
        0 => ("GET", "a/b/c"),
        1 => ("GET", "items"),
        2 => ("POST", "items"),
        3 => ("GET", "items/17"),
        4 => ("PUT", "items/17"),
        5 => ("GET", "items/17/parts/4"),
        6 => ("GET", "health"),
        _ => ("GET", "v2/search"),
    };
    (method, host, format!("/service-{service}/{rest}"))
}

/// Addresses in the files, which a gateway in a process of its own replaces.
pub const PUBLIC: &str = "127.0.0.1:19110";
pub const ADMIN: &str = "127.0.0.1:19111";
