//! Answers of an origin that break the rules never reach the next client.
