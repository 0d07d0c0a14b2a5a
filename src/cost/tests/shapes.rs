//! The answers of the APIs whose tokens are counted.

use super::super::BodyFormat::{self, EventStream, Json};
use super::{read, reported};

#[test]
fn the_usage_of_each_api_is_found_in_documents_and_streams() {
    for (name, pointers, format, body, numbers) in CASES {
        assert_eq!(
            read(pointers, *format, body),
            reported(numbers, true),
            "{name}"
        );
    }
}

#[test]
fn a_decoy_in_what_a_model_says_does_not_count() {
    let body = r#"{"choices":[{"message":{"role":"assistant",
        "content":"{\"usage\":{\"total_tokens\":999}}, \"usage\": {\"total_tokens\": 999}",
        "usage":{"total_tokens":999}}}],"x":{"usage":{"total_tokens":999}},
        "usage":{"prompt":{"total_tokens":999},"total_tokens":12}}"#;
    assert_eq!(
        read("/usage/total_tokens", Json, body),
        reported("12", true)
    );
    let stream = "data: {\"delta\":\"\\n\\ndata: {\\\"usage\\\":{\\\"total_tokens\\\":999}}\\n\\n\"}\n\n\
        data: {\"usage\":{\"total_tokens\":12}}\n\ndata: [DONE]\n\n";
    assert_eq!(
        read("/usage/total_tokens", EventStream, stream),
        reported("12", true)
    );
}

type Case = (
    &'static str,
    &'static str,
    BodyFormat,
    &'static str,
    &'static str,
);

const CASES: &[Case] = &[
    (
        "OpenAI chat completion",
        "/usage/prompt_tokens /usage/completion_tokens /usage/prompt_tokens_details/cached_tokens",
        Json,
        r#"{"id":"c-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi \"you\" \u00e9","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0}}}"#,
        "19 10 4",
    ),
    (
        "OpenAI chat completion as a stream",
        "/usage/total_tokens",
        EventStream,
        "data: {\"id\":\"c-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\ndata: {\"id\":\"c-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29}}\n\ndata: [DONE]\n\n",
        "29",
    ),
    (
        "OpenAI response",
        "/usage/input_tokens /usage/output_tokens",
        Json,
        r#"{"id":"r-1","object":"response","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":0},"output_tokens":87,"total_tokens":123}}"#,
        "36 87",
    ),
    (
        "OpenAI response as a stream",
        "/response/usage/total_tokens",
        EventStream,
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r-1\",\"usage\":null}}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r-1\",\"usage\":{\"total_tokens\":123}}}\n\n",
        "123",
    ),
    (
        "Anthropic message as a stream",
        "/message/usage/input_tokens /usage/output_tokens /message/usage/output_tokens",
        EventStream,
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m-1\",\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        "25 15 1",
    ),
    (
        "Gemini as an array",
        "/usageMetadata/totalTokenCount",
        Json,
        "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}]}}],\"usageMetadata\":{\"totalTokenCount\":8}}\n,\r\n{\"candidates\":[],\"usageMetadata\":{\"promptTokenCount\":4,\"totalTokenCount\":31}}\n]\n",
        "31",
    ),
    (
        "Gemini as a stream",
        "/usageMetadata/totalTokenCount",
        EventStream,
        "data: {\"candidates\":[],\"usageMetadata\":{\"totalTokenCount\":8}}\r\n\r\ndata: {\"candidates\":[],\"usageMetadata\":{\"totalTokenCount\":31}}\r\n\r\n",
        "31",
    ),
];
