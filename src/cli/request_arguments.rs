//! A request, as a command line has it.

use clap::Args;

use crate::explain::{AskedRequest, BadQuestion};

/// A request, as a command line has it.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct RequestArguments {
    /// The method.
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub method: String,
    /// A header, such as `x-api-key: live_123`; may be given several times.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// The address that the request comes from: the client's, or that of a proxy in front of the gateway. Default:
    /// 127.0.0.1.
    #[arg(long, value_name = "ADDRESS")]
    pub from: Option<String>,
    /// The listener that it comes by. Default: the one with the URL's port, or the first.
    #[arg(long, value_name = "NAME")]
    pub listener: Option<String>,
    /// What is requested: a URL, or a path.
    pub url: String,
}

impl RequestArguments {
    /// Reads the request.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn asked(&self) -> Result<AskedRequest, BadQuestion> {
        let headers = self.headers.iter().map(|header| header.split_once(':'));
        let headers: Option<Vec<_>> = headers.collect();
        let (from, listener) = (self.from.as_deref(), self.listener.as_deref());
        let headers = headers.ok_or(BadQuestion::Header)?;
        AskedRequest::new(Some(&self.method), &self.url, headers, from, listener)
    }
}
