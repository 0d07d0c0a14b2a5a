//! The request to be explained, as read from a command line or from a call to the admin port.

use std::net::{IpAddr, Ipv4Addr};

use http::header::HOST;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use serde_json::{Map, Value};

use crate::snapshot::{ListenAddress, Listener, Snapshot};

/// A request to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedRequest {
    method: Method,
    url: Uri,
    headers: HeaderMap,
    /// Address of the peer that sends it; `None` if it was not given.
    from: Option<IpAddr>,
    /// Name of the listener; `None` if it was not given.
    listener: Option<String>,
}

/// Why a request cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuestion {
    /// The method is not valid.
    #[error("this is not a method: expected one such as `POST`")]
    Method,
    /// The URL is not valid.
    #[error(
        "this is not a URL: expected one such as `https://api.example.com/v1/items?page=2`, or a path"
    )]
    Url,
    /// A header is not valid.
    #[error("this is not a header: expected one such as `x-api-key: live_123`")]
    Header,
    /// The sender is not an address.
    #[error("this is not where a request comes from: expected an address such as `203.0.113.9`")]
    From,
    /// There is no listener of this name.
    #[error("there is no listener `{name}`: the file has {known}")]
    Listener {
        /// The name that was given.
        name: String,
        /// The names of all listeners.
        known: String,
    },
    /// A member of a JSON object is missing or has another type.
    #[error(
        "expected `url`, and perhaps `method`, `headers` (a list of pairs of name and value), `from` and `listener`"
    )]
    Form,
}

/// Why a listener is taken as the one at which the request arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerChoice {
    /// The question names the listener.
    Named,
    /// There is no other listener.
    Only,
    /// The listener has the URL's port, and TLS if and only if the URL's scheme is `https`.
    Port,
    /// The listener is the first that has TLS if and only if the URL's scheme is `https`.
    Scheme,
    /// The listener is the first one.
    First,
}

impl AskedRequest {
    /// Members that the JSON object may have.
    pub const MEMBERS: [&str; 5] = ["method", "url", "headers", "from", "listener"];

    /// Reads a request; without a method, it is a GET.
    ///
    /// # Errors
    /// Which part of the request is not valid.
    pub fn new<'t>(
        method: Option<&str>,
        url: &str,
        headers: impl IntoIterator<Item = (&'t str, &'t str)>,
        from: Option<&str>,
        listener: Option<&str>,
    ) -> Result<Self, BadQuestion> {
        let method = method.map_or(Ok(Method::GET), |method| {
            Method::from_bytes(method.as_bytes()).map_err(|_| BadQuestion::Method)
        });
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.trim().parse().map_err(|_| BadQuestion::Header)?;
            let value = HeaderValue::from_bytes(value.trim().as_bytes());
            map.append(name, value.map_err(|_| BadQuestion::Header)?);
        }
        let from = from.map(|from| from.parse().map_err(|_| BadQuestion::From));
        Ok(Self {
            method: method?,
            url: self::url(url)?,
            headers: map,
            from: from.transpose()?,
            listener: listener.map(str::to_owned),
        })
    }

    /// Reads the members of a JSON object, of which only `url` is required.
    ///
    /// # Errors
    /// Which member is not valid.
    pub fn from_members(object: &Map<String, Value>) -> Result<Self, BadQuestion> {
        let text = |key: &str| match object.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(&**text)),
            Some(_) => Err(BadQuestion::Form),
        };
        let pair = |pair: &'_ Value| match pair.as_array().map(Vec::as_slice) {
            Some([Value::String(name), Value::String(value)]) => Ok((name.clone(), value.clone())),
            _ => Err(BadQuestion::Form),
        };
        let headers = match object.get("headers") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(headers)) => headers.iter().map(pair).collect::<Result<_, _>>()?,
            Some(_) => return Err(BadQuestion::Form),
        };
        let headers = headers.iter().map(|(name, value)| (&**name, &**value));
        let url = text("url")?.ok_or(BadQuestion::Form)?;
        Self::new(
            text("method")?,
            url,
            headers,
            text("from")?,
            text("listener")?,
        )
    }

    /// Finds the listener at which the request arrives.
    ///
    /// # Errors
    /// If the request names a listener that does not exist.
    pub(super) fn listener<'s>(
        &self,
        snapshot: &'s Snapshot,
    ) -> Result<(&'s Listener, ListenerChoice), BadQuestion> {
        let mut listeners = snapshot.listeners.iter().map(|listener| &**listener);
        if let Some(name) = &self.listener {
            let names: Vec<_> = listeners
                .clone()
                .map(|one| format!("`{}`", one.name))
                .collect();
            let found = listeners.find(|listener| *listener.name == **name);
            let missing = || BadQuestion::Listener {
                name: name.clone(),
                known: names.join(", "),
            };
            return Ok((found.ok_or_else(missing)?, ListenerChoice::Named));
        }
        let first = (listeners.clone().next()).expect("a file has at least one listener");
        if listeners.len() == 1 {
            return Ok((first, ListenerChoice::Only));
        }
        let Some(scheme) = self.url.scheme_str() else {
            return Ok((first, ListenerChoice::First));
        };
        let is_tls = scheme == "https";
        let port = self.url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let mut alike = listeners.filter(|listener| listener.tls.is_some() == is_tls);
        let has_port = |listener: &&Listener| match listener.address {
            ListenAddress::Tcp(address) => address.port() == port,
            ListenAddress::Unix(_) => false,
        };
        Ok(match (alike.clone().find(has_port), alike.next()) {
            (Some(listener), _) => (listener, ListenerChoice::Port),
            (None, Some(listener)) => (listener, ListenerChoice::Scheme),
            (None, None) => (first, ListenerChoice::First),
        })
    }

    /// Returns the peer's address: the one that was given, otherwise this machine's. At a Unix socket, peers have no
    /// address.
    pub(super) fn peer(&self, listener: &Listener) -> Option<IpAddr> {
        match listener.address {
            ListenAddress::Tcp(_) => Some(self.from.unwrap_or(Ipv4Addr::LOCALHOST.into())),
            ListenAddress::Unix(_) => None,
        }
    }

    /// Whether the peer's address was given.
    pub(super) fn is_from_known(&self) -> bool {
        self.from.is_some()
    }

    /// Returns the head of the request as it arrives.
    pub(super) fn head(&self) -> Parts {
        let target = self.url.path_and_query().cloned();
        let target = target.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = self.method.clone();
        head.uri = target.into();
        head.headers = self.headers.clone();
        if !head.headers.contains_key(HOST) {
            let host = self
                .url
                .authority()
                .map_or("localhost", |authority| authority.as_str());
            let host = HeaderValue::from_str(host).expect("an authority makes a value");
            head.headers.insert(HOST, host);
        }
        head
    }
}

/// Reads an absolute URL of HTTP, or a path.
fn url(text: &str) -> Result<Uri, BadQuestion> {
    let url: Uri = text.parse().map_err(|_| BadQuestion::Url)?;
    let is_absolute = matches!(url.scheme_str(), Some("http" | "https"));
    if is_absolute || text.starts_with('/') {
        return Ok(url);
    }
    Err(BadQuestion::Url)
}
