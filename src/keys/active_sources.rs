//! What the configuration in force is made of: the file, and the directives.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::directive::Directive;
use crate::config::file::File;

/// The file in force and the directives beside it.
#[derive(Debug)]
pub struct ActiveSources {
    parts: ArcSwap<ConfigSources>,
    /// Held while the sources change, until the configuration that is made of both is in force. Those who only read do
    /// not wait for it.
    changing: Mutex<()>,
    /// Notified when directives are to be read from the store at once, such as when one was given here.
    pub given: Notify,
    /// Notified when directives have been read and are in force.
    pub read: Notify,
    /// Whether directives have been read from the store since the start.
    pub is_known: AtomicBool,
}

/// What the configuration is made of.
#[derive(Clone, Debug)]
pub struct ConfigSources {
    /// The file.
    pub file: Arc<File>,
    /// Directives of operators that have not ended.
    pub directives: Arc<[Directive]>,
}

impl ActiveSources {
    /// Begins with a file and no directives.
    pub fn new(file: File) -> Self {
        Self {
            parts: ArcSwap::from_pointee(ConfigSources {
                file: Arc::new(file),
                directives: Arc::default(),
            }),
            changing: Mutex::default(),
            given: Notify::new(),
            read: Notify::new(),
            is_known: AtomicBool::new(false),
        }
    }

    /// Returns the file and the directives in force now.
    pub fn parts(&self) -> Arc<ConfigSources> {
        self.parts.load_full()
    }

    /// Begins a change; other changes wait until it ends.
    pub fn change(&self) -> SourcesChange<'_> {
        SourcesChange {
            parts: &self.parts,
            _changing: self.changing.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Has the directives read now, and waits for a short time until those in force satisfy `has_come`.
    pub async fn comes_to(&self, has_come: impl Fn(&[Directive]) -> bool) {
        self.given.notify_one();
        let coming = async {
            loop {
                let read = self.read.notified();
                if has_come(&self.parts().directives) {
                    return;
                }
                read.await;
            }
        };
        // Even if time runs out, the store has the change, and it will soon be in force.
        let _ = tokio::time::timeout(COMES_WITHIN, coming).await;
    }
}

/// A change of the file or the directives, while it is under way.
#[must_use = "the change ends with it"]
pub struct SourcesChange<'f> {
    parts: &'f ArcSwap<ConfigSources>,
    _changing: MutexGuard<'f, ()>,
}

impl SourcesChange<'_> {
    /// Returns what was in force before the change.
    pub fn before(&self) -> Arc<ConfigSources> {
        self.parts.load_full()
    }

    /// Ends the change, once the configuration that is made of `parts` is in force.
    pub fn end(self, parts: ConfigSources) {
        self.parts.store(Arc::new(parts));
    }
}

/// How long a command waits until its change is in force here.
const COMES_WITHIN: Duration = Duration::from_secs(1);
