//! Reads the file again and puts it in force, on a signal, a request to the admin port or a change of the file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::file_watch::{self, FileWatch};
use super::{descriptors, expiry, memory_limit};
use crate::admin::{
    PreviewedConfig, ReloadControl, ReloadOutcome, ReloadPreview, ReloadReport, ReloadSource,
};
use crate::config::changes::{Changes, changes, keep_until_restart};
use crate::config::{
    ConfigText, Loaded, ReadPaths, describe, environment, file::File, reload, report::Report,
};
use crate::keys::{ActiveSources, ConfigSources};
use crate::limit::plan::SeriesId;
use crate::logging::{Logging, Output};
use crate::metrics::ConfigInfo;
use crate::proxy::process::{ActiveConfig, Process};
use crate::snapshot::{Policy, Snapshot};

/// Reloads the configuration; holds everything that a reload reads and changes.
#[derive(Debug)]
pub(super) struct Reloader {
    pub(super) process: Arc<Process>,
    /// Where the access log and events go.
    pub(super) output: Output,
    /// Path of the file; `None` if the gateway was started from a text.
    path: Option<PathBuf>,
    workers: usize,
    /// File and directives in force; reloads and new directives change them.
    pub(super) sources: Arc<ActiveSources>,
    /// Log settings in force, once events are logged; locked during a reload, so that reloads do not overlap.
    logging: Mutex<Option<Logging>>,
    last: Mutex<Option<Arc<ReloadReport>>>,
    /// Watches the files that a reload reads, if the configuration in force says so.
    watch: Mutex<Option<FileWatch>>,
}

/// A loaded file, ready to be put in force.
struct Prepared {
    changes: Changes,
    snapshot: Snapshot,
    after: ConfigSources,
    warnings: Vec<String>,
    paths: ReadPaths,
    hash: Box<str>,
}

impl Reloader {
    pub(super) fn new(
        process: &Arc<Process>,
        output: Output,
        path: Option<&Path>,
        workers: usize,
        file: File,
        watch: Option<FileWatch>,
    ) -> Self {
        Self {
            process: Arc::clone(process),
            output,
            path: path.map(Path::to_owned),
            workers,
            sources: Arc::new(ActiveSources::new(file)),
            logging: Mutex::default(),
            last: Mutex::default(),
            watch: Mutex::new(watch),
        }
    }

    /// From now on, reloads change the log settings in `logging`, too.
    pub(super) fn log_by(&self, logging: Logging) {
        *self.running() = Some(logging);
    }

    /// Puts a configuration that is given as text in force.
    pub(super) fn reload_text(&self, config: ConfigText<'_>) -> Result<(), Report> {
        let running = self.running();
        let source = ReloadSource::Signal;
        let (reloaded, outcome) = self.try_put_in_force(running.as_ref(), config, source);
        self.note(source, outcome);
        reloaded
    }

    /// Puts a configuration that is given as text in force; also returns the outcome to report.
    fn try_put_in_force(
        &self,
        logging: Option<&Logging>,
        config: ConfigText<'_>,
        source: ReloadSource,
    ) -> (Result<(), Report>, ReloadOutcome) {
        match self.put_in_force(logging, config, source) {
            Ok((changes, warnings)) => (Ok(()), applied(changes, warnings)),
            Err(report) => {
                self.reject();
                let outcome = mistakes(&report, config);
                (Err(report), outcome)
            }
        }
    }

    /// Returns the file's path and text, or why it cannot be read.
    fn read(&self) -> Result<(&Path, String), String> {
        let path = self.path.as_deref();
        let path = path.ok_or_else(|| "the gateway was not started from a file".to_owned())?;
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((path, text))
    }

    /// Counts a failed reload. Even then, password files are read again, and log files are reopened.
    fn reject(&self) {
        self.process.metrics.reload_rejected();
        self.process.store.refresh_passwords();
        self.reopen_log();
    }

    /// Opens the log's files again, so that files that were rotated away are closed.
    pub(super) fn reopen_log(&self) {
        for error in self.output.reopen(self.process.live().snapshot.log.files()) {
            let (file, source) = (error.file.display(), &error.source);
            tracing::error!(
                key = error.key, %file, error = %source,
                "the log file cannot be reopened: lines still go to the old one"
            );
        }
    }

    fn put_in_force(
        &self,
        logging: Option<&Logging>,
        config: ConfigText<'_>,
        source: ReloadSource,
    ) -> Result<(Changes, Vec<String>), Report> {
        let process = &self.process;
        let loaded = self.load(config).inspect_err(|report| {
            if let Some(watch) = &mut *self.watch() {
                watch.rejected(report.paths().clone());
            }
        })?;
        let change = self.sources.change();
        let Prepared {
            changes,
            snapshot,
            after,
            warnings,
            paths,
            hash,
        } = self.prepare(&change.before(), loaded);
        let is_watched = snapshot.general.watch;
        let series_ids = series_ids(&snapshot);
        process.store.reload(&snapshot.store);
        let (endpoints, key) = (&process.endpoints, &process.random_key);
        let live = ActiveConfig::new(snapshot, &process.metrics, endpoints, key);
        process.swap(live);
        process.store.retain(&series_ids);
        change.end(after);
        self.watch_on(is_watched, paths);
        process.metrics.reloaded(ConfigInfo {
            hash,
            since: process.clock.wall(),
        });
        self.reopen_log();
        let live = Arc::clone(&process.live());
        if let Some(logging) = logging {
            logging.set(live.snapshot.log.level, live.log_format);
        }
        for key in &changes.needs_restart {
            tracing::warn!(key, "a changed key needs a restart: its old value stays");
        }
        for change in &changes.applied {
            tracing::info!(change, "reloaded");
        }
        warn(&warnings);
        expiry::warn(&live.snapshot, process.clock.wall());
        let sockets_max = descriptors::bound(process, self.workers);
        descriptors::warn_if_few(sockets_max, process);
        memory_limit::warn_if_low(&live.snapshot);
        tracing::info!(
            changes = changes.applied.len(),
            %source,
            "the new configuration is in effect"
        );
        Ok((changes, warnings))
    }

    fn load(&self, config: ConfigText<'_>) -> Result<Loaded, Report> {
        let live = Arc::clone(&self.process.live());
        let running = &live.snapshot.store.location;
        reload(running, config, &environment, &mut |series| {
            self.process.store.series_id(series)
        })
    }

    /// Prepares a loaded file to follow `before`: keeps what only a restart can change, and applies the directives.
    fn prepare(&self, before: &ConfigSources, loaded: Loaded) -> Prepared {
        let process = &self.process;
        let changes = changes(&before.file, &loaded.file);
        let old = Arc::clone(&process.live());
        let loaded = keep_until_restart(&before.file, &old.snapshot, loaded);
        let mut snapshot = loaded.snapshot;
        let after = ConfigSources {
            file: Arc::new(loaded.file),
            directives: Arc::clone(&before.directives),
        };
        let partition_key = process.partition_key(&snapshot.store);
        after.apply_to(&mut snapshot, &partition_key, &process.store);
        Prepared {
            changes,
            snapshot,
            after,
            warnings: loaded.warnings,
            paths: loaded.paths,
            hash: loaded.hash,
        }
    }

    /// Watches `paths`, which were just read, or stops watching, as the new configuration says.
    fn watch_on(&self, is_watched: bool, paths: ReadPaths) {
        let mut watch = self.watch();
        match &mut *watch {
            _ if !is_watched => *watch = None,
            None => *watch = Some(FileWatch::of(paths)),
            Some(watch) => watch.applied(paths),
        }
    }

    /// Returns how long to wait before the next scan, even if no files are watched yet: a reload may change that.
    pub(super) fn pause_before_scan(&self) -> Duration {
        self.watch()
            .as_ref()
            .map_or(file_watch::PERIOD, FileWatch::pause)
    }

    /// Looks at the files, and returns a path or pattern under which something has changed since they were read.
    pub(super) fn changed_file(&self) -> Option<PathBuf> {
        let mut watch = self.watch();
        let changed = watch.as_mut()?.changed(&self.process.clock);
        changed.map(Path::to_owned)
    }

    fn watch(&self) -> MutexGuard<'_, Option<FileWatch>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, source: ReloadSource, outcome: ReloadOutcome) -> Arc<ReloadReport> {
        let report = Arc::new(ReloadReport {
            time: self.process.clock.wall(),
            source,
            outcome,
        });
        *self.latest() = Some(Arc::clone(&report));
        report
    }

    fn running(&self) -> MutexGuard<'_, Option<Logging>> {
        self.logging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn latest(&self) -> MutexGuard<'_, Option<Arc<ReloadReport>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReloadControl for Reloader {
    fn reload(&self, source: ReloadSource) -> Arc<ReloadReport> {
        // Locked while the file is read, too, so that the text read last is the one in force last.
        let running = self.running();
        if let Some(watch) = &mut *self.watch() {
            watch.before_read();
        }
        let outcome = match self.read() {
            Ok((path, text)) => {
                let config = ConfigText::of(path, &text);
                self.try_put_in_force(running.as_ref(), config, source).1
            }
            Err(error) => {
                self.reject();
                tracing::error!(error, %source, "cannot reload: the file cannot be read");
                ReloadOutcome::Unreadable { error }
            }
        };
        if let ReloadOutcome::Mistakes { lines, .. } = &outcome {
            log_mistakes(lines, source);
        }
        self.note(source, outcome)
    }

    fn preview(&self, source: ReloadSource) -> ReloadPreview {
        let (outcome, config) = match self.read() {
            Ok((path, text)) => {
                let config = ConfigText::of(path, &text);
                match self.load(config) {
                    Ok(loaded) => {
                        let made = self.prepare(&self.sources.parts(), loaded);
                        let config = PreviewedConfig {
                            partition_key: self.process.partition_key(&made.snapshot.store),
                            snapshot: made.snapshot,
                        };
                        (applied(made.changes, made.warnings), Some(config))
                    }
                    Err(report) => (mistakes(&report, config), None),
                }
            }
            Err(error) => (ReloadOutcome::Unreadable { error }, None),
        };
        let report = ReloadReport {
            time: self.process.clock.wall(),
            source,
            outcome,
        };
        ReloadPreview { report, config }
    }

    fn last(&self) -> Option<Arc<ReloadReport>> {
        self.latest().clone()
    }

    fn path(&self) -> Option<PathBuf> {
        let path = self.path.as_deref()?;
        Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    fn configuration(&self) -> Value {
        describe(&self.sources.parts().file)
    }
}

fn applied(changes: Changes, warnings: Vec<String>) -> ReloadOutcome {
    ReloadOutcome::Applied {
        changes: changes.applied,
        needs_restart: changes.needs_restart,
        warnings,
    }
}

fn mistakes(report: &Report, config: ConfigText<'_>) -> ReloadOutcome {
    let name = config.path.display().to_string();
    ReloadOutcome::Mistakes {
        lines: report.lines(&name, config.text),
        report: report.render(&name, config.text, false),
    }
}

fn log_mistakes(lines: &[String], source: ReloadSource) {
    for mistake in lines.iter().take(LOGGED_MAX) {
        tracing::error!(mistake, %source, "cannot reload: the old configuration stays");
    }
    if let Some(more @ 1..) = lines.len().checked_sub(LOGGED_MAX) {
        tracing::error!(
            more,
            "more mistakes are not logged: `tollgate check` prints all of them"
        );
    }
}

/// Logs the warnings about a file: settings that are valid, but probably not what was meant.
pub(super) fn warn(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!(warning, "valid, but probably not what was meant");
    }
}

/// Returns the ids of the series that a configuration counts in.
fn series_ids(snapshot: &Snapshot) -> Vec<SeriesId> {
    let quotas = snapshot.policies.iter().flat_map(Policy::every_quota);
    let series_ids: HashSet<SeriesId> = quotas.map(|(_, series_id)| series_id).collect();
    series_ids.into_iter().collect()
}

/// Most mistakes of a file that are logged when a reload fails.
const LOGGED_MAX: usize = 100;
