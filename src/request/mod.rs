//! What is read of a request: its path and target, its host, its client, and its route.
//!
//! Nothing here knows about sockets, and all but the memory of verified tokens ([`jwt`]) is pure. [`host()`] and
//! [`client_address()`] read what a request says about itself, and trust only what may be trusted. [`route`] finds its
//! route by the normalised [`path`]. [`partition_id`] digests a request's partition into the id that the store counts
//! under, and [`redacted()`] shows the same partition to people without revealing a secret. [`Patterns`] find the
//! override that a policy has for the request's client. [`Reads`] makes sure that origins read the same values
//! ([`cookie_value`], [`query_value`]). Spellings that origins take for the same credential count as one
//! ([`credential`](mod@credential)). [`announced_method`] reads which request a CORS preflight announces. [`claims`]
//! and [`hop_by_hop`] remove the fields that a client may not set and those that are not for the next hop;
//! [`SeenNames`] tells whether a request has any of them.

pub mod cdn_loop;
pub mod claims;
mod client_address;
mod cookie;
mod copied;
mod credential;
mod field_names;
mod forwarded;
pub mod hop_by_hop;
mod host;
mod joined_lines;
pub mod jwt;
mod name_filter;
mod only_line;
mod overrides;
mod parameter;
mod partition;
pub mod path;
mod preflight;
mod query;
mod reads;
mod redacted;
pub mod route;
mod seen_names;
pub mod stripped_prefix;
pub mod target;
pub mod upgrade;

pub use self::client_address::{
    ADDRESS_CLAIMS, AddressSource, ClientIdentity, ClientPrefixes, claimed_address, client_address,
    client_network, is_in, is_trusted_peer,
};
pub use self::cookie::cookie_value;
pub use self::copied::{X_REQUEST_ID, copied_name, copied_value};
pub use self::field_names::are_tokens;
pub(crate) use self::host::canonical_host;
pub use self::host::{BadHost, Host, LatestHost, host};
pub use self::joined_lines::join_routed_lines;
pub use self::name_filter::NameFilter;
pub use self::only_line::only_line;
pub use self::overrides::{
    BadPattern, ClientValues, EqualPatterns, NamedClient, PartPattern, Pattern, Patterns,
    StoredPart,
};
pub use self::parameter::Ambiguous;
pub use self::partition::{
    Choice, Facts, Identified, LatestPartition, Missing, Part, Partition, has_all,
    is_whole_address, partition_id,
};
pub use self::preflight::{announced_method, with_announced_headers};
pub use self::query::query_value;
pub use self::reads::Reads;
pub use self::redacted::{ClientNames, LatestAddress, Redacted, redacted, redacted_address};
pub use self::seen_names::{SeenNames, Unwanted};
