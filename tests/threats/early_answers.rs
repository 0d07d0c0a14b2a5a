//! Answers that come before a request's body, and requests held before they are forwarded.
