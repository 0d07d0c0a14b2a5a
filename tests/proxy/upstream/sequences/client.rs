//! A client: how it sends its request, and how it checks the answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tollgate::proxy::upstream::UpstreamBody;

use super::super::harness::{BoxError, Gateway, TestBody, request};
use super::plan::{
    AnswerFraming, DOWN, Exchange, Leaves, UP, Upload, UploadEnd, UploadFraming, content,
};
use super::turns;
use crate::support::Draws;

/// How an exchange ended for its client.
#[derive(Debug)]
pub enum Outcome {
    /// The client left before the end.
    Left,
    /// The client got an error, in place of an answer or within one.
    Error(String),
    /// The client got a whole answer, which was its own.
    Whole,
}

/// Sends a request and takes its answer; fails the test if that belongs to another, or is cut short without an error.
pub async fn ask(gateway: &Gateway, exchange: &Exchange) -> Outcome {
    turns(exchange.client.pause).await;
    let body = UploadBody::new(exchange).boxed_unsync();
    let sent = gateway.send(asked(exchange, body));
    let answer = match exchange.client.leaves {
        Leaves::Turns(count) => tokio::select! {
            biased;
            answer = sent => answer,
            () = turns(count) => return Outcome::Left,
        },
        Leaves::Never | Leaves::Frames(_) => sent.await,
    };
    match answer {
        Ok(response) => take(exchange, response).await,
        Err(error) => Outcome::Error(format!("{error:?}")),
    }
}

fn asked(exchange: &Exchange, body: TestBody) -> http::Request<TestBody> {
    let mut asked = request(exchange.method, &format!("/{}", exchange.nonce), body);
    if exchange.upload.framing == UploadFraming::ChunkedWithTrailers {
        let trailer = HeaderValue::from_static("x-sum");
        asked.headers_mut().insert("trailer", trailer);
    }
    asked
}

async fn take(exchange: &Exchange, response: Response<UpstreamBody>) -> Outcome {
    let (nonce, script) = (exchange.nonce, &exchange.script);
    let field = |name| {
        let value: Option<&HeaderValue> = response.headers().get(name);
        value.map(|value| value.to_str().expect("text").to_owned())
    };
    assert_eq!(
        field("x-nonce"),
        Some(nonce.to_string()),
        "the answer to {nonce}"
    );
    assert_eq!(response.status(), script.status, "the status of {nonce}");
    let length = (script.framing == AnswerFraming::Length && script.status != 204)
        .then(|| script.bytes.to_string());
    assert_eq!(field("content-length"), length, "the length of {nonce}");
    let bytes = if exchange.is_bodiless() {
        0
    } else {
        script.bytes
    };
    let expected = content(DOWN, nonce, bytes);
    let mut body = response.into_body();
    let (mut taken, mut sum) = (0, None);
    for frames in 0.. {
        if exchange.client.leaves == Leaves::Frames(frames) {
            return Outcome::Left;
        }
        turns(exchange.client.pace).await;
        match body.frame().await {
            None => break,
            Some(Err(error)) => return Outcome::Error(format!("{error:?}")),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    let is_own = expected[taken..].starts_with(&data);
                    assert!(is_own, "the body of {nonce} from {taken}: {data:?}");
                    taken += data.len();
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().ok();
                    sum = trailers.and_then(|mut trailer| trailer.remove("x-sum"));
                }
            },
        }
    }
    assert_eq!(taken, bytes, "{nonce} is cut short and looks whole");
    let has_trailers =
        script.framing == AnswerFraming::ChunkedWithTrailers && !exchange.is_bodiless();
    assert_eq!(
        sum,
        has_trailers.then(|| nonce.into()),
        "the trailers of {nonce}"
    );
    Outcome::Whole
}

/// The body of a request, in pieces that are not always ready when polled.
struct UploadBody {
    nonce: usize,
    framing: UploadFraming,
    end: UploadEnd,
    /// Bytes that are still to be sent.
    rest: Bytes,
    /// How many bytes of `rest` fit into the announced length.
    announced: usize,
    piece_max: usize,
    /// How many polls in a hundred are pending.
    pending: usize,
    draws: Draws,
}

impl UploadBody {
    fn new(exchange: &Exchange) -> Self {
        let Upload {
            framing,
            bytes,
            end,
        } = exchange.upload;
        let given = match end {
            UploadEnd::Whole => bytes,
            UploadEnd::Short | UploadEnd::Broken => bytes / 2,
            UploadEnd::Long => bytes + 100,
        };
        let mut draws = exchange.draws;
        Self {
            nonce: exchange.nonce,
            framing,
            end,
            rest: content(UP, exchange.nonce, given).into(),
            announced: bytes,
            // Bounds the number of pieces, because a long body in tiny ones would only take long.
            piece_max: given / 50 + draws.one_of(&[1, 100, 20_000, 1 << 20]),
            pending: draws.one_of(&[0, 30, 30, 30, 90]),
            draws,
        }
    }

    fn last(&mut self) -> Option<Result<Frame<Bytes>, BoxError>> {
        if self.end == UploadEnd::Broken {
            return Some(Err("broken off".into()));
        }
        if std::mem::replace(&mut self.framing, UploadFraming::None)
            != UploadFraming::ChunkedWithTrailers
        {
            return None;
        }
        let sum = [("x-sum".parse().expect("a name"), self.nonce.into())];
        Some(Ok(Frame::trailers(HeaderMap::from_iter(sum))))
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.framing != UploadFraming::None && self.draws.below(100) < self.pending {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.rest.is_empty() {
            return Poll::Ready(self.last());
        }
        let piece_max = self.piece_max;
        let mut piece = (1 + self.draws.below(piece_max)).min(self.rest.len());
        if self.end == UploadEnd::Long && piece >= self.announced {
            // The bytes beyond the announced length come in one piece with the last ones within it.
            piece = self.rest.len();
        }
        self.announced = self.announced.saturating_sub(piece);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        match self.framing {
            UploadFraming::None => true,
            UploadFraming::Length => self.announced == 0,
            UploadFraming::Chunked | UploadFraming::ChunkedWithTrailers => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self.framing {
            UploadFraming::None => SizeHint::with_exact(0),
            UploadFraming::Length => SizeHint::with_exact(self.announced as u64),
            UploadFraming::Chunked | UploadFraming::ChunkedWithTrailers => SizeHint::default(),
        }
    }
}
