//! JSON Schema by Debian's Python, because a Rust validator takes half a minute of CPU time to compile.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Validates values against schemas of one document.
pub struct Validator {
    python: Child,
    answers: BufReader<ChildStdout>,
}

impl Validator {
    /// Starts with a document that holds the definitions to which schemas refer, and that is itself a schema.
    #[track_caller]
    pub fn new(document: &Value) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/json_schema.py");
        let mut python = Command::new("/usr/bin/python3")
            .arg("-B")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Debian's python3 is installed");
        let answers = BufReader::new(python.stdout.take().expect("a piped stream"));
        let mut validator = Self { python, answers };
        validator.say(document);
        validator
    }

    /// Returns what is wrong with a value according to `schema`, which is read as if it were part of the document.
    #[track_caller]
    pub fn mistakes(&mut self, schema: &Value, value: &Value) -> Vec<String> {
        self.say(&json!([schema, value]));
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("a line");
        serde_json::from_str(&answer)
            .expect("an answer: python3-jsonschema is installed, and the schema is one")
    }

    #[track_caller]
    fn say(&mut self, line: &Value) {
        let stdin = self.python.stdin.as_mut().expect("a piped stream");
        writeln!(stdin, "{line}")
            .expect("python3-jsonschema is installed, and the document is a schema");
    }
}

impl Drop for Validator {
    fn drop(&mut self) {
        drop(self.python.stdin.take());
        let _ = self.python.wait();
    }
}
