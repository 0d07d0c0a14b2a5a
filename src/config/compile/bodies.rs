//! What the policies of a route read of bodies: each pointer once, for one pass over all of them.

use std::sync::Arc;

use crate::config::file::{RawRoute, Table};
use crate::config::report::Report;
use crate::cost::{BodyCost, JsonPointer, NumberIndex, NumberSource, POINTERS_MAX, Pointers};
use crate::snapshot::RouteBodies;

/// What is read of a route's bodies, policy by policy.
#[derive(Default)]
pub(super) struct BodiesRead {
    request: Vec<JsonPointer>,
    response: Vec<JsonPointer>,
    reads_requests: bool,
    is_any: bool,
}

impl BodiesRead {
    /// Adds what a policy reads, and says where it finds that.
    pub(super) fn place(&mut self, cost: &BodyCost<NumberSource>) -> BodyCost<NumberIndex> {
        self.is_any = true;
        self.reads_requests |= cost.reserve.reported().is_some();
        cost.map(|source| match source {
            NumberSource::RequestJson(pointer) => {
                NumberIndex::RequestJson(position(&mut self.request, pointer))
            }
            NumberSource::RequestBytes => NumberIndex::RequestBytes,
            NumberSource::ResponseJson(pointer) => {
                NumberIndex::ResponseJson(position(&mut self.response, pointer))
            }
            NumberSource::ResponseBytes => NumberIndex::ResponseBytes,
        })
    }

    /// Compiles all of it; none if nothing is read.
    pub(super) fn compile(
        self,
        table: &Table<RawRoute>,
        report: &mut Report,
    ) -> Option<Arc<RouteBodies>> {
        let mut pointers = |them: &[JsonPointer], of: &str| {
            let pointers = Pointers::new(them).map_err(|_| {
                let message = format!(
                    "the route's policies look for {} numbers in {of}",
                    them.len()
                );
                (report.mistake(&table.span, message, format!("at most {POINTERS_MAX}")))
                    .hint("policies that look for the same pointer look for one number");
            });
            pointers.ok().map(Arc::new)
        };
        let request = pointers(&self.request, "requests");
        let response = pointers(&self.response, "answers");
        let bodies = RouteBodies {
            request: request?,
            response: response?,
            reads_requests: self.reads_requests,
        };
        self.is_any.then(|| Arc::new(bodies))
    }
}

/// Returns the position of a pointer among others, to which it is added if it is new.
fn position(pointers: &mut Vec<JsonPointer>, pointer: &JsonPointer) -> usize {
    let known = pointers.iter().position(|known| known == pointer);
    known.unwrap_or_else(|| {
        pointers.push(pointer.clone());
        pointers.len() - 1
    })
}
