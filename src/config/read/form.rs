//! How a value is written in TOML.

/// How a value is written in TOML; a string with a variable may stand for any of these forms.
pub enum Form {
    /// A string; the text is an example.
    Text(&'static str),
    /// A string that names a file, which is read; the text is an example.
    File(&'static str),
    /// A string that no message repeats; the text is an example.
    Secret(&'static str),
    /// A string, or an integer that stands for the string of its digits; the text is an example.
    NumberOrText(&'static str),
    /// A whole number.
    Number {
        /// What is expected, as a noun.
        expected: String,
    },
    /// A number with or without decimals; the text says which ones are expected, as a noun.
    Fraction(&'static str),
    /// `true` or `false`.
    Boolean,
}

impl Form {
    /// Returns an example of a value in this form, in TOML.
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

    /// Returns the type that a value must have, and a more precise description of what is expected.
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
