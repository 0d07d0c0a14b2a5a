//! What of TOML a value is written as.

/// What of TOML a value is written as; a string with a variable may stand for any of them.
pub enum Form {
    /// A string such as this one.
    Text(&'static str),
    /// A string such as this one, which names a file that is read.
    File(&'static str),
    /// A string such as this one, which no message repeats.
    Secret(&'static str),
    /// A string such as this one, or an integer that stands for the string of its digits.
    NumberOrText(&'static str),
    /// A whole number.
    Number {
        /// What is expected, as a noun.
        expected: String,
    },
    /// A number with or without decimals, called so.
    Fraction(&'static str),
    /// `true` or `false`.
    Boolean,
}

impl Form {
    /// Returns an example of it, in TOML.
    pub fn example(&self) -> String {
        match self {
            Self::NumberOrText(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                (*text).to_owned()
            }
            Self::Text(text) | Self::File(text) | Self::Secret(text) | Self::NumberOrText(text) => {
                format!("\"{text}\"")
            }
            Self::Number { .. } => "1".to_owned(),
            Self::Fraction(_) => "0.5".to_owned(),
            Self::Boolean => "true".to_owned(),
        }
    }

    /// Returns what a value of it must be, and what is expected more closely.
    pub(super) fn wanted(&self) -> (&'static str, String) {
        let boolean = "`true` or `false`";
        match self {
            Self::Number { expected } => ("a number", expected.clone()),
            Self::Fraction(expected) => ("a number", (*expected).to_owned()),
            Self::Boolean => (boolean, boolean.to_owned()),
            Self::NumberOrText(_) => {
                let expected = format!("a value such as `{}`", self.example());
                ("a number or a string", expected)
            }
            _ => ("a string", format!("a string such as `{}`", self.example())),
        }
    }
}
