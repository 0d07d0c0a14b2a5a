//! Colours, which terminals have sixteen of, and what takes their place without.

use ratatui::style::{Color, Modifier, Style};

/// How what is shown stands out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    /// Requests that are refused, or fail.
    pub(super) refused: Style,
    /// What somebody should look at.
    pub(super) warning: Style,
    pub(super) strong: Style,
    pub(super) quiet: Style,
}

impl Palette {
    /// With colours, unless the environment wants none (no-color.org).
    pub(super) fn of_environment() -> Self {
        match std::env::var_os("NO_COLOR") {
            Some(value) if !value.is_empty() => Self::colourless(),
            _ => Self::coloured(),
        }
    }

    pub(super) fn coloured() -> Self {
        Self {
            refused: Style::new().fg(Color::Red),
            warning: Style::new().fg(Color::Yellow),
            ..Self::colourless()
        }
    }

    pub(super) fn colourless() -> Self {
        let strong = Style::new().add_modifier(Modifier::BOLD);
        Self {
            refused: strong,
            warning: strong,
            strong,
            quiet: Style::new().add_modifier(Modifier::DIM),
        }
    }
}
