//! Makes what a server says fit for a log.

/// Renders what a server said as one line of bounded length.
pub(super) fn one_line(said: &str) -> String {
    let printed = |c: char| if c.is_control() { ' ' } else { c };
    said.chars().take(SAID_CHARS_MAX).map(printed).collect()
}

/// Most characters kept of what a server said.
const SAID_CHARS_MAX: usize = 200;
