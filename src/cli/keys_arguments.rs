//! What `tollgate keys` can be told to do.

use clap::{Args, Subcommand};

/// What to do with single clients.
#[derive(Clone, Debug, Subcommand, PartialEq, Eq)]
pub enum KeysCommand {
    /// Prints every quota of a client: what is left, when there is more, and what would be refused now.
    Get(ClientName),
    /// Lists what is in force for a time: overrides and blocks.
    List,
    /// Lets a client do something else for a time; another window than the policy's starts whole.
    Set {
        /// Whom it is about.
        #[command(flatten)]
        client: ClientName,
        /// What it may do: quotas, `unlimited` or `blocked`, as `overrides` have them.
        #[arg(value_name = "QUOTA", required_unless_present = "end")]
        quotas: Vec<String>,
        /// For how long, such as `8h`; at most `366d`.
        #[arg(long = "for", value_name = "TIME", required_unless_present = "end")]
        lifetime: Option<String>,
        /// Ends what was set before.
        #[arg(long, conflicts_with_all = ["quotas", "lifetime"])]
        end: bool,
    },
    /// Gives units back to a client (`+5`), or spends them (`-5`), in the newest bucket or entry.
    Adjust {
        /// Whom it is about.
        #[command(flatten)]
        client: ClientName,
        /// How many units: above 0 come back, below are spent.
        #[arg(allow_hyphen_values = true)]
        units: i64,
    },
    /// Gives credits to a client, under a policy with `quota = "credits"`.
    Grant {
        /// Whom it is about.
        #[command(flatten)]
        client: ClientName,
        /// How many credits.
        credits: u64,
    },
    /// Begins all windows of a client afresh, on every gateway; credits and units in flight stay.
    Reset(ClientName),
    /// Refuses clients with 403.
    Block {
        /// Whom it is about.
        #[command(flatten)]
        client: ClientName,
        /// For how long, such as `8h`; without it, for `366d`.
        #[arg(long = "for", value_name = "TIME")]
        lifetime: Option<String>,
        /// Under every policy that knows the named parts, not this one alone.
        #[arg(long)]
        everywhere: bool,
    },
    /// Ends the blocks of a client, those from `--everywhere` too.
    Unblock(ClientName),
}

/// A client, by its policy and its value there.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ClientName {
    /// The policy whose partition names the client.
    pub policy: String,
    /// The client, written as in `overrides` (`live_123`, `10.0.0.0/8`, `header:x-tenant=acme, method=GET`), or
    /// `id:` and the 32 hex digits that `keys list` prints.
    pub value: String,
}
