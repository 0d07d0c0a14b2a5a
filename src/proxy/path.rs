//! One normalised path, for matching and for forwarding.
