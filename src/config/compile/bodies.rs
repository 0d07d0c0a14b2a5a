//! What the policies of a route read from bodies: each pointer once, so that one pass finds all of them.

use std::sync::Arc;

use crate::config::file::{RawRoute, Table};
use crate::config::report::Report;
use crate::cost::{
    BadPointers, BodyCost, JsonPointer, NumberIndex, NumberSource, POINTERS_MAX, PointerUse,
    Pointers,
};
use crate::snapshot::RouteBodies;

/// What is read from a route's bodies, collected policy by policy.
#[derive(Default)]
pub(super) struct BodiesRead {
    request: Vec<(JsonPointer, PointerUse)>,
    response: Vec<(JsonPointer, PointerUse)>,
    reads_requests: bool,
    is_any: bool,
}

impl BodiesRead {
    /// Adds what a policy reads, and returns its cost with the index of each number in place of its source.
    pub(super) fn place(&mut self, cost: &BodyCost<NumberSource>) -> BodyCost<NumberIndex> {
        self.is_any = true;
        self.reads_requests |= cost.reads_requests();
        cost.map(|source, wanted| match source {
            NumberSource::RequestJson(pointer) => {
                NumberIndex::RequestJson(position(&mut self.request, pointer, wanted))
            }
            NumberSource::RequestBytes => NumberIndex::RequestBytes,
            NumberSource::ResponseJson(pointer) => {
                NumberIndex::ResponseJson(position(&mut self.response, pointer, wanted))
            }
            NumberSource::ResponseBytes => NumberIndex::ResponseBytes,
        })
    }

    /// Compiles what was collected, or returns `None` if no policy reads bodies, or the pointers are too many.
    pub(super) fn compile(
        self,
        table: &Table<RawRoute>,
        report: &mut Report,
    ) -> Option<Arc<RouteBodies>> {
        let mut pointers = |them: &[(JsonPointer, PointerUse)], of: &str| {
            let count = them.len();
            let pointers = Pointers::new(them).map_err(|bad| match bad {
                BadPointers::TooMany => {
                    let message = format!("the route's policies look for {count} numbers in {of}");
                    (report.mistake(&table.span, message, format!("at most {POINTERS_MAX}")))
                        .hint("policies that look for the same pointer look for one number");
                }
                BadPointers::TooManyPaths => {
                    let message = format!("the JSON Pointers into {of} have too many `*`");
                    (report.mistake(&table.span, message, "fewer of them"))
                        .hint("each `*` beside a key multiplies what has to be looked for");
                }
            });
            pointers.ok().map(Arc::new)
        };
        let request = pointers(&self.request, "requests");
        let response = pointers(&self.response, "answers");
        let bodies = RouteBodies {
            request: request?,
            response: response?,
            reads_requests: self.reads_requests,
            response_format: table.value.response_format,
            stream_end: table.value.stream_end.clone(),
        };
        self.is_any.then(|| Arc::new(bodies))
    }
}

/// Returns the position of a pointer in a list, to which it is added if it is new.
fn position(
    pointers: &mut Vec<(JsonPointer, PointerUse)>,
    pointer: &JsonPointer,
    wanted: PointerUse,
) -> usize {
    let is_same = |(known, so): &(JsonPointer, PointerUse)| known == pointer && *so == wanted;
    let known = pointers.iter().position(is_same);
    known.unwrap_or_else(|| {
        pointers.push((pointer.clone(), wanted));
        pointers.len() - 1
    })
}
