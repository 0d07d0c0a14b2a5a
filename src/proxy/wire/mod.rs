//! HTTP and its connections, as far as both sides of the proxy share them.
//!
//! It knows no route, no endpoint and no policy. [`outgoing`] is a request as it is to be written, in either
//! version of HTTP; [`encoding`] writes it in HTTP/1.1. [`chunks`] and [`section`] read what is around the data of
//! a body; [`unindexed`](fn@unindexed) marks values that HTTP/2 is not to keep in a table. Below them are the sockets:
//! [`deadline`] bounds how long they wait, [`read_buffer`] is what they are read into, [`sockets`] bounds how many
//! there are, and [`accepting`] says whether more are accepted.

pub mod body;
pub mod chunks;
pub mod encoding;
pub mod outgoing;
pub mod request_head;
pub mod section;
mod unindexed;

pub mod interim;
pub mod proxy_header;

pub mod accepting;
pub mod deadline;
mod forward_writes;
pub mod read_buffer;
pub mod rewound;
pub mod sockets;

#[cfg(test)]
pub mod scripted_body;

pub(crate) use self::forward_writes::forward_writes;
pub use self::unindexed::unindexed;
