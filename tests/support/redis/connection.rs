//! A RESP2 connection, one command at a time, on which the tests themselves talk to a server.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<Stream>,
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Nil,
    Integer(i64),
    Status(String),
    Bytes(Vec<u8>),
    Error(String),
    List(Vec<Value>),
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Connects by TCP; no read waits longer than `patience`.
    pub fn tcp(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let stream = BufReader::new(Stream::Tcp(stream));
        Ok(Self { stream })
    }

    /// Connects to a Unix socket; no read waits longer than `patience`.
    pub fn unix(path: &Path, patience: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let stream = BufReader::new(Stream::Unix(stream));
        Ok(Self { stream })
    }

    /// Sends a command and reads its answer, which may be an error of the server.
    pub fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<Value> {
        self.send(words)?;
        self.read()
    }

    /// Sends a command and leaves its answer on the wire.
    pub fn send(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)
    }

    /// Reads one answer, or one line of MONITOR.
    pub fn read(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(ErrorKind::UnexpectedEof.into());
        };
        let (kind, rest) = line.split_at(line.len().min(1));
        match kind {
            "+" => Ok(Value::Status(rest.to_owned())),
            "-" => Ok(Value::Error(rest.to_owned())),
            ":" => Ok(Value::Integer(number(rest)?)),
            "$" => match usize::try_from(number(rest)?) {
                Ok(length) => self.bytes(length),
                Err(_) => Ok(Value::Nil),
            },
            "*" => match usize::try_from(number(rest)?) {
                Ok(length) => (0..length).map(|_| self.read()).collect(),
                Err(_) => Ok(Value::Nil),
            },
            _ => Err(Error::new(ErrorKind::InvalidData, line)),
        }
    }

    fn bytes(&mut self, length: usize) -> io::Result<Value> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Value::Bytes(bytes))
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse()
        .map_err(|_| Error::new(ErrorKind::InvalidData, text))
}

impl FromIterator<Value> for Value {
    fn from_iter<T: IntoIterator<Item = Value>>(values: T) -> Self {
        Self::List(values.into_iter().collect())
    }
}

impl Value {
    /// Returns a status, a text or a number as text.
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Self::Status(text) => text.clone(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Integer(number) => number.to_string(),
            other => panic!("not a text: {other:?}"),
        }
    }

    /// Returns a number, written as one or as text.
    #[track_caller]
    pub fn integer(&self) -> i64 {
        self.text().parse().expect("a number")
    }

    /// Returns the values of a list.
    #[track_caller]
    pub fn list(&self) -> &[Value] {
        match self {
            Self::List(values) => values,
            other => panic!("not a list: {other:?}"),
        }
    }

    /// Returns the value that follows `name` in a list of alternating names and values.
    #[track_caller]
    pub fn named(&self, name: &str) -> &Value {
        let mut pairs = self.list().chunks_exact(2);
        let pair = pairs.find(|pair| pair[0].text() == name);
        &pair.unwrap_or_else(|| panic!("no {name} in {self:?}"))[1]
    }

    /// Returns the error's text if this is an error.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Error(error) => Some(error),
            _ => None,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
