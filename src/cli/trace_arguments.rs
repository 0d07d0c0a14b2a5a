//! Which requests are traced, as a command line has it.

use clap::Args;

/// Which requests are shown: those with all that is said here.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct TraceArguments {
    /// A client, as the log shows it, or `id:` and its id.
    #[arg(long, value_name = "CLIENT")]
    pub client: Option<String>,
    /// A policy that applies to them.
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Only requests that the gateway refuses.
    #[arg(long)]
    pub refused: bool,
    /// How their paths begin.
    #[arg(long, value_name = "PREFIX")]
    pub path: Option<String>,
    /// How many.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub count: u32,
}

impl TraceArguments {
    /// Returns path and query of the call that traces them.
    pub(super) fn query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new("/api/trace?".to_owned());
        let named = [
            ("client", &self.client),
            ("policy", &self.policy),
            ("path", &self.path),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        if self.refused {
            query.append_pair("refused", "true");
        }
        query.append_pair("count", &self.count.to_string());
        query.finish()
    }
}
