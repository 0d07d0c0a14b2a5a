//! The bytes that origins send, made from the plan.

use super::plan::{AnswerFraming, DOWN, Exchange, Surplus, content};
use crate::support::Draws;

/// Returns all bytes of an answer, including its interim answers.
pub fn answer(exchange: &Exchange, draws: &mut Draws) -> Vec<u8> {
    let (nonce, script) = (exchange.nonce, &exchange.script);
    let interim: String = (0..script.interim)
        .map(|_| draws.one_of(&INTERIM))
        .collect();
    let framing = match script.framing {
        _ if script.status == 204 => String::new(),
        AnswerFraming::Length => format!("content-length: {}\r\n", script.bytes),
        AnswerFraming::Chunked => "transfer-encoding: chunked\r\n".into(),
        AnswerFraming::ChunkedWithTrailers => {
            "trailer: x-sum\r\ntransfer-encoding: chunked\r\n".into()
        }
        AnswerFraming::Close => String::new(),
    };
    let close = if script.says_close {
        "connection: close\r\n"
    } else {
        ""
    };
    let start = format!("HTTP/1.1 {} Said\r\nx-nonce: {nonce}\r\n", script.status);
    let mut bytes = [&*interim, &start, &framing, close, "\r\n"]
        .concat()
        .into_bytes();
    let body = content(DOWN, nonce, script.bytes);
    match script.framing {
        _ if exchange.is_bodiless() => {}
        AnswerFraming::Length | AnswerFraming::Close => bytes.extend(body),
        AnswerFraming::Chunked => {
            chunk(&mut bytes, &body, draws);
            bytes.extend(b"0\r\n\r\n");
        }
        AnswerFraming::ChunkedWithTrailers => {
            chunk(&mut bytes, &body, draws);
            bytes.extend(format!("0\r\nx-sum: {nonce}\r\n\r\n").bytes());
        }
    }
    bytes
}

/// Appends `body` in chunks, without the last chunk, which is empty.
fn chunk(bytes: &mut Vec<u8>, mut body: &[u8], draws: &mut Draws) {
    let size_max = draws.one_of(&[10, 1000, 50_000]);
    let size_min = body.len() / 1000;
    while !body.is_empty() {
        let size = (1 + size_min + draws.below(size_max)).min(body.len());
        let (piece, rest) = body.split_at(size);
        let extension = draws.one_of(&["", "", ";a", "; a=\"b;\\\"\""]);
        bytes.extend(format!("{size:x}{extension}\r\n").bytes());
        bytes.extend(piece);
        bytes.extend(b"\r\n");
        body = rest;
    }
}

/// Returns the bytes that follow an answer.
pub fn surplus(surplus: Surplus) -> &'static [u8] {
    match surplus {
        Surplus::None => b"",
        Surplus::Byte => b"H",
        Surplus::Answer => b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nx-nonce: poison\r\n\r\npoison",
        Surplus::InterimAndAnswer => {
            b"HTTP/1.1 100 Continue\r\n\r\n\
              HTTP/1.1 200 OK\r\ncontent-length: 6\r\nx-nonce: poison\r\n\r\npoison"
        }
    }
}

const INTERIM: [&str; 3] = [
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 102 Processing\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nx-nonce: interim\r\n\r\n",
];
