//! A request, as given on the command line.

use clap::Args;
use serde_json::{Value, json};

use crate::explain::{AskedRequest, BadQuestion};

/// A request, as given on the command line.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct RequestArguments {
    /// The method.
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    pub method: String,
    /// A header, such as `x-api-key: live_123`; may be given several times.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// The address that the request comes from: the client's, or that of a proxy in front of the gateway. Default:
    /// 127.0.0.1.
    #[arg(long, value_name = "ADDRESS")]
    pub from: Option<String>,
    /// The listener that receives the request. Default: the one with the URL's port, or the first.
    #[arg(long, value_name = "NAME")]
    pub listener: Option<String>,
    /// Asks the gateway that runs with the file, and says what is left and what would happen now. Spends nothing.
    #[arg(long)]
    pub live: bool,
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

    /// Returns the request as the admin port takes it.
    pub fn json(&self) -> Value {
        let headers = self
            .headers
            .iter()
            .filter_map(|header| header.split_once(':'));
        json!({
            "method": self.method,
            "url": self.url,
            "headers": headers.map(|(name, value)| json!([name, value])).collect::<Value>(),
            "from": self.from,
            "listener": self.listener,
        })
    }
}
