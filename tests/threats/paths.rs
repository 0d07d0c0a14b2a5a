//! No spelling of a path or a host slips past a route's policies.
