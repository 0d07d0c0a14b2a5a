//! Colours, from the sixteen that terminals have, and the styles that replace them if there are none.

use ratatui::style::{Color, Modifier, Style};

/// Styles of the things that stand out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    /// Requests that are refused, or fail.
    pub(super) refused: Style,
    /// Things that need attention.
    pub(super) warning: Style,
    pub(super) strong: Style,
    pub(super) quiet: Style,
}

impl Palette {
    /// Returns the palette with colours, unless the environment wants none (no-color.org).
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
