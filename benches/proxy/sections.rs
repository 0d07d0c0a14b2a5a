//! What is measured beside what, and the bars for it.

use self::Kind::{
    FewOfManyRoutes, FewRoutes, Haproxy, ManyRoutes, Memory, Nginx, NginxLogBuffered, NginxLogged,
    NginxLua, Pingora, Redis, RedisOneBucket, ThreeQuotasLogged, Unlimited,
};
use super::load::Cost;

/// A kind of gateway; kinds of Tollgate are run once for each build.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Nginx,
    NginxLogged,
    NginxLogBuffered,
    NginxLua,
    Haproxy,
    Pingora,
    Unlimited,
    Memory,
    ThreeQuotasLogged,
    RedisOneBucket,
    Redis,
    FewRoutes,
    FewOfManyRoutes,
    ManyRoutes,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx, limit_req",
            Self::NginxLogged => "nginx, log, two limit_req",
            Self::NginxLogBuffered => "nginx, buffered log, two limit_req",
            Self::NginxLua => "nginx, Lua, Redis",
            Self::Haproxy => "HAProxy, stick table",
            Self::Pingora => "Pingora, pingora-limits",
            Self::Unlimited => "no policy",
            Self::Memory => "one limit in memory",
            Self::ThreeQuotasLogged => "log, three quotas",
            Self::RedisOneBucket => "Redis, buckets = 1",
            Self::Redis => "Redis",
            Self::FewRoutes => "10 routes",
            Self::FewOfManyRoutes => "10 of 10,000 routes",
            Self::ManyRoutes => "10,000 routes",
        }
    }

    pub fn is_tollgate(self) -> bool {
        !matches!(
            self,
            Self::Nginx
                | Self::NginxLogged
                | Self::NginxLogBuffered
                | Self::NginxLua
                | Self::Haproxy
                | Self::Pingora
        )
    }

    /// How many routes are requested in turn, and how many the file has; `None` if a single path is requested.
    pub fn routes(self) -> Option<(usize, usize)> {
        match self {
            Self::FewRoutes => Some((10, 10)),
            Self::FewOfManyRoutes => Some((10, 10_000)),
            Self::ManyRoutes => Some((10_000, 10_000)),
            _ => None,
        }
    }
}

/// Gateways under one load, measured in turn.
pub struct Section {
    /// The word that chooses it on the command line.
    pub word: &'static str,
    pub title: &'static str,
    pub path: &'static str,
    /// Whether nearly all requests are admitted, or nearly all refused.
    pub is_admitted: bool,
    pub kinds: &'static [Kind],
    pub bars: &'static [Bar],
}

/// How much one kind of gateway may cost compared with another.
pub struct Bar {
    pub own: Kind,
    pub peer: Kind,
    pub figure: Figure,
    /// Bar for builds without profile-guided optimisation.
    pub plain: f64,
    /// Bar for the build called `pgo`.
    pub pgo: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// The ratio of the gateways' CPU time.
    Gateway,
    /// The ratio of their Redis servers' CPU time.
    Redis,
    /// The difference in µs of CPU time of the gateways.
    Above,
}

impl Figure {
    pub fn of(self, own: &Cost, peer: &Cost) -> f64 {
        match self {
            Self::Gateway => own.gateway() / peer.gateway(),
            Self::Redis => own.redis / peer.redis,
            Self::Above => own.gateway() - peer.gateway(),
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Self::Gateway => "",
            Self::Redis => "of Redis",
            Self::Above => "µs above",
        }
    }
}

const fn bar(own: Kind, peer: Kind, figure: Figure, plain: f64, pgo: f64) -> Bar {
    Bar {
        own,
        peer,
        figure,
        plain,
        pgo,
    }
}

pub const SECTIONS: &[Section] = &[
    Section {
        word: "proxied",
        title: "proxied, limited in memory",
        path: "/open",
        is_admitted: true,
        kinds: &[Nginx, Haproxy, Pingora, Unlimited, Memory],
        bars: &[
            bar(Memory, Nginx, Figure::Gateway, 1.10, 1.03),
            bar(Memory, Haproxy, Figure::Gateway, 0.97, 0.90),
            bar(Memory, Pingora, Figure::Gateway, 0.70, 0.70),
            bar(Memory, Unlimited, Figure::Gateway, 1.05, 1.05),
        ],
    },
    Section {
        word: "refused",
        title: "refused with 429 in memory",
        path: "/shut",
        is_admitted: false,
        kinds: &[Nginx, Haproxy, Pingora, Memory],
        bars: &[bar(Memory, Nginx, Figure::Gateway, 1.20, 1.12)],
    },
    Section {
        word: "logged",
        title: "proxied, access log, metrics, several quotas",
        path: "/open",
        is_admitted: true,
        kinds: &[NginxLogged, NginxLogBuffered, ThreeQuotasLogged],
        bars: &[
            bar(ThreeQuotasLogged, NginxLogged, Figure::Gateway, 1.10, 1.05),
            bar(
                ThreeQuotasLogged,
                NginxLogBuffered,
                Figure::Gateway,
                1.10,
                1.05,
            ),
        ],
    },
    Section {
        word: "redis",
        title: "proxied, limited in Redis",
        path: "/open",
        is_admitted: true,
        kinds: &[NginxLua, Memory, RedisOneBucket, Redis],
        bars: &[
            bar(RedisOneBucket, NginxLua, Figure::Gateway, 0.58, 0.58),
            bar(Redis, NginxLua, Figure::Gateway, 0.60, 0.60),
            bar(RedisOneBucket, NginxLua, Figure::Redis, 0.45, 0.45),
            bar(Redis, NginxLua, Figure::Redis, 0.45, 0.45),
            bar(Redis, Memory, Figure::Above, 1.5, 1.5),
        ],
    },
    Section {
        word: "redis",
        title: "refused with 429 in Redis",
        path: "/shut",
        is_admitted: false,
        kinds: &[NginxLua, Memory, RedisOneBucket, Redis],
        bars: &[
            bar(RedisOneBucket, Memory, Figure::Gateway, 1.05, 1.05),
            bar(Redis, Memory, Figure::Gateway, 1.05, 1.05),
        ],
    },
    Section {
        word: "routes",
        title: "proxied, routes in turn",
        path: "/",
        is_admitted: true,
        kinds: &[FewRoutes, FewOfManyRoutes, ManyRoutes],
        bars: &[
            bar(FewOfManyRoutes, FewRoutes, Figure::Gateway, 1.03, 1.03),
            bar(ManyRoutes, FewRoutes, Figure::Gateway, 1.03, 1.03),
        ],
    },
];
