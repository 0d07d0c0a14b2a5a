//! Answers as providers send them, shortened (`tests/policies/bodies/recorded`): what each costs, and why.

use std::fs;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use tollgate::config::load;
use tollgate::cost::{
    BodyCost, BodyFormat, Decimal, MissingCost, NumberIndex, NumberReader, Numbers, PriceRow,
};
use tollgate::limit::plan::SeriesId;
use tollgate::snapshot::RouteBodies;

use super::{Reply, cut, origin};
use crate::support::{After, Client, Config, Process};

/// The file `recorded/index.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    recorded: Vec<Recorded>,
    variations: Vec<Recorded>,
}

/// A recorded answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    file: String,
    #[serde(rename = "type")]
    content_type: Option<String>,
    /// A further field of the answer's head.
    field: Option<String>,
    #[serde(default)]
    framing: Framing,
    terms: Terms,
    /// Lines of the route: `response_format` and `stream_end`.
    #[serde(default)]
    route: String,
    cost: u64,
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Framing {
    #[default]
    Chunked,
    Length,
    /// The body ends with the connection, in HTTP/1.1; `Close10` is the same in HTTP/1.0.
    Close11,
    Close10,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Terms {
    Chat,
    Responses,
    Messages,
    /// As `Messages`, but the last count of input tokens is taken, not the largest.
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

fn index() -> Index {
    toml::from_str(include_str!("recorded/index.toml")).expect("a good index")
}

impl Recorded {
    fn body(&self) -> Vec<u8> {
        fs::read(format!("tests/policies/bodies/recorded/{}", self.file)).expect(&self.file)
    }

    /// Returns the answer, with its body in these pieces.
    fn reply(&self, pieces: &[&[u8]]) -> Reply {
        let version = if self.framing == Framing::Close10 {
            "1.0"
        } else {
            "1.1"
        };
        let mut head = format!("HTTP/{version} 200 OK\r\n{}", self.framing.field(pieces));
        if let Some(content_type) = self.content_type.as_deref() {
            head.extend(["Content-Type: ", content_type, "\r\n"]);
        }
        if let Some(field) = self.field.as_deref() {
            head.extend([field, "\r\n"]);
        }
        let mut bytes = format!("{head}\r\n").into_bytes();
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
    let index = index();
    let rows: Vec<_> = { index.recorded.into_iter() }
        .chain(index.variations)
        .collect();
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
            assert_eq!(
                found,
                (&json!(row.cost), &json!(row.reason)),
                "{} {:?}",
                row.file,
                row.framing
            );
        }
    }
}

/// The parts of a configuration that read and settle the answers of a row.
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
        let is_stream = row.content_type.as_deref() == Some("text/event-stream");
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

    /// Returns what is charged if these pieces have passed and the answer ended in this way.
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
    for row in index().recorded {
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

/// Only an event or document that reports a failure makes an answer cheaper, and only once it has come whole.
#[test]
fn a_recorded_answer_costs_no_less_wherever_it_breaks_off() {
    for row in index().recorded {
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
