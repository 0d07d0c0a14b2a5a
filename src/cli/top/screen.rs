//! The screen: where each part is shown, given what is known, the user's navigation and the area.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Widget as _};

use super::model::GatewayView;
use super::palette::Palette;
use super::panes::{Pane, PaneContent};
use super::summary;
use super::text::{fitted, shortened, shortened_line, width};
use crate::clock::Timestamp;

/// The list that the user has chosen, and how far lists are scrolled.
#[derive(Debug, Default)]
pub(super) struct Navigation {
    /// Index in [`Pane::ALL`] of the list that the arrow keys scroll.
    focus: usize,
    /// By how many rows each list is scrolled.
    offsets: [usize; Pane::ALL.len()],
    /// Whether the help on keys is shown.
    sees_keys: bool,
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    NextPane,
    PreviousPane,
    Up(usize),
    Down(usize),
    Keys,
}

/// A list and its area on the screen.
struct PlacedPane {
    /// Index of the list in [`Pane::ALL`].
    place: usize,
    area: Rect,
    content: PaneContent,
}

impl Navigation {
    pub(super) fn go(&mut self, step: Move) {
        let was_seeing_keys = std::mem::take(&mut self.sees_keys);
        let offset = &mut self.offsets[self.focus];
        match step {
            Move::NextPane => self.focus = (self.focus + 1) % Pane::ALL.len(),
            Move::PreviousPane => {
                self.focus = (self.focus + Pane::ALL.len() - 1) % Pane::ALL.len();
            }
            Move::Up(rows) => *offset = offset.saturating_sub(rows),
            Move::Down(rows) => *offset = offset.saturating_add(rows),
            Move::Keys => self.sees_keys = !was_seeing_keys,
        }
    }
}

/// Draws everything; limits how far each list is scrolled to what there is to see.
pub(super) fn draw(
    view: &GatewayView,
    navigation: &mut Navigation,
    palette: &Palette,
    now: Timestamp,
    area: Rect,
    buffer: &mut Buffer,
) {
    let columns = usize::from(area.width);
    let sparkline_height = if area.height >= TALL { 2 } else { 1 };
    let mut lines = vec![
        summary::title(view, palette, now, columns),
        shortened_line(summary::headline(view, palette), columns),
    ];
    lines.extend(summary::outage(view, palette, now).map(|line| shortened_line(line, columns)));
    lines.push(Line::styled(
        rule("Last 10 minutes", "", columns),
        palette.quiet,
    ));
    lines.extend(summary::sparklines(
        view,
        palette,
        columns,
        sparkline_height,
    ));
    lines.extend(summary::states(view, palette, columns));
    let count = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    put(lines, area, buffer);
    let rest = area.height.saturating_sub(count + FOOTER);
    let below = Rect::new(area.x, area.y + count.min(area.height), area.width, rest);
    for pane in placed(view, navigation.focus, palette, below) {
        draw_pane(pane, navigation, palette, buffer);
    }
    if area.height > count {
        let last = Rect::new(area.x, area.bottom() - 1, area.width, 1);
        put(vec![Line::styled(FOOTER_TEXT, palette.quiet)], last, buffer);
    }
    if navigation.sees_keys {
        draw_keys(palette, area, buffer);
    }
}

/// Writes everything as text, one part after the other, without colours and in full.
pub(super) fn written(view: &GatewayView, columns: usize) -> String {
    let palette = Palette::colourless();
    let mut lines = vec![
        Line::raw(format!("{}, at {}", summary::name(view), view.latest.time)),
        summary::headline(view, &palette),
        Line::raw(rule("Last 10 minutes", "", columns)),
    ];
    lines.extend(summary::sparklines(view, &palette, columns, 1));
    lines.extend(summary::states(view, &palette, usize::MAX));
    for pane in Pane::ALL {
        let content = pane.content(view, &palette, columns);
        lines.push(Line::raw(rule(&content.title, "", columns)));
        lines.extend(content.header);
        lines.extend(content.rows);
    }
    let lines = lines
        .iter()
        .map(|line| line.to_string().trim_end().to_owned() + "\n");
    lines.collect()
}

/// Returns the lists that there is room for, the chosen one among them.
fn placed(view: &GatewayView, focus: usize, palette: &Palette, area: Rect) -> Vec<PlacedPane> {
    let (per_row, gap) = if area.width >= WIDE { (2, GAP) } else { (1, 0) };
    let columns = area.width / per_row;
    let width = columns.saturating_sub(gap);
    let per_row = usize::from(per_row);
    let contents = Pane::ALL.map(|pane| pane.content(view, palette, width.into()));
    let heights = contents
        .chunks(per_row)
        .map(|row| row.iter().map(height).max());
    let heights: Vec<u16> = heights.map(Option::unwrap_or_default).collect();
    let rows = page(&heights, focus / per_row, area.height);
    let shares = shares(&heights[rows.clone()], area.height);
    let mut tops = Vec::new();
    let mut top = area.y;
    for share in shares {
        tops.push((top, share));
        top += share;
    }
    let contents = contents.into_iter().enumerate();
    let shown = contents.filter(|(place, _)| rows.contains(&(place / per_row)));
    let placed = shown.map(|(place, content)| {
        let (top, height) = tops[place / per_row - rows.start];
        let column = u16::try_from(place % per_row).unwrap_or(0);
        let area = Rect::new(area.x + column * columns, top, width, height);
        PlacedPane {
            place,
            area,
            content,
        }
    });
    placed.collect()
}

/// Returns which rows of lists are shown together: as many as there is room for, with the row `shown` among them.
fn page(needed: &[u16], shown: usize, lines: u16) -> Range<usize> {
    let mut first = 0;
    loop {
        let mut left = lines;
        let fitting = needed[first..].iter().take_while(|needed| {
            let least = (**needed).min(PANE_HEIGHT);
            let fits = least <= left;
            left = left.saturating_sub(least);
            fits
        });
        let end = first + fitting.count().max(1);
        if shown < end {
            return first..end;
        }
        first = end;
    }
}

/// Returns how many lines a list takes with its title.
fn height(content: &PaneContent) -> u16 {
    let lines = 1 + usize::from(content.header.is_some()) + content.rows.len();
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// Shares lines among rows of lists, evenly until each has what it needs; if enough are left, each gets a blank one.
fn shares(needed: &[u16], lines: u16) -> Vec<u16> {
    let mut shares = vec![0; needed.len()];
    let mut left = lines;
    while left > 0 {
        let before = left;
        for (share, needed) in shares.iter_mut().zip(needed) {
            if *share < *needed && left > 0 {
                *share += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    if usize::from(left) >= shares.len() {
        for share in &mut shares {
            *share += 1;
        }
    }
    shares
}

fn draw_pane(
    pane: PlacedPane,
    navigation: &mut Navigation,
    palette: &Palette,
    buffer: &mut Buffer,
) {
    let PlacedPane {
        place,
        area,
        content,
    } = pane;
    let heading = 1 + usize::from(content.header.is_some());
    let room = usize::from(area.height).saturating_sub(heading);
    let count = content.rows.len();
    let offset = &mut navigation.offsets[place];
    *offset = (*offset).min(count.saturating_sub(room));
    let is_whole = count <= room;
    let seen = if is_whole {
        String::new()
    } else {
        format!("{}–{} of {count}", *offset + 1, (*offset + room).min(count))
    };
    let style = if place == navigation.focus {
        palette.strong
    } else {
        palette.quiet
    };
    let mut lines = vec![Line::styled(
        rule(&content.title, &seen, area.width.into()),
        style,
    )];
    lines.extend(content.header);
    lines.extend(content.rows.into_iter().skip(*offset).take(room));
    put(lines, area, buffer);
}

/// Returns a title followed by a rule, with `end` at its end.
fn rule(title: &str, end: &str, columns: usize) -> String {
    let title = shortened(title, columns);
    let end = if end.is_empty() {
        String::new()
    } else {
        format!(" {end}")
    };
    let line = columns.saturating_sub(width(&title) + 1 + width(&end));
    format!("{title} {}{end}", "─".repeat(line))
}

fn draw_keys(palette: &Palette, area: Rect, buffer: &mut Buffer) {
    let lines = KEYS.map(|(key, does)| {
        let key = Span::styled(fitted(key, 12), palette.strong);
        Line::from(vec![Span::raw(" "), key, Span::raw(does)])
    });
    let height = u16::try_from(KEYS.len()).unwrap_or(u16::MAX) + 2;
    let area = area.centered(Constraint::Length(50), Constraint::Length(height));
    Clear.render(area, buffer);
    let keys = Paragraph::new(lines.to_vec()).block(Block::bordered().title(" Keys "));
    keys.render(area, buffer);
}

fn put(lines: Vec<Line<'static>>, area: Rect, buffer: &mut Buffer) {
    Paragraph::new(lines).render(area.intersection(buffer.area), buffer);
}

const KEYS: [(&str, &str); 5] = [
    ("Tab", "the next list; Shift-Tab: the one before"),
    ("↑ ↓", "scroll the list"),
    ("PgUp PgDn", "scroll it by ten lines"),
    ("?", "show or hide these keys"),
    ("q Esc ^C", "quit"),
];
const FOOTER_TEXT: &str = "q quit   Tab next list   ↑ ↓ scroll   ? keys";
const FOOTER: u16 = 1;
/// Fewest lines of a terminal in which sparklines have two lines.
const TALL: u16 = 40;
/// Fewest columns of a terminal in which lists are side by side.
const WIDE: u16 = 120;
/// Fewest lines of a list, if it needs that many.
const PANE_HEIGHT: u16 = 6;
/// Columns between two lists.
const GAP: u16 = 2;
