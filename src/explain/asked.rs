//! A request that somebody asks about, as a command line or a call to the admin port has it.

use std::net::{IpAddr, Ipv4Addr};

use http::header::HOST;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use serde_json::{Map, Value};

use crate::snapshot::{ListenAddress, Listener, Snapshot};

/// A request that somebody asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedRequest {
    method: Method,
    url: Uri,
    headers: HeaderMap,
    /// The other end of its connection; none: nobody says.
    from: Option<IpAddr>,
    /// The name of the listener; none: nobody says.
    listener: Option<String>,
}

/// Why nothing can be said of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuestion {
    /// The method is none.
    #[error("this is not a method: expected one such as `POST`")]
    Method,
    /// The URL is none.
    #[error(
        "this is not a URL: expected one such as `https://api.example.com/v1/items?page=2`, or a path"
    )]
    Url,
    /// A header is none.
    #[error("this is not a header: expected one such as `x-api-key: live_123`")]
    Header,
    /// The sender is no address.
    #[error("this is not where a request comes from: expected an address such as `203.0.113.9`")]
    From,
    /// There is no such listener.
    #[error("there is no listener `{name}`: the file has {known}")]
    Listener {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A member of a JSON object is missing or has another type.
    #[error(
        "expected `url`, and perhaps `method`, `headers` (a list of pairs of name and value), `from` and `listener`"
    )]
    Form,
}

/// Why a listener is taken for the one that the request comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerChoice {
    /// It was named.
    Named,
    /// There is no other.
    Only,
    /// It listens on the URL's port, with TLS as the URL has it.
    Port,
    /// It is the first with TLS as the URL has it.
    Scheme,
    /// It is the first.
    First,
}

impl AskedRequest {
    /// What a JSON object may have.
    pub const MEMBERS: [&str; 5] = ["method", "url", "headers", "from", "listener"];

    /// Reads a request; without a method, it is a GET.
    ///
    /// # Errors
    /// What cannot be read.
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

    /// Reads the members of a JSON object, of which `url` must be there.
    ///
    /// # Errors
    /// What cannot be read.
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

    /// Finds the listener that the request comes by.
    ///
    /// # Errors
    /// The listener that was named, if there is none of that name.
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

    /// Returns the other end of the connection: who was said to be, or this machine itself. At a Unix socket nobody
    /// has an address.
    pub(super) fn peer(&self, listener: &Listener) -> Option<IpAddr> {
        match listener.address {
            ListenAddress::Tcp(_) => Some(self.from.unwrap_or(Ipv4Addr::LOCALHOST.into())),
            ListenAddress::Unix(_) => None,
        }
    }

    /// Whether it was said where the request comes from.
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

/// Reads a URL of HTTP, or a path.
fn url(text: &str) -> Result<Uri, BadQuestion> {
    let url: Uri = text.parse().map_err(|_| BadQuestion::Url)?;
    let is_absolute = matches!(url.scheme_str(), Some("http" | "https"));
    if is_absolute || text.starts_with('/') {
        return Ok(url);
    }
    Err(BadQuestion::Url)
}
