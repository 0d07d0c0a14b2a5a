//! An origin that answers as the providers of models do.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::{After, Origin};

/// Tokens that the model reads for every answer, and tokens that it writes.
pub const PROMPT: i64 = 120;
pub const ANSWER: i64 = 300;
pub const TOTAL: i64 = PROMPT + ANSWER;

/// Returns a model's answer to that request: `stream` in the body asks for events, and `fail` for an error.
pub fn model(target: &str, body: &[u8]) -> (u16, &'static str, String) {
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    if asked.get("fail").is_some() {
        return (
            400,
            "application/json",
            json!({ "error": { "message": "No" } }).to_string(),
        );
    }
    if asked.get("overloaded").is_some() {
        let error = json!({ "type": "error", "error": { "message": "Overloaded" } });
        return (
            200,
            "text/event-stream",
            format!("event: error\ndata: {error}\n\n"),
        );
    }
    let is_stream = asked["stream"] == true || target.contains("streamGenerateContent");
    let shape = match target {
        "/v1/responses" => openai_responses,
        "/v1/messages" => anthropic,
        target if target.starts_with("/v1beta/") => gemini,
        _ => openai_chat,
    };
    let messages = shape(is_stream, &asked);
    if !is_stream {
        return (200, "application/json", messages[0].to_string());
    }
    if target.ends_with(":streamGenerateContent") {
        return (200, "application/json", Value::from(messages).to_string());
    }
    let mut stream = String::new();
    for message in messages {
        if let Some(name) = message["type"].as_str() {
            writeln!(stream, "event: {name}").expect("memory takes every byte");
        }
        write!(stream, "data: {message}\r\n\r\n").expect("memory takes every byte");
    }
    if target.ends_with("/chat/completions") {
        stream.push_str("data: [DONE]\n\n");
    }
    (200, "text/event-stream", stream)
}

fn openai_chat(is_stream: bool, asked: &Value) -> Vec<Value> {
    let usage = json!({
        "prompt_tokens": PROMPT, "completion_tokens": ANSWER, "total_tokens": TOTAL,
        "prompt_tokens_details": { "cached_tokens": 80, "audio_tokens": 0 },
    });
    if !is_stream {
        let message = json!({ "role": "assistant", "content": "{\"usage\":{\"total_tokens\":1}}" });
        return vec![json!({
            "id": "c-1", "object": "chat.completion", "usage": usage,
            "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        })];
    }
    let mut chunks: Vec<_> = ["Hello", " you"]
        .map(|text| {
            json!({
                "id": "c-1", "object": "chat.completion.chunk", "usage": null,
                "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": null }],
            })
        })
        .into();
    if asked["stream_options"]["include_usage"] == true {
        chunks.push(json!({
            "id": "c-1", "object": "chat.completion.chunk", "choices": [], "usage": usage,
        }));
    }
    chunks
}

fn openai_responses(is_stream: bool, _: &Value) -> Vec<Value> {
    let whole = json!({
        "id": "r-1", "object": "response", "status": "completed",
        "usage": { "input_tokens": PROMPT, "output_tokens": ANSWER, "total_tokens": TOTAL },
    });
    if !is_stream {
        return vec![whole];
    }
    vec![
        json!({
            "type": "response.created", "sequence_number": 0,
            "response": { "id": "r-1", "status": "in_progress", "usage": null },
        }),
        json!({ "type": "response.output_text.delta", "sequence_number": 1, "delta": "Hello" }),
        json!({ "type": "response.completed", "sequence_number": 2, "response": whole }),
    ]
}

fn anthropic(is_stream: bool, _: &Value) -> Vec<Value> {
    let message = |written: i64| {
        json!({
            "id": "m-1", "type": "message", "role": "assistant", "content": [],
            "usage": {
                "input_tokens": PROMPT - 50, "cache_read_input_tokens": 50, "output_tokens": written,
            },
        })
    };
    if !is_stream {
        return vec![message(ANSWER)];
    }
    let delta = json!({ "type": "text_delta", "text": "Hello" });
    vec![
        json!({ "type": "message_start", "message": message(1) }),
        json!({ "type": "ping" }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({
            "type": "message_delta", "delta": { "stop_reason": "end_turn" },
            "usage": { "output_tokens": ANSWER },
        }),
        json!({ "type": "message_stop" }),
    ]
}

fn gemini(is_stream: bool, _: &Value) -> Vec<Value> {
    let message = |written: i64| {
        json!({
            "candidates": [{ "content": { "role": "model", "parts": [{ "text": "Hello" }] } }],
            "usageMetadata": { "promptTokenCount": PROMPT, "totalTokenCount": PROMPT + written },
        })
    };
    let written = if is_stream {
        vec![7, 80, ANSWER]
    } else {
        vec![ANSWER]
    };
    written.into_iter().map(message).collect()
}

/// An origin that answers as [`model`] does, in chunks.
pub fn provider() -> Origin {
    Origin::scripted(|exchange| {
        exchange.read_body()?;
        let (status, content_type, body) = model(exchange.target(), &exchange.body());
        let mut answer = format!(
            "HTTP/1.1 {status} x\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        for piece in body.as_bytes().chunks(50).map(String::from_utf8_lossy) {
            write!(answer, "{:x}\r\n{piece}\r\n", piece.len()).expect("memory takes every byte");
        }
        exchange.write(answer + "0\r\n\r\n")?;
        Ok(After::Keep)
    })
}
