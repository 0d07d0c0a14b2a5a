//! Which requests are traced, as given on the command line.

use clap::Args;

/// Shows only requests that match every option given here.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct TraceArguments {
    /// A client, as the log shows it, or `id:` and its id.
    #[arg(long, value_name = "CLIENT")]
    pub client: Option<String>,
    /// Only requests to which this policy applies.
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Only requests that the gateway refuses.
    #[arg(long)]
    pub refused: bool,
    /// Only requests whose path begins like this.
    #[arg(long, value_name = "PREFIX")]
    pub path: Option<String>,
    /// How many requests to show.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub count: u32,
}

impl TraceArguments {
    /// Returns path and query of the call that traces these requests.
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
