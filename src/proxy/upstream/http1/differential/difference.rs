//! Differences between the codec and hyper's client, and their reasons.

use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderValue, StatusCode, Version};

use super::super::{BadBody, BadHead};
use super::outcome::{Head, Outcome, Refusal};

/// A reason why one reader accepts what the other refuses, or uses a connection again that the other
/// closes. Sections are those of RFC 9112, unless another document is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// "A recipient MAY recognize a single LF as a line terminator" (2.2). hyper does.
    BareLineFeed,
    /// Servers should ignore an empty line before a request (2.2), but no rule allows one before a
    /// response, which begins with its status line (4). hyper ignores it.
    EmptyLine,
    /// "A server MUST NOT switch to a protocol that was not indicated by the client" (RFC 9110,
    /// 7.8). hyper leaves that to its caller.
    Upgrade,
    /// Transfer-Encoding and Content-Length, or one of them twice (6.3). hyper goes by the coding
    /// or by equal lengths.
    SeveralFramings,
    /// "A recipient of a Content-Length header field value consisting of the same decimal value
    /// repeated as a comma-separated list MAY either reject the message as invalid or replace that"
    /// (RFC 9110, 8.6). hyper reads the value.
    LengthList,
    /// A coding other than `chunked` alone. hyper goes by the last of several, and reads until the
    /// end of the connection after any other, as 6.3 says.
    UnknownCoding,
    /// "A server MUST NOT send a response containing Transfer-Encoding unless the corresponding
    /// request indicates HTTP/1.1" (6.1), nor is it defined in a response of HTTP/1.0. hyper does
    /// not look at it where there is no body.
    OldCoding,
    /// A length that is no number, in a response that has no body (RFC 9110, 8.6). hyper does not
    /// look at it.
    UnusedLength,
    /// More interim responses than 64 (RFC 9110, 15.2, sets no bound). hyper has no bound.
    InterimCount,
    /// More bytes of interim responses than 64 KiB (RFC 9110, 15.2, sets no bound). hyper has no
    /// bound.
    InterimBytes,
    /// More digits in a chunk's size than fit into 64 bits: "recipients MUST anticipate potentially
    /// large hexadecimal numerals" (7.1). hyper allows any number of zeros before them.
    SizeDigits,
    /// Control bytes in a chunk's extensions, which are tokens and quoted strings (7.1.1). hyper
    /// refuses no more than a line feed.
    ExtensionControl,
    /// White space of more than 16 KiB after the sizes of chunks (7.1.1 sets no bound). hyper has no
    /// bound.
    WhiteSpaceBytes,
    /// The two largest lengths that fit into 64 bits (RFC 9110, 8.6, sets no bound). hyper uses these
    /// numbers for itself, so it refuses them.
    LargestLength,
    /// A connection after a response in HTTP/1.0, which lasts if both sides say `keep-alive` (9.3).
    /// hyper uses it again, and speaks HTTP/1.0 there.
    OldVersion,
    /// A connection after a 204 that states a body, against RFC 9110, 8.6: the body may follow.
    /// hyper uses it again.
    StatedBody,
    /// A connection whose `close` (9.6) comes in one value with bytes that are not ASCII. hyper does not
    /// read such a value.
    HiddenClose,
}

impl Difference {
    /// All reasons.
    pub const ALL: [Self; 17] = [
        Self::BareLineFeed,
        Self::EmptyLine,
        Self::Upgrade,
        Self::SeveralFramings,
        Self::LengthList,
        Self::UnknownCoding,
        Self::OldCoding,
        Self::UnusedLength,
        Self::InterimCount,
        Self::InterimBytes,
        Self::SizeDigits,
        Self::ExtensionControl,
        Self::WhiteSpaceBytes,
        Self::LargestLength,
        Self::OldVersion,
        Self::StatedBody,
        Self::HiddenClose,
    ];

    /// Returns why the codec refuses what hyper accepts; `bytes` are those that the codec had read by
    /// then, up to the one at which it refused.
    pub fn of_refusal(refusal: Refusal, bytes: &[u8]) -> Option<Self> {
        match refusal {
            Refusal::Head(bad) => Self::of_head(bad, bytes),
            Refusal::Body(bad) => {
                let (&last, before) = bytes.split_last()?;
                let begin = before.iter().rposition(|&byte| byte == b'\n')?;
                Self::of_body(bad, &before[begin + 1..], last)
            }
        }
    }

    fn of_head(bad: BadHead, bytes: &[u8]) -> Option<Self> {
        // Earlier heads ended in an empty line, and no head has one inside.
        let before = &bytes[..bytes.len() - 1];
        let end = before.windows(4).rposition(|window| window == b"\r\n\r\n");
        let head = &bytes[end.map_or(0, |value| value + 4)..];
        let fits = |fits: bool, it: Self| fits.then_some(it);
        match bad {
            _ if matches!(head[0], b'\r' | b'\n') => Some(Self::EmptyLine),
            BadHead::Malformed => fits(
                head.ends_with(b"\n") && !head.ends_with(b"\r\n"),
                Self::BareLineFeed,
            ),
            BadHead::Upgrade => fits(head[8..].starts_with(b" 101"), Self::Upgrade),
            BadHead::Interim if bytes.len() > 64 * 1024 => Some(Self::InterimBytes),
            BadHead::Interim => {
                let heads = bytes.windows(4).filter(|window| window == b"\r\n\r\n");
                fits(heads.count() == 65, Self::InterimCount)
            }
            BadHead::TooLarge | BadHead::Incomplete => None,
            BadHead::Framing => Self::of_framing(head),
        }
    }

    fn of_framing(head: &[u8]) -> Option<Self> {
        let values = |wanted: &str| -> Vec<String> {
            let lines = head.split(|&byte| byte == b'\n');
            let texts = lines.map(String::from_utf8_lossy);
            let fields = texts.filter_map(|line| {
                let (name, value) = line.split_once(':')?;
                let is_wanted = name.eq_ignore_ascii_case(wanted);
                is_wanted.then(|| value.trim_matches([' ', '\t', '\r']).to_ascii_lowercase())
            });
            fields.collect()
        };
        let lengths = values("content-length");
        match (&values("transfer-encoding")[..], &lengths[..]) {
            ([coding], []) if coding == "chunked" => {
                head.starts_with(b"HTTP/1.0").then_some(Self::OldCoding)
            }
            ([_], []) => Some(Self::UnknownCoding),
            ([], [length]) if length.contains(',') => Some(Self::LengthList),
            ([], [length]) => {
                let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
                let is_length = is_number && length.parse::<u64>().is_ok();
                (!is_length).then_some(Self::UnusedLength)
            }
            ([], []) => None,
            _ => Some(Self::SeveralFramings),
        }
    }

    /// Returns why a body is refused at the byte `last`, which follows `before` in its line.
    fn of_body(bad: BadBody, before: &[u8], last: u8) -> Option<Self> {
        let digits = before
            .iter()
            .take_while(|before| before.is_ascii_hexdigit());
        let digits = digits.count();
        match bad {
            BadBody::Chunk if last.is_ascii_hexdigit() => {
                (digits == 16 && before.len() == 16).then_some(Self::SizeDigits)
            }
            BadBody::Chunk => {
                let is_extension = before[digits..].contains(&b';');
                let is_control = last.is_ascii_control() && !matches!(last, b'\t' | b'\r' | b'\n');
                (digits > 0 && is_extension && is_control).then_some(Self::ExtensionControl)
            }
            BadBody::Trailer => {
                (last == b'\n' && !before.ends_with(b"\r")).then_some(Self::BareLineFeed)
            }
            BadBody::TooLong
                if before[digits..]
                    .iter()
                    .all(|before| matches!(before, b' ' | b'\t')) =>
            {
                Some(Self::WhiteSpaceBytes)
            }
            BadBody::TooLong | BadBody::Incomplete => None,
        }
    }

    /// Returns why hyper refuses what the codec accepts.
    pub fn of_leniency(outcome: &Outcome) -> Option<Self> {
        let length = outcome.head.as_ref()?.headers.get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        length
            .is_some_and(|length| length >= u64::MAX - 1)
            .then_some(Self::LargestLength)
    }

    /// Returns why hyper uses a connection again that the codec closes after this response.
    pub fn of_closing(head: &Head) -> Option<Self> {
        let is_hidden = |value: &HeaderValue| {
            let value = value.as_bytes().to_ascii_lowercase();
            !value.is_ascii() && value.windows(5).any(|window| window == b"close")
        };
        let mut options = head.headers.get_all(CONNECTION).iter();
        if head.version == Version::HTTP_10 {
            Some(Self::OldVersion)
        } else if options.any(is_hidden) {
            Some(Self::HiddenClose)
        } else if head.status == StatusCode::NO_CONTENT {
            let stated = ["content-length", "transfer-encoding"];
            let is_stated = stated
                .iter()
                .any(|stated| head.headers.contains_key(*stated));
            is_stated.then_some(Self::StatedBody)
        } else {
            None
        }
    }
}
