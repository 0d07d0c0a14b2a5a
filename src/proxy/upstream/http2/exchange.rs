//! A request and its response, until the head of the response has come.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::RecvStream;
use h2::client::ResponseFuture;
use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::uri::Scheme;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};

use super::FIELDS_MAX;
use super::connection::Slot;
use super::error::StreamError;
use super::receiving::{BodyLength, Http2Receiving};
use super::request;
use super::sending::Http2Sending;
use crate::proxy::upstream::http1::{
    BadHead, ExchangeError, INTERIM_BYTES_MAX, INTERIM_MAX, Repeat, parse_length, send_interim,
};
use crate::proxy::upstream::origin_deadline::OriginDeadline;
use crate::proxy::upstream::upload::Upload;
use crate::proxy::wire::body::UploadBody;
use crate::proxy::wire::outgoing::Outgoing;
use crate::request::are_tokens;
use crate::request::hop_by_hop::remove_hop_by_hop;

/// Why a request got no head of a response.
pub type Http2Error = ExchangeError<StreamError>;

impl Slot {
    /// Sends `request` to `host` and waits at most `timeout` for the head of its response. Time in
    /// which the client owes bytes of the request's body does not count. `is_sent` is set when the
    /// origin may have seen some of the request.
    pub async fn exchange<B: UploadBody>(
        self,
        request: &mut Outgoing<B>,
        (host, scheme): (&HeaderValue, &Scheme),
        due: Rc<OriginDeadline>,
        timeout: Duration,
        is_sent: &Cell<bool>,
    ) -> Result<Response<Http2Receiving>, Http2Error> {
        let head = request::head(&request.head, host, scheme);
        let framing = request.head.framing;
        let sent = self.send(head, !framing.has_content());
        let (response, stream) = sent.map_err(|error| Http2Error::Ended {
            error,
            repeat: Repeat::Unwritten,
        })?;
        let was_sent = is_sent.replace(true);
        due.begin(timeout);
        let mut round_trip = Http2RoundTrip {
            slot: &self,
            request,
            response,
            sending: Http2Sending::new(stream, framing),
            due: &due,
            timeout,
            interim: 0,
            interim_bytes: 0,
        };
        let answered = poll_fn(|cx| round_trip.poll(cx)).await;
        let mut sending = round_trip.sending;
        due.answered();
        if matches!(&answered, Err(error) if error.repeat() == Repeat::Unprocessed) {
            is_sent.set(was_sent);
        }
        if matches!(&answered, Err(Http2Error::Elapsed)) && sending.is_stalled() {
            // Another stream may have used up the connection's window, which then has no room for any upload.
            self.retire();
        }
        let response = answered?;
        let upload = request.body().take().filter(|_| !sending.has_ended());
        let upload = upload.map(|mut body| {
            let due = Rc::clone(&due);
            Upload::spawn(async move { poll_fn(|cx| sending.poll(&mut body, &due, cx)).await })
        });
        let (mut head, stream) = response.into_parts();
        let length = length(&request.head.method, &mut head, &stream);
        let length = length.map_err(Http2Error::BadHead)?;
        let mut response = Response::new(Http2Receiving::new(self, stream, length, upload, due));
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Ok(response)
    }
}

/// A request and its response, until the head of the response has come.
struct Http2RoundTrip<'e, B> {
    slot: &'e Slot,
    request: &'e mut Outgoing<B>,
    response: ResponseFuture,
    sending: Http2Sending,
    due: &'e OriginDeadline,
    timeout: Duration,
    /// Interim responses so far, and in the next field their bytes.
    interim: u32,
    interim_bytes: usize,
}

impl<B: UploadBody> Http2RoundTrip<'_, B> {
    /// Sends what can be sent, and looks for the head of the response.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<RecvStream>, Http2Error>> {
        if let Some(body) = self.request.body()
            && let Poll::Ready(Err(error)) = self.sending.poll(body, self.due, cx)
        {
            return Poll::Ready(Err(Http2Error::Body(error)));
        }
        while let Poll::Ready(Some(Ok(interim))) = self.response.poll_informational(cx) {
            if let Err(bad) = self.pass_interim(interim) {
                return Poll::Ready(Err(Http2Error::BadHead(bad)));
            }
        }
        if let Poll::Ready(answered) = Pin::new(&mut self.response).poll(cx) {
            return Poll::Ready(answered.map_err(|error| self.ended(error)));
        }
        let over = self.due.poll_over(Some(self.timeout), cx);
        over.map(|()| Err(Http2Error::Elapsed))
    }

    /// Passes an interim response to the request's sink, if it has one.
    fn pass_interim(&mut self, interim: Response<()>) -> Result<(), BadHead> {
        let (mut head, ()) = interim.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(BadHead::Upgrade);
        }
        if !are_tokens(&head.headers) {
            return Err(BadHead::Malformed);
        }
        let bytes = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
        self.interim += 1;
        self.interim_bytes += head.headers.iter().map(bytes).sum::<usize>();
        if self.interim > INTERIM_MAX || self.interim_bytes > INTERIM_BYTES_MAX {
            return Err(BadHead::Interim);
        }
        if let Some(sink) = &self.request.interim {
            remove_hop_by_hop(&mut head.headers);
            head.headers.remove(CONTENT_LENGTH);
            send_interim(&**sink, head.status, head.headers);
        }
        Ok(())
    }

    /// Returns the error for an end without a response, and whether the request may be sent again.
    fn ended(&self, error: h2::Error) -> Http2Error {
        let error = match self.slot.ended(error) {
            StreamError::TooLarge => return Http2Error::BadHead(BadHead::TooLarge),
            error => error,
        };
        let repeat = if error.is_unprocessed() && !self.sending.has_begun() {
            Repeat::Unprocessed
        } else if error.is_loss() && self.request.is_idempotent() {
            Repeat::Idempotent
        } else {
            Repeat::Never
        };
        Http2Error::Ended { error, repeat }
    }
}

/// Returns the length of a response's body, or refuses a head that HTTP/1.1 would refuse. Removes the
/// fields that are not for the client.
fn length(method: &Method, head: &mut Parts, stream: &RecvStream) -> Result<BodyLength, BadHead> {
    if head.headers.len() > FIELDS_MAX {
        return Err(BadHead::TooLarge);
    }
    if !are_tokens(&head.headers) {
        return Err(BadHead::Malformed);
    }
    remove_hop_by_hop(&mut head.headers);
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    let stated = match (lengths.next(), lengths.next()) {
        (None, _) => None,
        (Some(length), None) => Some(parse_length(length)?),
        _ => return Err(BadHead::Framing),
    };
    if head.status == StatusCode::NO_CONTENT {
        // RFC 9110, section 8.6, forbids Content-Length in a 204.
        head.headers.remove(CONTENT_LENGTH);
    } else if let Some(bytes) = stated {
        // The number is written anew, because some clients read a leading zero as octal.
        head.headers
            .insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    let has_none = *method == Method::HEAD
        || matches!(
            head.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
    Ok(match stated {
        _ if has_none => BodyLength::None,
        Some(bytes) => BodyLength::Known(bytes),
        None if stream.is_end_stream() => BodyLength::Known(0),
        None => BodyLength::Unknown,
    })
}
