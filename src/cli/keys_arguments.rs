//! Arguments of `tollgate keys`.

use clap::{Args, Subcommand};

/// What to do with a single client.
#[derive(Clone, Debug, Subcommand, PartialEq, Eq)]
pub enum KeysCommand {
    /// Prints every quota of a client: what is left, when there is more, and what would be refused now.
    Get(ClientName),
    /// Lists the overrides and blocks that are in force for a time.
    List,
    /// Overrides a client's quotas for a time; a window that the policy does not have starts unused.
    Set {
        /// The client.
        #[command(flatten)]
        client: ClientName,
        /// What the client may do: quotas, `unlimited` or `blocked`, written as in `overrides`.
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
        /// The client.
        #[command(flatten)]
        client: ClientName,
        /// Units: a positive number is given back, a negative one is spent.
        #[arg(allow_hyphen_values = true)]
        units: i64,
    },
    /// Gives credits to a client, under a policy with `quota = "credits"`.
    Grant {
        /// The client.
        #[command(flatten)]
        client: ClientName,
        /// Credits to give.
        credits: u64,
    },
    /// Resets all windows of a client, on every gateway; credits and units in flight stay.
    Reset(ClientName),
    /// Refuses clients with 403.
    Block {
        /// The client.
        #[command(flatten)]
        client: ClientName,
        /// For how long, such as `8h`; without it, for `366d`.
        #[arg(long = "for", value_name = "TIME")]
        lifetime: Option<String>,
        /// Under every policy that knows the named parts, not only this one.
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
