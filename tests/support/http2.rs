//! A client, based on the `h2` crate, that a test drives step by step.

use std::future::Future;
use std::io::Result;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Response};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

use super::{PATIENCE, eventually};

/// A connection, read and written by a thread of its own.
pub struct Http2 {
    requests: SendRequest<Bytes>,
    ended: Receiver<()>,
}

/// One request and its answer.
pub struct Stream {
    answer: Option<ResponseFuture>,
    receiving: Option<RecvStream>,
    sending: SendStream<Bytes>,
}

/// A part of an answer, or the reason why its stream was reset.
type Received<T> = std::result::Result<T, Reason>;

impl Http2 {
    /// Connects, and offers a window of `window` bytes for each answer.
    pub fn connect(address: SocketAddr, window: u32) -> Self {
        Self::open(window, TcpStream::connect(address))
    }

    /// Connects over TLS to that host, with h2's default window.
    pub fn connect_secure(address: SocketAddr, config: &Arc<ClientConfig>, host: &str) -> Self {
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let host = ServerName::try_from(host.to_owned()).expect("a name");
        Self::open(65_535, async move {
            let stream = TcpStream::connect(address).await?;
            let connector = TlsConnector::from(Arc::new(config));
            connector.connect(host, stream).await
        })
    }

    fn open<T>(window: u32, stream: impl Future<Output = Result<T>> + Send + 'static) -> Self
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let ((opened, opening), (end, ended)) = (channel(), channel());
        thread::spawn(move || {
            runtime().block_on(async {
                let stream = stream.await.expect("the gateway accepts connections");
                let mut builder = Builder::new();
                builder
                    .initial_window_size(window)
                    .max_concurrent_reset_streams(1000);
                let opened_by = builder.handshake(stream).await;
                let (requests, connection) = opened_by.expect("the gateway speaks HTTP/2");
                // The test may have ended already.
                let _ = opened.send(requests);
                let _ = connection.await;
                let _ = end.send(());
            });
        });
        let requests = opening.recv_timeout(PATIENCE).expect("a connection");
        Self { requests, ended }
    }

    /// Waits until the gateway has ended the connection.
    #[track_caller]
    pub fn wait_for_end(&self) {
        let ended = self.ended.recv_timeout(PATIENCE);
        ended.expect("the gateway ends the connection");
    }

    /// Begins a request, which has a body unless `is_end` is set.
    #[track_caller]
    pub fn begin(&mut self, request: Request<()>, is_end: bool) -> Stream {
        self.requests = wait(self.requests.clone().ready()).expect("room for a stream");
        let begun = self.requests.send_request(request, is_end);
        let (answer, sending) = begun.expect("a good request");
        Stream {
            answer: Some(answer),
            receiving: None,
            sending,
        }
    }

    /// Begins a request without a body.
    #[track_caller]
    pub fn ask(&mut self, method: Method, path: &str) -> Stream {
        self.begin(request(method, path), true)
    }

    /// Asks for another protocol by an extended CONNECT (RFC 8441).
    #[track_caller]
    pub fn ask_for(&mut self, protocol: &'static str, path: &str) -> Stream {
        eventually("the gateway offers tunnels", || {
            let is_offered = self.requests.is_extended_connect_protocol_enabled();
            is_offered.then_some(())
        });
        let mut request = request(Method::CONNECT, path);
        let protocol = Protocol::from_static(protocol);
        request.extensions_mut().insert(protocol);
        self.begin(request, false)
    }
}

impl Stream {
    /// Waits for the answer's head.
    pub fn head(&mut self) -> Received<Response<()>> {
        let answer = self.answer.take().expect("the head is read once");
        let (head, receiving) = wait(answer).map_err(|error| reason(&error))?.into_parts();
        self.receiving = Some(receiving);
        Ok(Response::from_parts(head, ()))
    }

    /// Waits for the answer's head and returns its status.
    pub fn status(&mut self) -> Received<u16> {
        self.head().map(|head| head.status().as_u16())
    }

    /// Waits for the answer's next bytes; `None` at its end.
    pub fn data(&mut self) -> Received<Option<Bytes>> {
        let receiving = self.receiving.as_mut().expect("the head has come");
        let data = wait(receiving.data()).transpose();
        let data = data.map_err(|error| reason(&error))?;
        let bytes = data.as_ref().map_or(0, Bytes::len);
        let released = receiving.flow_control().release_capacity(bytes);
        released.expect("as much as has come");
        Ok(data)
    }

    /// Reads at least `length` bytes, or to the end.
    pub fn take(&mut self, length: usize) -> Received<Vec<u8>> {
        let mut taken = Vec::new();
        while taken.len() < length
            && let Some(data) = self.data()?
        {
            taken.extend_from_slice(&data);
        }
        Ok(taken)
    }

    /// Reads the answer's body to its end.
    pub fn rest(&mut self) -> Received<Vec<u8>> {
        self.take(usize::MAX)
    }

    /// Waits for the answer's trailers.
    pub fn trailers(&mut self) -> Received<Option<HeaderMap>> {
        let receiving = self.receiving.as_mut().expect("the head has come");
        wait(receiving.trailers()).map_err(|error| reason(&error))
    }

    /// Sends a piece of the request's body; h2 holds it until the window has room.
    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        let sent = self.sending.send_data(Bytes::copy_from_slice(bytes), false);
        sent.expect("the stream is open");
    }

    /// Ends the request's body.
    #[track_caller]
    pub fn finish(&mut self) {
        let sent = self.sending.send_data(Bytes::new(), true);
        sent.expect("the stream is open");
    }

    /// Ends the request's body with trailers.
    #[track_caller]
    pub fn finish_with(&mut self, trailers: HeaderMap) {
        let sent = self.sending.send_trailers(trailers);
        sent.expect("the stream is open");
    }

    /// Waits until the gateway asks for the body (100 Continue).
    pub fn asked_to_go_on(&mut self) {
        let interim = self.interim().expect("an interim answer");
        assert_eq!(interim.status(), 100);
    }

    /// Waits for the next interim answer; `None` if the final head has come.
    pub fn interim(&mut self) -> Option<Response<()>> {
        let answer = self.answer.as_mut().expect("the head has not been read");
        let interim = wait(std::future::poll_fn(|cx| answer.poll_informational(cx)));
        interim.map(|interim| interim.expect("no reset"))
    }

    /// Cancels the request.
    pub fn cancel(mut self) {
        self.sending.send_reset(Reason::CANCEL);
    }
}

/// Returns a request to `a.test`.
pub fn request(method: Method, path: &str) -> Request<()> {
    let request = Request::builder().method(method);
    let request = request.uri(format!("http://a.test{path}"));
    request.body(()).expect("a good request")
}

fn reason(error: &h2::Error) -> Reason {
    error.reason().unwrap_or_else(|| panic!("{error}"))
}

fn wait<F: Future>(future: F) -> F::Output {
    let done = runtime().block_on(async { tokio::time::timeout(PATIENCE, future).await });
    done.expect("an event in time")
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}
