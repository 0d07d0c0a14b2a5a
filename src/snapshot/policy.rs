//! A policy: whose quota it is, how much it grants, and what single clients may do instead.

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

/// Whose quota it is, how much it grants, and what happens when it is used.
///
/// There may be thousands, so what each request reads comes first, on three cache lines; rarely used parts are boxed.
#[derive(Clone, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct Policy {
    /// What names the client whose quota is spent.
    pub partition: Partition,
    /// How exactly the gateways that share a store keep the policy's quotas.
    pub consistency: Consistency,
    /// What a client without an override may do.
    pub grant: Grant,
    /// What the file lets single clients do instead.
    pub overrides: Option<Arc<Overrides>>,
    /// What operators let single clients do instead for a time; it takes precedence over the file's overrides.
    pub temporary: Option<Arc<TemporaryOverrides>>,
    /// The penalty: after a refusal, it refuses the client for a time.
    pub penalty: Option<Box<PolicyQuota>>,
    /// Where a request's cost is reported; `None` means that it costs
    /// [`AppliedPolicy::cost`](super::AppliedPolicy::cost).
    pub reported_cost: Option<Box<ReportedCost>>,
    /// The part of a request that gives the client's own day, on which its calendar quotas begin.
    pub anchor_by: Option<Box<Choice>>,
    /// What happens to a request without one of the partition's parts.
    pub missing: Missing,
    /// What the policy does to requests beyond its quotas; `None` means that it is off and in no plan.
    pub mode: Option<PolicyMode>,
    /// What happens when the store cannot answer.
    pub on_store_failure: OnStoreFailure,
    /// Which answers count; `None` means all.
    pub counted_answers: Option<Box<CountedAnswers>>,
    /// Candidate quotas that are tried beside the real ones.
    pub candidates: Box<[PolicyQuota]>,
    /// Thresholds at which a client's use is reported, in ascending order.
    pub notify: Box<[Threshold]>,
    /// The policy whose credits pay for requests that this one's quota refuses.
    pub spill: Option<PolicyIndex>,
    /// The policy's name in the file.
    pub name: Arc<str>,
    /// What a unit is called.
    pub unit: Arc<str>,
    /// How the policy's refusals look.
    pub refusal: RefusalStyle,
}

const _: () = assert!(mem::offset_of!(Policy, name) <= 3 * 64);

/// What a policy does to a request that its quotas have no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyMode {
    /// It refuses the request.
    #[default]
    Enforce,
    /// It admits the request, and counts and reports that it would have refused it.
    Shadow,
    /// It admits the request, and tells the upstream and the client that the quota is used up.
    Mark,
}

/// What single clients, or those of a tier, may do instead of what their policy grants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// What an override is chosen by; `None` means the policy's partition.
    pub by: Option<Partition>,
    /// Patterns of the clients that have an override.
    pub patterns: Patterns,
    /// What those clients may do, each grant once.
    pub grants: Vec<Grant>,
    /// For each pattern, the index of its grant.
    pub grant_of: Vec<u32>,
    /// For each pattern, the client's own day, on which its calendar quotas begin; empty if the file names no days.
    pub day_of: Vec<Option<AnchorDay>>,
    /// How many of the patterns come from `overrides_file`.
    pub file_rows: usize,
    /// The part whose value clients can choose freely, if a glob for it grants something.
    pub inventable_glob: Option<Part>,
}

/// The override of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// Who granted the override.
    pub origin: OverrideOrigin,
    /// The index of what the override grants, among the grants of its origin.
    pub grant: usize,
}

/// Who decided what a client may do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideOrigin {
    /// The file: this pattern of the policy's [`Overrides`].
    File(usize),
    /// An operator, for a time: [`TemporaryOverrides`].
    Operator,
}

impl Overrides {
    /// Returns how many patterns have this grant.
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
    /// Returns what a client's override is chosen by: the `overrides_by` of the file, or the partition.
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

    /// Returns the day that the file has for a client, even if an operator's override is in force; `client` returns the
    /// client's values for a partition.
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

    /// Returns the header in which clients report what their requests cost, if they do.
    pub fn request_cost_header(&self) -> Option<&HeaderName> {
        let reported = self
            .reported_cost
            .as_ref()?
            .header_of(CostSource::Request)?;
        Some(&reported.header)
    }

    /// Whether any client may have an override.
    pub fn has_overrides(&self) -> bool {
        self.overrides.is_some() || self.temporary.is_some()
    }

    /// Returns this policy's credits that a request may spend in place of another policy's quota; none if it may not.
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

    /// Finds the override that applies to a request, whose partition has this id.
    pub fn find_override(&self, facts: &Facts<'_>, partition_id: PartitionId) -> Option<Override> {
        self.find_override_of(&[partition_id], |of| NamedClient::of_request(of, facts))
    }

    /// Finds the override of a client by its partition ids and by its values for a partition, which `client` returns if
    /// they are known.
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

    /// Returns what a client with this override may do; without one, the policy's own grant.
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

    /// Makes a check of one of the policy's quotas alone, for `cost` units, as if a request had to meet no other.
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

    /// Returns what happens to one of the policy's quotas when the store cannot answer. A balance cannot be counted
    /// locally, because no gateway has a share of it.
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

    /// Returns how bodies report what requests cost, if they do.
    pub fn body_cost(&self) -> Option<&BodyCost<NumberSource>> {
        self.reported_cost.as_ref()?.body()
    }

    /// Returns the largest number of quotas, penalties and spills that decide one request; candidates are tried only
    /// where no override applies.
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
