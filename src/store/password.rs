//! A password, which can be reread if it came from a file: to rotate it, write the file.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// A text that must not appear in any output. All clones change together.
#[derive(Clone)]
pub struct Password(Arc<PasswordCell>);

struct PasswordCell {
    text: Mutex<CurrentText>,
    /// Counts the changes of the text.
    version: AtomicU64,
    source: Option<PasswordSource>,
}

struct CurrentText {
    text: Arc<str>,
    /// Whether the text could not be read when rereading was last tried.
    is_unreadable: bool,
}

/// Where the text came from.
struct PasswordSource {
    /// The reference to the source, as written in the configuration.
    written: Box<str>,
    read: Box<ReadText>,
}

/// Reads the text, or says why it cannot be read.
type ReadText = dyn Fn() -> Result<Box<str>, String> + Send + Sync;

/// The result of rereading a password.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reread {
    /// The password has changed.
    Changed,
    /// The password has not changed, or still cannot be read.
    Same,
    /// The password cannot be read any more, and stays as it was.
    Failed(String),
}

impl Password {
    /// Makes a password that cannot be reread.
    pub fn new(text: &str) -> Self {
        Self::of(text, None)
    }

    /// Makes a password whose text came from `read`; `written` refers to the source, as written in the configuration.
    ///
    /// `written` may be secret, too: it serves only to tell one source from another.
    pub fn from_source(
        text: &str,
        written: &str,
        read: impl Fn() -> Result<Box<str>, String> + Send + Sync + 'static,
    ) -> Self {
        let source = PasswordSource {
            written: written.into(),
            read: Box::new(read),
        };
        Self::of(text, Some(source))
    }

    fn of(text: &str, source: Option<PasswordSource>) -> Self {
        Self(Arc::new(PasswordCell {
            text: Mutex::new(CurrentText {
                text: text.into(),
                is_unreadable: false,
            }),
            version: AtomicU64::new(0),
            source,
        }))
    }

    /// Returns the text as it is now.
    pub fn text(&self) -> Arc<str> {
        let current = self.0.text.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current.text)
    }

    /// Returns how often the text has changed.
    pub fn version(&self) -> u64 {
        self.0.version.load(Relaxed)
    }

    /// Rereads the password if it came from a file, for all clones, and logs under its `key` if it
    /// changed or cannot be read. A file is small and on this machine, so this blocks.
    pub fn refresh(&self, key: &'static str) {
        match self.read_again() {
            Reread::Changed => tracing::info!(key, "store: password changed"),
            Reread::Failed(error) => tracing::warn!(
                key,
                error,
                "store: password cannot be read: the previous one stays in use"
            ),
            Reread::Same => {}
        }
    }

    fn read_again(&self) -> Reread {
        let Some(source) = &self.0.source else {
            return Reread::Same;
        };
        let mut current = self.0.text.lock().unwrap_or_else(PoisonError::into_inner);
        match (source.read)() {
            Ok(text) => {
                current.is_unreadable = false;
                if *text == *current.text {
                    return Reread::Same;
                }
                current.text = text.into();
                self.0.version.fetch_add(1, Relaxed);
                Reread::Changed
            }
            Err(_) if std::mem::replace(&mut current.is_unreadable, true) => Reread::Same,
            Err(why) => Reread::Failed(why),
        }
    }

    fn written(&self) -> Option<&str> {
        self.0.source.as_ref().map(|source| &*source.written)
    }
}

/// Two passwords are equal if their texts are the same now and come from the same source.
impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text() && self.written() == other.written()
    }
}

impl Eq for Password {}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_change_together_and_what_cannot_be_read_stays() {
        let content = Arc::new(Mutex::new(Ok("one".into())));
        let read = Arc::clone(&content);
        let read = move || read.lock().expect("no test panics with it").clone();
        let (fixed, password) = (
            Password::new("one"),
            Password::from_source("one", "${file:a}", read),
        );
        let clone = password.clone();
        let set = |to: Result<&str, &str>| {
            let to = to.map(Into::into).map_err(ToOwned::to_owned);
            *content.lock().expect("no test panics with it") = to;
        };
        assert_eq!(password.read_again(), Reread::Same);
        set(Ok("two"));
        assert_eq!(password.read_again(), Reread::Changed);
        set(Err("gone"));
        assert_eq!(password.read_again(), Reread::Failed("gone".to_owned()));
        assert_eq!(password.read_again(), Reread::Same, "it is said once");
        assert_eq!((&*clone.text(), clone.version()), ("two", 1));
        assert_eq!((fixed.read_again(), &*fixed.text()), (Reread::Same, "one"));
        assert_eq!(format!("{fixed:?} {password:?}"), "Password Password");
    }

    #[test]
    fn passwords_from_different_places_differ() {
        let from = |written| Password::from_source("one", written, || Ok("one".into()));
        assert_eq!(from("${file:a}"), from("${file:a}"));
        assert_ne!(from("${file:a}"), from("${file:b}"));
        assert_ne!(from("${file:a}"), Password::new("one"));
    }
}
