//! What is in force: the file, and the directives beside it.

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
    /// Held by whoever changes them, until the configuration that is made of both is in force. Who only reads waits
    /// for nobody.
    changing: Mutex<()>,
    /// Notified when a directive was given here, so that it is in force at once.
    pub given: Notify,
    /// Notified when directives have been read, and are in force.
    pub read: Notify,
    /// Whether the store has told its directives since the start.
    pub is_known: AtomicBool,
}

/// What the configuration is made of.
#[derive(Clone, Debug)]
pub struct ConfigSources {
    /// What the file says.
    pub file: Arc<File>,
    /// What operators ordered, as far as it has not ended.
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

    /// Returns what is in force now.
    pub fn parts(&self) -> Arc<ConfigSources> {
        self.parts.load_full()
    }

    /// Begins a change; others wait for its end.
    pub fn change(&self) -> SourcesChange<'_> {
        SourcesChange {
            parts: &self.parts,
            _changing: self.changing.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Has the directives read now, and waits, not for long, until those are in force that `has_come` looks for.
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
        // It is kept in any case, and in force soon.
        let _ = tokio::time::timeout(COMES_WITHIN, coming).await;
    }
}

/// A change of what is in force, while it is under way.
#[must_use = "the change ends with it"]
pub struct SourcesChange<'f> {
    parts: &'f ArcSwap<ConfigSources>,
    _changing: MutexGuard<'f, ()>,
}

impl SourcesChange<'_> {
    /// Returns what was in force before.
    pub fn before(&self) -> Arc<ConfigSources> {
        self.parts.load_full()
    }

    /// Ends the change: the configuration that is made of these parts is in force.
    pub fn end(self, parts: ConfigSources) {
        self.parts.store(Arc::new(parts));
    }
}

/// How long whoever orders something waits until it is in force here.
const COMES_WITHIN: Duration = Duration::from_secs(1);
