//! Overrides of a policy: the patterns and grants of its table, and of its file.
//!
//! A file may have hundreds of thousands of rows. So a grant is compiled once for all rows that
//! spell it alike, and kept once for all that mean the same.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use smallvec::smallvec;

use super::algorithm_key::check_key;
use super::counting::{Counting, has_own_days};
use super::rows::{CsvField, Row, Rows, rows};
use super::{credits, inventable, quotas};
use crate::clock::Micros;
use crate::config::display;
use crate::config::file::{AlgorithmName, OverridesFile, RawGrant, RawPolicy, Spanned, Table};
use crate::config::options::POLICY;
use crate::config::read::say;
use crate::config::report::{OtherFile, Place, Report};
use crate::config::secrets::{behind_shown, may_be_key, quoted, secret_parts};
use crate::config::value::{Chooser, GrantText, ValueError, grant};
use crate::limit::{Algorithm, Align, AnchorDay, Quota};
use crate::request::{EqualPatterns, Part, Partition, Pattern, Patterns};
use crate::snapshot::{Grant, Overrides, Policy};
use crate::store::Shape;

/// Compiles the overrides of a policy, the rest of which is already compiled.
pub(super) fn compile(
    table: &Table<RawPolicy>,
    policy: &Policy,
    report: &mut Report,
) -> Option<Overrides> {
    let raw = &table.value;
    let file = raw.overrides_file.as_ref();
    if raw.overrides.0.is_empty() && file.is_none() {
        return None;
    }
    let by = raw.overrides_by.clone();
    let by = by.map(|choice| Partition(smallvec![choice]));
    let chooser = Chooser {
        by: by.as_ref().unwrap_or(&policy.partition),
        are_tiers: (by.iter()).any(|by| by.parts().all(|part| matches!(part, Part::Claim(_)))),
    };
    if chooser.by.0.is_empty() {
        let place = table.place("overrides").or(table.place("overrides_file"));
        let message = "the partition is the same for all clients, so overrides cannot apply";
        (report.mistake(
            place.unwrap_or(&table.span),
            message,
            "a partition with parts",
        ))
        .hint("name parts in `partition` or in `overrides_by`");
        return None;
    }
    let mut of_file = Report::default();
    let mut compiler = OverrideCompiler::new(table, chooser);
    compiler.add_table(report);
    // Only the overrides of the table are checked: rows of a file cannot have initial credits.
    for (pattern, grant, place) in compiler.added() {
        let pattern = by.is_none().then_some(pattern);
        inventable::check_override(&policy.partition, pattern, (grant, place), report);
    }
    let rows = file
        .map(|file| rows(&file.content, &mut of_file))
        .unwrap_or_default();
    compiler.add_rows(&rows, &mut of_file);
    let grants = compiler
        .grant_of
        .iter()
        .map(|index| &compiler.grants[*index as usize]);
    let granted = compiler.patterns.iter().zip(grants);
    let inventable_glob = inventable::glob(compiler.chooser.by, granted);
    let inventable_glob = inventable_glob.filter(|_| by.is_none()).cloned();
    let patterns = Patterns::new(&compiler.patterns);
    let equal = patterns.as_ref().err().map_or(&[][..], Vec::as_slice);
    compiler.report(equal, file.map(|file| (file, &rows, of_file)), report);
    Some(Overrides {
        patterns: patterns.unwrap_or_default(),
        grants: compiler.grants,
        grant_of: compiler.grant_of,
        day_of: compiler.day_of,
        file_rows: rows.read.len(),
        inventable_glob,
        by,
    })
}

/// The overrides that are compiled so far; each pattern has the same index in all lists that go by pattern.
struct OverrideCompiler<'f> {
    table: &'f Table<RawPolicy>,
    chooser: Chooser<'f>,
    patterns: Vec<Pattern>,
    grant_of: Vec<u32>,
    /// For each pattern, the client's own day; empty if the file has no column of days.
    day_of: Vec<Option<AnchorDay>>,
    /// For each pattern, the index of its override: those of the table come first, then the rows of the file.
    origins: Vec<usize>,
    grants: Vec<Grant>,
    known: HashMap<Meaning, u32>,
    /// Indices of the grants in the file, by their spelling.
    spelled: HashMap<String, u32>,
    /// The different windows of the grants, each with the shape of the states that count it.
    windows: HashSet<(Shape, Micros)>,
    has_own_days: bool,
}

/// What tells grants apart: whether one is `blocked`, and its quotas (name, limit, window, algorithm, alignment).
type Meaning = (bool, Vec<(Box<str>, u64, Micros, Algorithm, Align)>);

/// A file of overrides, its rows, and what is wrong with them so far.
type InFile<'f> = (&'f OverridesFile, &'f Rows<'f>, Report);

impl<'f> OverrideCompiler<'f> {
    fn new(table: &'f Table<RawPolicy>, chooser: Chooser<'f>) -> Self {
        Self {
            table,
            chooser,
            patterns: Vec::new(),
            grant_of: Vec::new(),
            day_of: Vec::new(),
            origins: Vec::new(),
            grants: Vec::new(),
            known: HashMap::new(),
            spelled: HashMap::new(),
            windows: HashSet::new(),
            has_own_days: has_own_days(&table.value),
        }
    }

    /// Adds the overrides of the table.
    fn add_table(&mut self, report: &mut Report) {
        for (origin, one) in self.table.value.overrides.0.iter().enumerate() {
            let Spanned { value, span } = &one.pattern;
            let raw = &one.grant.value;
            self.check_keys(raw, report);
            if raw.quota.is_empty() {
                report.mistake(
                    &one.grant.span,
                    "the list of quotas is empty",
                    "at least one quota",
                );
            }
            let grant = self.grant(raw, span, report);
            self.add(origin, (value, span), grant, report);
        }
    }

    /// Adds the rows of the file, which come after the table.
    fn add_rows(&mut self, rows: &Rows<'_>, report: &mut Report) {
        for (origin, row) in (self.table.value.overrides.0.len()..).zip(&rows.read) {
            let grant = self.spelled(row, report);
            self.add(
                origin,
                (&row.pattern.text, &row.pattern.place),
                grant,
                report,
            );
            if rows.has_days {
                // Overrides of the table have no day, and a pattern that was refused has no entry.
                self.day_of.resize(self.grant_of.len(), None);
                if let (Some(day), Some(of)) = (&row.day, self.day_of.last_mut()) {
                    *of = AnchorDay::parse(&day.text);
                }
            }
        }
    }

    /// Adds the override at `origin`, or reports what is wrong with its pattern.
    fn add(
        &mut self,
        origin: usize,
        (text, place): (&str, &Range<usize>),
        grant: u32,
        report: &mut Report,
    ) {
        // If the partition could not be read, patterns cannot be judged.
        let is_lost = self.table.is_incomplete(POLICY.about.title)
            && !(self.table.has("partition") || self.table.has("overrides_by"));
        match self.chooser.pattern(text) {
            Ok(pattern) => {
                self.patterns.push(pattern);
                self.grant_of.push(grant);
                self.origins.push(origin);
            }
            Err(_) if is_lost => {}
            Err(wrong) => {
                let quoted = || format!("`{}`", self.quoted(text));
                let subject = wrong.subject.map_or_else(quoted, str::to_owned);
                let message = format!("{subject} {}", wrong.problem);
                (report.mistake(place, message, wrong.expected)).maybe_hint(wrong.hint);
            }
        }
    }

    /// Yields the overrides of the table that were added, each with its place.
    fn added(&self) -> impl Iterator<Item = (&Pattern, &Grant, &'f Range<usize>)> {
        let grants = self
            .grant_of
            .iter()
            .map(|index| &self.grants[*index as usize]);
        let table = &self.table.value.overrides.0;
        let places = self
            .origins
            .iter()
            .map(|origin| &table[*origin].pattern.span);
        let patterns = self.patterns.iter().zip(grants).zip(places);
        patterns.map(|((pattern, grant), place)| (pattern, grant, place))
    }

    /// Quotes a pattern as logs would show it: whole if tiers, hosts, methods or routes choose the override.
    ///
    /// A table with a mistake may lack the part that chooses; then the pattern is not shown whole, unless of tiers.
    fn quoted(&self, text: &str) -> String {
        let is_public = |part| matches!(part, &Part::Host | &Part::Method | &Part::Route);
        let mut parts = self.chooser.by.0.iter().flat_map(|choice| &choice.0);
        let is_known = !self.table.is_incomplete(POLICY.about.title);
        if self.chooser.are_tiers || (is_known && parts.all(is_public)) {
            text.to_owned()
        } else {
            quoted(text)
        }
    }

    /// Refuses the keys of an override that do not go with what it grants.
    fn check_keys(&self, grant: &RawGrant, report: &mut Report) {
        let word = grant
            .quota
            .iter()
            .find(|at| !matches!(at.value.quota, GrantText::Quota(_)));
        credits::check_override_key(grant, report);
        for (key, at, owner) in [
            ("burst", &grant.burst, AlgorithmName::Gcra),
            ("queue", &grant.queue, AlgorithmName::LeakyBucket),
        ] {
            let Some(at) = at else { continue };
            if let Some(word) = word {
                let text = display::grant(&word.value.quota);
                let message = format!("`{key}` does not go with `{text}`");
                report.mistake(&at.span, message, "a quota");
            } else {
                let own = grant.quota.iter();
                let mut own = own.filter_map(|at| Some(at.value.algorithm.as_ref()?.value));
                if !own.any(|name| name == owner) {
                    check_key((key, &at.span), owner, self.table.value.algorithm, report);
                }
            }
        }
    }

    /// Returns the index of what a row grants, which is compiled if no row before it is spelled alike.
    fn spelled(&mut self, row: &Row<'_>, report: &mut Report) -> u32 {
        if let Some(index) = self.spelled.get(row.spelled) {
            return *index;
        }
        let (mut quota, mistakes) = (Vec::new(), report.count());
        for field in &row.grant {
            match grant(&field.text) {
                Ok(value) => quota.push(Spanned {
                    value: value.into(),
                    span: field.place.clone(),
                }),
                Err(wrong) => self.say(wrong, field, report),
            }
        }
        let raw = RawGrant {
            quota,
            ..RawGrant::default()
        };
        let index = self.grant(&raw, &row.pattern.place, report);
        if report.count() == mistakes {
            self.spelled.insert(row.spelled.to_owned(), index);
        }
        index
    }

    /// Reports a wrong grant, whose text may be a client's key if columns were swapped.
    fn say(&self, mut wrong: ValueError, field: &CsvField<'_>, report: &mut Report) {
        let text = if may_be_key(&field.text) {
            // A hint that suggests a quota repeats part of the text, which must not be shown.
            wrong.hint = wrong.hint.filter(|hint| !hint.contains(" per "));
            self.quoted(&field.text)
        } else {
            field.text.to_string()
        };
        say(report, wrong, &text, field.place.clone());
    }

    /// Compiles a grant, and returns its index; `place` is that of its pattern.
    fn grant(&mut self, raw: &RawGrant, place: &Range<usize>, report: &mut Report) -> u32 {
        let counting = Counting::of_override(&self.table.value, raw, self.has_own_days);
        let grant = quotas::grant(&self.table.name, &raw.quota, &counting, report);
        let quotas = grant.quotas().iter().map(|one| {
            let quota = &one.quota;
            (
                one.items.name().into(),
                quota.limit,
                quota.window,
                quota.algorithm,
                quota.align,
            )
        });
        let meaning = (grant == Grant::Blocked, quotas.collect());
        let next = u32::try_from(self.grants.len()).expect("a file has fewer than 2^32 grants");
        let index = *self.known.entry(meaning).or_insert(next);
        if index == next {
            let before = self.windows.len();
            self.windows
                .extend(grant.quotas().iter().map(|one| window(&one.quota)));
            if before <= WINDOWS_MAX && self.windows.len() > WINDOWS_MAX {
                let message = "the overrides of this policy have too many different windows";
                let expected = format!("at most {WINDOWS_MAX} windows for all of them");
                (report.mistake(place, message, expected)).hint("a window that others have");
            }
            self.grants.push(grant);
        }
        index
    }

    /// Returns the text and place of a pattern, and whether it is from the file of overrides.
    fn origin<'s>(
        &'s self,
        pattern: usize,
        rows: &'s Rows<'_>,
    ) -> (&'s str, &'s Range<usize>, bool) {
        let (origin, table) = (self.origins[pattern], &self.table.value.overrides.0);
        if let Some(one) = table.get(origin) {
            return (&one.pattern.value, &one.pattern.span, false);
        }
        let pattern = &rows.read[origin - table.len()].pattern;
        (&pattern.text, &pattern.place, true)
    }

    /// Reports patterns that occur twice, and the mistakes in the rows of the file.
    fn report(&self, equal: &[EqualPatterns], file: Option<InFile<'_>>, report: &mut Report) {
        let no_rows = Rows::default();
        let (rows, shown, mut of_file) = match file {
            Some((file, rows, of_file)) if !(equal.is_empty() && of_file.is_empty()) => {
                (rows, Some(self.showable(file, rows)), of_file)
            }
            Some((_, rows, of_file)) => (rows, None, of_file),
            None => (&no_rows, None, Report::default()),
        };
        for pair in equal {
            let (text, place, in_file) = self.origin(pair.second, rows);
            let (_, first, first_in_file) = self.origin(pair.first, rows);
            let report = if in_file { &mut of_file } else { &mut *report };
            let message = format!("there is already an override of `{}`", self.quoted(text));
            report
                .mistake(place, message, "each pattern once")
                .first(Place {
                    file: shown.clone().filter(|_| first_in_file),
                    span: first.clone(),
                });
        }
        let Some(shown) = shown else { return };
        let more = report.absorb_of(&shown, &of_file, MISTAKES_MAX);
        if let Some(place) = self.table.place("overrides_file")
            && more > 0
        {
            let message = format!("`{}` has {more} more mistakes", shown.name);
            report.mistake(place, message, "");
        }
    }

    /// Returns the file as it may be shown: without clients' keys.
    fn showable(&self, file: &OverridesFile, rows: &Rows<'_>) -> Arc<OtherFile> {
        let mut text = file.content.clone().into_bytes();
        let mut hide = |start: usize, secret: Range<usize>| {
            text[start + secret.start..start + secret.end].fill(b'~');
        };
        let fields = rows.read.iter().flat_map(|row| {
            let others = row.grant.iter().chain(&row.day);
            let others = others.filter(|field| may_be_key(&field.text));
            others.chain([&row.pattern]).map(|field| &field.place)
        });
        if !self.chooser.are_tiers {
            for place in fields {
                let secrets = secret_parts(&file.content[place.clone()]).into_iter();
                secrets.for_each(|secret| hide(place.start, secret));
            }
            for place in &rows.unread {
                hide(place.start, behind_shown(&file.content[place.clone()]));
            }
        }
        let text = String::from_utf8(text).expect("whole characters were overwritten");
        OtherFile::new(&file.path, &text)
    }
}

/// Returns what tells a quota's window from others: the shape of its states, and its length.
pub(super) fn window(quota: &Quota) -> (Shape, Micros) {
    (Shape::of(quota), quota.window)
}

/// Most windows that the overrides of a policy have; the store has a table for each.
pub(super) const WINDOWS_MAX: usize = 32;
/// Most mistakes of a file that are reported one by one.
const MISTAKES_MAX: usize = 20;
