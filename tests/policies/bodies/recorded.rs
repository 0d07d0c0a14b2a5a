//! Answers as providers send them, shortened (`tests/policies/bodies/recorded`): what each costs, and why.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate::config::load;
use tollgate::cost::{
    BodyCost, BodyFormat, Decimal, MissingCost, NumberIndex, NumberReader, Numbers, PriceRow,
};
use tollgate::limit::plan::SeriesId;
use tollgate::snapshot::RouteBodies;

use super::{Reply, cut, origin};
use crate::support::{After, Client, Config, Process};

/// A recorded answer.
struct Recorded {
    file: &'static str,
    content_type: Option<&'static str>,
    /// Fields besides.
    fields: &'static str,
    framing: Framing,
    terms: Terms,
    /// `response_format` and `stream_end`.
    route: &'static str,
    cost: u64,
    reason: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Framing {
    Chunked,
    Length,
    /// HTTP/1.1 and HTTP/1.0, ended by the connection's end.
    Close11,
    Close10,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Terms {
    Chat,
    Responses,
    Messages,
    /// The same, of whose inputs the last counts.
    MessagesLast,
    Gemini,
    Cohere,
    Ollama,
}

const RESERVE: u64 = 1000;

const UNKNOWN: u64 = 2000;

impl Terms {
    fn policy(self) -> String {
        let input = |key: &str, more: &str| {
            format!(
                "{{ from = 'response-json:/usage/{key} | /message/usage/{key} | /usage/iterations/*/{key}'{more} }}"
            )
        };
        let messages = |take: &str| {
            let inputs = [
                input("input_tokens", take),
                input("cache_creation_input_tokens", &format!(", or = 0{take}")),
                input("cache_read_input_tokens", &format!(", or = 0{take}")),
            ];
            format!("[{}, {}]", inputs.join(", "), input("output_tokens", ""))
        };
        let cost = match self {
            Self::Chat => "'response-json:/usage/total_tokens'".to_owned(),
            Self::Responses => {
                "'response-json:/usage/total_tokens | /response/usage/total_tokens'".to_owned()
            }
            Self::Messages => messages(""),
            Self::MessagesLast => messages(", take = 'last'"),
            Self::Gemini => {
                "[{ from = 'response-json:/usageMetadata/totalTokenCount', take = 'last' }]"
                    .to_owned()
            }
            Self::Cohere => "['response-json:/delta/usage/tokens/input_tokens', \
                 'response-json:/delta/usage/tokens/output_tokens']"
                .to_owned(),
            Self::Ollama => {
                "['response-json:/prompt_eval_count', 'response-json:/eval_count']".to_owned()
            }
        };
        format!(
            "quota = '1000000000 per hour'\npartition = []\ncost = {cost}\nreserve = {RESERVE}\n\
             cost_unknown = {UNKNOWN}\nrefund_on = ['response-json:/error']"
        )
    }
}

const STREAM: Option<&str> = Some("text/event-stream");

const JSON: Option<&str> = Some("application/json");

const UTF8_JSON: Option<&str> = Some("application/json; charset=UTF-8");

const CHAT: Recorded = Recorded {
    file: "oa-stream.sse",
    content_type: STREAM,
    fields: "",
    framing: Framing::Chunked,
    terms: Terms::Chat,
    route: "",
    cost: 29,
    reason: None,
};

/// A row with the most frequent fields.
fn row(
    file: &'static str,
    content_type: Option<&'static str>,
    terms: Terms,
    cost: u64,
) -> Recorded {
    Recorded {
        file,
        content_type,
        terms,
        cost,
        ..CHAT
    }
}

fn table() -> Vec<Recorded> {
    let as_json = "response_format = 'json'";
    let as_stream = "response_format = 'event-stream'";
    vec![
        row("an-error-first.sse", STREAM, Terms::Messages, 0),
        row("an-error-mid.sse", STREAM, Terms::Messages, 26),
        row("an-inclusive.sse", STREAM, Terms::Messages, 7658),
        row(
            "an-start-total-delta-split.sse",
            STREAM,
            Terms::MessagesLast,
            3946,
        ),
        row("an-stream-cumulative.sse", STREAM, Terms::Messages, 74),
        row("an-websearch.sse", STREAM, Terms::Messages, 11192),
        Recorded {
            framing: Framing::Length,
            ..row("anthropic-compaction.json", JSON, Terms::Messages, 55561)
        },
        Recorded {
            framing: Framing::Length,
            ..row("anthropic-skill.json", JSON, Terms::Messages, 964_504)
        },
        Recorded {
            framing: Framing::Close11,
            ..row("close-sse.sse", STREAM, Terms::Chat, 29)
        },
        row("cohere-v2.sse", STREAM, Terms::Cohere, 25),
        Recorded {
            fields: "Content-Encoding: \r\n",
            ..row("empty-content-encoding.sse", STREAM, Terms::Chat, 29)
        },
        Recorded {
            reason: Some("no_number"),
            ..row("error-mid-stream.sse", STREAM, Terms::Chat, UNKNOWN)
        },
        row("error-only-stream.sse", STREAM, Terms::Chat, 0),
        row("ge-array.json", UTF8_JSON, Terms::Gemini, 29),
        row("ge-json.json", UTF8_JSON, Terms::Gemini, 410),
        Recorded {
            framing: Framing::Close10,
            ..row("http10-close-json.json", JSON, Terms::Chat, 29)
        },
        Recorded {
            route: as_json,
            ..row("json-as-sse-type.sse", STREAM, Terms::Chat, 29)
        },
        Recorded {
            route: as_json,
            ..row("json-no-type.bin", None, Terms::Chat, 29)
        },
        row("mistral.sse", STREAM, Terms::Chat, 29),
        row("nan-top.json", JSON, Terms::Chat, 29),
        Recorded {
            reason: Some("no_number"),
            ..row("oa-stream-nousage.sse", STREAM, Terms::Chat, UNKNOWN)
        },
        row("oa-stream.sse", STREAM, Terms::Chat, 29),
        row(
            "ollama-ndjson.bin",
            Some("application/x-ndjson"),
            Terms::Ollama,
            308,
        ),
        row("re-completed.sse", STREAM, Terms::Responses, 48),
        row("re-failed-usage.sse", STREAM, Terms::Responses, 48),
        Recorded {
            route: as_stream,
            ..row("sse-as-json-type.json", JSON, Terms::Chat, 29)
        },
        Recorded {
            route: as_stream,
            ..row(
                "sse-as-text-plain.bin",
                Some("text/plain; charset=utf-8"),
                Terms::Chat,
                29,
            )
        },
        Recorded {
            route: as_stream,
            ..row("sse-no-type.bin", None, Terms::Chat, 29)
        },
        Recorded {
            reason: Some("malformed"),
            ..row("trailing-garbage.json", JSON, Terms::Chat, UNKNOWN)
        },
        Recorded {
            fields: "Content-Type: application/json\r\n",
            ..row("two-ctypes.json", JSON, Terms::Chat, 29)
        },
    ]
}

/// Rows beside the recorded ones: the same answers with other types and ends.
fn variations() -> Vec<Recorded> {
    let closed = |file, content_type, terms, cost| Recorded {
        framing: Framing::Close11,
        ..row(file, content_type, terms, cost)
    };
    vec![
        Recorded {
            reason: Some("content_type"),
            ..row(
                "sse-as-text-plain.bin",
                Some("text/plain"),
                Terms::Chat,
                UNKNOWN,
            )
        },
        Recorded {
            reason: Some("content_type"),
            ..row("sse-no-type.bin", None, Terms::Chat, UNKNOWN)
        },
        Recorded {
            reason: Some("malformed"),
            ..row("sse-as-json-type.json", JSON, Terms::Chat, UNKNOWN)
        },
        Recorded {
            fields: "Content-Type: text/html\r\n",
            ..row("two-ctypes.json", JSON, Terms::Chat, 29)
        },
        Recorded {
            fields: "Content-Type: application/json\r\n",
            reason: Some("content_type"),
            ..row("two-ctypes.json", Some("text/html"), Terms::Chat, UNKNOWN)
        },
        Recorded {
            fields: "Content-Encoding: UTF-8, identity\r\n",
            ..row("oa-stream.sse", STREAM, Terms::Chat, 29)
        },
        Recorded {
            fields: "Content-Encoding: utf-8, gzip\r\n",
            reason: Some("compressed"),
            ..row("oa-stream.sse", STREAM, Terms::Chat, UNKNOWN)
        },
        closed(
            "ollama-ndjson.bin",
            Some("application/x-ndjson"),
            Terms::Ollama,
            308,
        ),
        closed("ge-array.json", UTF8_JSON, Terms::Gemini, 29),
        Recorded {
            route: "stream_end = 'message_stop'",
            ..closed("an-inclusive.sse", STREAM, Terms::Messages, 7658)
        },
        Recorded {
            reason: Some("cut"),
            ..closed("an-inclusive.sse", STREAM, Terms::Messages, 7658)
        },
        Recorded {
            route: "stream_end = 'response.completed'",
            ..closed("re-completed.sse", STREAM, Terms::Responses, 48)
        },
        Recorded {
            reason: Some("cut"),
            ..closed("re-completed.sse", STREAM, Terms::Responses, UNKNOWN)
        },
        Recorded {
            reason: Some("cut"),
            ..closed("trailing-garbage.json", JSON, Terms::Chat, UNKNOWN)
        },
        closed("an-error-first.sse", STREAM, Terms::Messages, 0),
    ]
}

impl Recorded {
    fn body(&self) -> Vec<u8> {
        fs::read(format!("tests/policies/bodies/recorded/{}", self.file)).expect(self.file)
    }

    /// Returns the answer whose body comes in these pieces.
    fn reply(&self, pieces: &[&[u8]]) -> Reply {
        let version = if self.framing == Framing::Close10 {
            "1.0"
        } else {
            "1.1"
        };
        let mut head = format!("HTTP/{version} 200 OK\r\n{}", self.framing.field(pieces));
        if let Some(content_type) = self.content_type {
            head.extend(["Content-Type: ", content_type, "\r\n"]);
        }
        let mut bytes = format!("{head}{}\r\n", self.fields).into_bytes();
        for piece in pieces {
            if self.framing == Framing::Chunked {
                bytes.extend(format!("{:x}\r\n", piece.len()).into_bytes());
                bytes.extend_from_slice(&[piece, &b"\r\n"[..]].concat());
            } else {
                bytes.extend_from_slice(piece);
            }
        }
        if self.framing == Framing::Chunked {
            bytes.extend_from_slice(b"0\r\n\r\n");
        }
        let after = After::Keep;
        let reply = Reply { bytes, after };
        match self.framing {
            Framing::Chunked | Framing::Length => reply,
            Framing::Close11 | Framing::Close10 => cut(reply),
        }
    }

    fn config(config: Config, rows: &[Self]) -> Config {
        let routes = (0..).zip(rows);
        routes.fold(config, |config, (at, row)| {
            let name = format!("p{at}");
            let lines = format!("policies = ['{name}']\n{}", row.route);
            config
                .policy(&name, &row.terms.policy())
                .route(&format!("/{at}"), &lines)
        })
    }
}

impl Framing {
    fn field(self, pieces: &[&[u8]]) -> String {
        match self {
            Self::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
            Self::Length => {
                let length: usize = pieces.iter().map(|piece| piece.len()).sum();
                format!("Content-Length: {length}\r\n")
            }
            Self::Close11 => "Connection: close\r\n".to_owned(),
            Self::Close10 => String::new(),
        }
    }
}

#[test]
fn each_recorded_answer_costs_what_it_told_in_pieces_of_any_size() {
    let rows: Vec<_> = table().into_iter().chain(variations()).collect();
    let bodies: Vec<_> = rows.iter().map(Recorded::body).collect();
    for size in [1, 7, usize::MAX] {
        let replies = (0..)
            .zip(rows.iter().zip(&bodies))
            .map(|(at, (row, body))| {
                let pieces: Vec<_> = body.chunks(size).collect();
                (format!("/{at}"), row.reply(&pieces))
            });
        let origin = origin(&replies.collect::<Vec<_>>());
        let process =
            Process::start(&Recorded::config(Config::to(origin.url()), &rows).one_worker());
        for (at, body) in bodies.iter().enumerate() {
            let answer = Client::connect(process.public).get(&format!("/{at}"), "");
            assert_eq!(answer.body, *body, "{}", rows[at].file);
        }
        let records = process.wait_for_records(rows.len());
        for (row, record) in rows.iter().zip(records) {
            let found = (&record["charged"][0], &record["cost_missing"]);
            let reason = row.reason.map_or(Value::Null, |reason| json!(reason));
            assert_eq!(
                found,
                (&json!(row.cost), &reason),
                "{} {:?}",
                row.file,
                row.framing
            );
        }
    }
}

/// What reads and settles the answers of a row.
struct Settling {
    bodies: Arc<RouteBodies>,
    cost: Arc<BodyCost<NumberIndex>>,
    format: BodyFormat,
}

impl Settling {
    fn of(row: &Recorded) -> Self {
        let config = Recorded::config(Config::to("http://127.0.0.1:1"), std::slice::from_ref(row));
        let loaded = load(&config.text(), &|_| None, &mut |_| SeriesId(0)).expect("a good file");
        let route = &loaded.snapshot.routes.raw[0];
        let bodies = route.bodies.clone().expect("it reads bodies");
        let is_stream = row.content_type == STREAM;
        Self {
            format: bodies.response_format.unwrap_or(if is_stream {
                BodyFormat::EventStream
            } else {
                BodyFormat::Json
            }),
            bodies,
            cost: route.policies[0]
                .body_cost
                .clone()
                .expect("a cost from bodies"),
        }
    }

    /// Returns what is charged if these pieces have passed and the answer ended like this.
    fn charged(&self, pieces: &[&[u8]], end: Result<(), MissingCost>) -> u64 {
        let (pointers, last_event) = (
            Arc::clone(&self.bodies.response),
            self.bodies.stream_end.clone(),
        );
        let mut reader = NumberReader::new(pointers, self.format, last_event);
        for piece in pieces {
            reader.read(piece);
        }
        let length = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let response = reader.finish();
        let end = if !response.is_whole && end.is_ok() {
            Err(MissingCost::Malformed)
        } else {
            end
        };
        let numbers = Numbers {
            response,
            response_bytes: Some(Decimal::from(length)),
            ..Numbers::default()
        };
        self.cost
            .settle(&numbers, RESERVE, PriceRow::NoTable, end)
            .units
    }
}

#[test]
fn a_recorded_answer_costs_the_same_wherever_it_is_cut_in_two() {
    for row in table() {
        let (settling, body) = (Settling::of(&row), row.body());
        for at in 0..=body.len() {
            let (head, tail) = body.split_at(at);
            assert_eq!(
                settling.charged(&[head, tail], Ok(())),
                row.cost,
                "{} at {at}",
                row.file
            );
        }
    }
}

/// Only an event or document that says that the answer failed makes it cheaper, once it has come whole.
#[test]
fn a_recorded_answer_costs_no_less_wherever_it_breaks_off() {
    for row in table() {
        let (settling, body) = (Settling::of(&row), row.body());
        let text = String::from_utf8_lossy(&body);
        let is_failed = row.file.contains("error");
        let error = text.find("\"error\":{").filter(|_| is_failed);
        let end_of_line = |at| at + text[at..].find('\n').expect("an event");
        let failed = error.map_or(usize::MAX, end_of_line);
        for at in 0..=body.len() {
            let charged = settling.charged(&[&body[..at]], Err(MissingCost::ClientGone));
            let least = if at < failed { UNKNOWN } else { row.cost };
            assert!(charged >= least, "{} at {at}: {charged}", row.file);
        }
    }
}
