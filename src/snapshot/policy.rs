//! A policy: whose quota, how much, and what single clients may do instead.

use std::mem;
use std::sync::Arc;

use http::HeaderName;

use super::answering::RefusalStyle;
use super::grant::{Grant, PolicyQuota};
use super::settling::{CostSource, CountedAnswers, ReportedCost};
use super::temporary::TemporaryOverrides;
use super::threshold::Threshold;
use crate::cost::{BodyCost, NumberSource};
use crate::index::PolicyIndex;
use crate::limit::plan::{CheckMode, OnStoreFailure, PlanPolicy, SeriesId};
use crate::limit::{AnchorDay, Check, Consistency, PartitionId, Quota};
use crate::request::{Choice, Facts, Missing, NamedClient, Part, Partition, Patterns};

/// Whose quota, how much, and what happens around it.
///
/// There may be thousands, so what each request reads comes first, on three cache lines; what few policies have is boxed.
#[derive(Clone, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct Policy {
    /// Whose quota it is.
    pub partition: Partition,
    /// How exactly gateways that share the store keep its quotas.
    pub consistency: Consistency,
    /// What a client may do that has no override.
    pub grant: Grant,
    /// What single clients may do instead.
    pub overrides: Option<Arc<Overrides>>,
    /// What operators let single clients do instead for a time, before the file's overrides.
    pub temporary: Option<Arc<TemporaryOverrides>>,
    /// What refuses for a time whoever was refused.
    pub penalty: Option<Box<PolicyQuota>>,
    /// Who tells what a request costs; none: [`AppliedPolicy::cost`](super::AppliedPolicy::cost) says it.
    pub reported_cost: Option<Box<ReportedCost>>,
    /// What names each client's own day on which its calendar quotas begin.
    pub anchor_by: Option<Box<Choice>>,
    /// What happens to a request without one of the partition's parts.
    pub missing: Missing,
    /// Whether it refuses; none means that it is off and in no plan.
    pub mode: Option<PolicyMode>,
    /// What happens when the store cannot answer.
    pub on_store_failure: OnStoreFailure,
    /// Which answers count; none: all.
    pub counted_answers: Option<Box<CountedAnswers>>,
    /// Quotas that are tried beside the real ones.
    pub candidates: Box<[PolicyQuota]>,
    /// The thresholds at which clients are reported, the smallest first.
    pub notify: Box<[Threshold]>,
    /// The policy whose credits take what this one's quota refuses.
    pub spill: Option<PolicyIndex>,
    /// Its name in the file.
    pub name: Arc<str>,
    /// What a unit is called.
    pub unit: Arc<str>,
    /// How it refuses.
    pub refusal: RefusalStyle,
}

const _: () = assert!(mem::offset_of!(Policy, name) <= 3 * 64);

/// What a policy does to a request that its quotas have no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyMode {
    /// It refuses.
    #[default]
    Enforce,
    /// It counts and reports.
    Shadow,
    /// It admits, and tells the upstream and the client.
    Mark,
}

/// What single clients, or those of a tier, may do instead of what their policy grants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// What chooses the override; none: the policy's partition.
    pub by: Option<Partition>,
    /// Which clients they are about.
    pub patterns: Patterns,
    /// What they may do, each grant once.
    pub grants: Vec<Grant>,
    /// For each pattern, the index of its grant.
    pub grant_of: Vec<u32>,
    /// For each pattern, the client's own day, on which its calendar quotas begin; empty if the file has none.
    pub day_of: Vec<Option<AnchorDay>>,
    /// How many of the patterns come from `overrides_file`.
    pub file_rows: usize,
    /// A part that clients can send as they like, of which a glob grants something.
    pub inventable_glob: Option<Part>,
}

/// The override of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// Who says so.
    pub origin: OverrideOrigin,
    /// What it grants, as an index into the grants of its origin.
    pub grant: usize,
}

/// Who says what a client may do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideOrigin {
    /// The file: this pattern of the policy's [`Overrides`].
    File(usize),
    /// An operator, for a time: [`TemporaryOverrides`].
    Operator,
}

impl Overrides {
    /// Returns how many patterns have that grant.
    pub fn count_of(&self, grant: &Grant) -> usize {
        let grants = self.grant_of.iter();
        let grants = grants.filter(|index| self.grants[**index as usize] == *grant);
        grants.count()
    }

    fn by_pattern(&self, pattern: usize) -> Override {
        Override {
            origin: OverrideOrigin::File(pattern),
            grant: self.grant_of[pattern] as usize,
        }
    }
}

impl Policy {
    /// Returns what chooses a client's override: what `overrides_by` says, or the partition.
    pub fn overrides_by(&self) -> &Partition {
        let by = self
            .overrides
            .as_ref()
            .and_then(|overrides| overrides.by.as_ref());
        by.unwrap_or(&self.partition)
    }

    /// Whether clients may have days of their own, on which their calendar quotas begin.
    pub fn has_own_days(&self) -> bool {
        let overrides = self.overrides.as_ref();
        self.anchor_by.is_some() || overrides.is_some_and(|of| !of.day_of.is_empty())
    }

    /// Returns the day on which a client's own calendar quotas begin, if it has one.
    pub fn own_day(&self, one: Option<Override>, facts: &Facts<'_>) -> Option<AnchorDay> {
        match &self.anchor_by {
            Some(choice) => AnchorDay::parse(&choice.text(facts)?),
            None => self.own_day_in_file(one, |by| NamedClient::of_request(by, facts)),
        }
    }

    /// Returns the day that a row of the file has for a client, whatever an operator grants it for a time; `client`
    /// returns its values for a partition.
    pub fn own_day_in_file<'p>(
        &'p self,
        one: Option<Override>,
        client: impl FnOnce(&'p Partition) -> Option<NamedClient<'p>>,
    ) -> Option<AnchorDay> {
        let overrides = self.overrides.as_ref().filter(|of| !of.day_of.is_empty())?;
        let pattern = match one?.origin {
            OverrideOrigin::File(pattern) => pattern,
            OverrideOrigin::Operator => overrides.patterns.find(&client(self.overrides_by())?)?,
        };
        *overrides.day_of.get(pattern)?
    }

    /// Yields every part of a request that the policy reads.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        let by = self
            .overrides
            .iter()
            .filter_map(|overrides| overrides.by.as_ref());
        let anchor = self.anchor_by.iter().flat_map(|choice| &choice.0);
        self.partition
            .parts()
            .chain(by.flat_map(Partition::parts))
            .chain(anchor)
    }

    /// Returns the header in which clients tell what their requests cost.
    pub fn request_cost_header(&self) -> Option<&HeaderName> {
        let reported = self
            .reported_cost
            .as_ref()?
            .header_of(CostSource::Request)?;
        Some(&reported.header)
    }

    /// Whether any client may do anything else than others.
    pub fn has_overrides(&self) -> bool {
        self.overrides.is_some() || self.temporary.is_some()
    }

    /// Returns the credits that a request may spend under this policy in another one's place; none if it may not.
    pub fn credits_of(&self, facts: &Facts<'_>, partition_id: PartitionId) -> Option<&PolicyQuota> {
        if self.mode != Some(PolicyMode::Enforce) {
            return None;
        }
        let grant = if self.has_overrides() {
            self.grant_of(self.find_override(facts, partition_id))
        } else {
            &self.grant
        };
        grant.quotas().iter().find(|part| part.quota.is_balance())
    }

    /// Finds the override that the policy has for a request, whose partition has this id.
    pub fn find_override(&self, facts: &Facts<'_>, partition_id: PartitionId) -> Option<Override> {
        self.find_override_of(&[partition_id], |of| NamedClient::of_request(of, facts))
    }

    /// Returns the override of a client: by its partition ids, and by its values for a partition, which `client`
    /// returns if they are known.
    pub fn find_override_of<'p>(
        &'p self,
        ids: &[PartitionId],
        client: impl Fn(&'p Partition) -> Option<NamedClient<'p>>,
    ) -> Option<Override> {
        if let Some(temporary) = &self.temporary
            && let Some(grant) = temporary.find(ids, || client(&self.partition))
        {
            let origin = OverrideOrigin::Operator;
            return Some(Override { origin, grant });
        }
        let overrides = self.overrides.as_ref()?;
        let pattern = overrides.patterns.find(&client(self.overrides_by())?)?;
        Some(overrides.by_pattern(pattern))
    }

    /// Returns what a client may do that has this override.
    pub fn grant_of(&self, one: Option<Override>) -> &Grant {
        let Some(one) = one else {
            return &self.grant;
        };
        let grants = match one.origin {
            OverrideOrigin::File(_) => self.overrides.as_ref().map(|of| &of.grants),
            OverrideOrigin::Operator => self.temporary.as_ref().map(|of| &of.grants),
        };
        grants.map_or(&self.grant, |grants| &grants[one.grant])
    }

    /// Asks one of its quotas alone for so many units, whatever else a request would need.
    pub fn check_alone<'q>(
        &self,
        (quota, series_id): (&'q Quota, SeriesId),
        partition_id: PartitionId,
        cost: u64,
    ) -> Check<'q> {
        Check {
            quota,
            series_id,
            partition_id,
            cost,
            mode: CheckMode::Enforce,
            policy: PlanPolicy(0),
            on_store_failure: self.on_store_failure_of(quota),
            consistency: Consistency::Exact,
        }
    }

    /// Returns what happens to one of its quotas when the store cannot answer: no gateway has a share of a balance.
    pub fn on_store_failure_of(&self, quota: &Quota) -> OnStoreFailure {
        match self.on_store_failure {
            OnStoreFailure::Local if quota.is_balance() => OnStoreFailure::Closed,
            other => other,
        }
    }

    /// Whether an answer can change what a request was charged.
    pub fn is_settled(&self) -> bool {
        self.is_settled_by_head() || self.body_cost().is_some()
    }

    /// Whether the head of an answer can change what a request was charged.
    pub fn is_settled_by_head(&self) -> bool {
        let reported = self.reported_cost.as_ref();
        let by_header = reported.and_then(|reported| reported.header_of(CostSource::Response));
        by_header.is_some() || self.counted_answers.is_some()
    }

    /// Returns how bodies tell what requests cost, if they do.
    pub fn body_cost(&self) -> Option<&BodyCost<NumberSource>> {
        self.reported_cost.as_ref()?.body()
    }

    /// Returns how many quotas and penalties a request is decided by at most; candidates are tried where no override
    /// applies.
    pub fn quotas_max(&self) -> usize {
        let own = self.grant.quotas().len() + self.candidates.len();
        let others = self.grants().map(|grant| grant.quotas().len()).max();
        own.max(others.unwrap_or(0))
            + usize::from(self.penalty.is_some())
            + usize::from(self.spill.is_some())
    }

    /// Yields the policy's own grant, and those of its overrides.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        let others = self
            .overrides
            .iter()
            .flat_map(|overrides| &overrides.grants);
        let temporary = self.temporary.iter().flat_map(|of| &of.grants);
        [&self.grant].into_iter().chain(others).chain(temporary)
    }

    /// Yields every quota that a client may be counted in, candidates and penalties too, and where the store keeps it.
    pub fn every_quota(&self) -> impl Iterator<Item = (&Quota, SeriesId)> {
        let quotas = self.grants().flat_map(Grant::quotas);
        let penalty = self.penalty.as_deref();
        (quotas.chain(&self.candidates).chain(penalty)).flat_map(PolicyQuota::all)
    }
}
