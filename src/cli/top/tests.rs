//! Whole screens, from what a gateway sent.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use ratatui::text::Span;
use serde_json::{Value, json};

use super::model::{GatewayView, Outage};
use super::palette::Palette;
use super::screen::{Move, Navigation, draw, written};
use super::text::SafeText;
use super::wire::{LiveHistory, LiveStep};
use crate::clock::{Micros, Timestamp};

const NOW: Timestamp = Timestamp(1_000_000_000);

/// Ten minutes with a burst: `per-client` refuses most of it, `per-key` a little.
fn history() -> LiveHistory {
    let burst = |from: usize, to: usize, count: u64| {
        let counts = (0..300).map(move |step| if (from..to).contains(&step) { count } else { 2 });
        counts.collect::<Vec<u64>>()
    };
    let history = json!({
        "step_ms": 2000,
        "totals": {
            "requests": burst(200, 300, 440),
            "refused": burst(230, 300, 82),
            "failed": burst(290, 294, 20),
        },
        "policies": [
            { "name": "per-client", "admitted": burst(200, 300, 358), "refused": burst(230, 300, 80) },
            { "name": "per-key", "admitted": burst(200, 300, 100), "refused": burst(230, 300, 2) },
        ],
        "routes": [{ "name": "api", "requests": burst(200, 300, 440), "refused": burst(230, 300, 82) }],
    });
    serde_json::from_value(history).expect("a history")
}

/// Redis is down, an endpoint is ejected, and the last reload found a mistake.
fn troubled_step() -> Value {
    json!({
        "time": "2026-11-28T14:00:02.000Z",
        "totals": { "requests": 440, "refused": 82, "failed": 6 },
        "policies": [
            { "name": "per-client", "admitted": 358, "refused": 80, "near_limit": 8 },
            { "name": "per-key", "admitted": 100, "refused": 2, "would_refuse": 12 },
        ],
        "routes": [{ "name": "api", "requests": 440, "refused": 82, "failed": 6 }],
        "top": {
            "refused": [
                { "policy": "per-client", "client": "203.0.113.0/24", "at_least": 812, "at_most": 815 },
                { "policy": "per-key", "client": "live~1f2e3d4c", "at_least": 40, "at_most": 40 },
            ],
            "nearest": [
                { "policy": "per-client", "client": "198.51.100.7", "used_percent": 98.0, "remaining": 2, "limit": 100 },
            ],
        },
        "notifications": [{
            "at": "2026-11-27T23:59:59.000Z", "policy": "per-client", "client": "198.51.100.7",
            "quota": "100 per minute", "threshold_percent": 80,
        }],
        "overview": {
            "version": "0.2.0", "started": "2026-11-28T09:00:00.000Z", "ready": true,
            "configuration": { "file": "/etc/tollgate/gateway.toml" },
        },
        "store": {
            "kind": "redis", "state": "down",
            "text": "Redis does not answer: until it does, requests are decided as on_store_failure says.",
            "decisions_per_second": { "redis": 0, "remembered": 12, "failed": 208 },
        },
        "endpoints": {
            "total": 3, "available": 2,
            "troubled": [{ "upstream": "api", "name": "10.0.0.1:8000", "text": "health checks fail" }],
        },
        "reload": {
            "time": "2026-11-28T13:58:01.000Z", "result": "mistakes", "source": "SIGHUP",
            "text": "One mistake, so the old configuration stays: line 8: a quota such as \"100 per minute\"",
        },
    })
}

fn view(step: Value) -> GatewayView {
    let mut view = GatewayView::new(history(), NOW);
    let step: LiveStep = serde_json::from_value(step).expect("a step");
    view.step(step, NOW);
    view
}

fn drawn(
    view: &GatewayView,
    navigation: &mut Navigation,
    palette: Palette,
    size: (u16, u16),
) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a terminal");
    let now = NOW + Micros::from_secs(1);
    terminal
        .draw(|frame| {
            let area = frame.area();
            draw(view, navigation, &palette, now, area, frame.buffer_mut());
        })
        .expect("it draws");
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> String {
    let rows = buffer.content.chunks(buffer.area.width.into());
    let rows = rows.map(|row| {
        let row: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        row.trim_end().to_owned() + "\n"
    });
    rows.collect()
}

fn screen(view: &GatewayView, navigation: &mut Navigation, size: (u16, u16)) -> String {
    lines(&drawn(view, navigation, Palette::coloured(), size))
}

#[test]
fn a_small_terminal_shows_the_lists_that_fit() {
    let view = view(troubled_step());
    let mut navigation = Navigation::default();
    insta::assert_snapshot!("small", screen(&view, &mut navigation, (80, 24)));
    for expected in [
        "Routes",
        "Clients refused most",
        "Clients nearest",
        "Notifications",
        "Store, end",
        "Policies",
    ] {
        navigation.go(Move::NextPane);
        assert!(
            screen(&view, &mut navigation, (80, 24)).contains(expected),
            "{expected}"
        );
    }
    navigation.go(Move::PreviousPane);
    let health = screen(&view, &mut navigation, (80, 24));
    assert!(
        health.contains("\napi 10.0.0.1:8000: health checks fail\n"),
        "{health}"
    );
}

#[test]
fn a_large_terminal_shows_everything_at_once() {
    let view = view(troubled_step());
    let shown = screen(&view, &mut Navigation::default(), (140, 45));
    insta::assert_snapshot!("large", shown);
}

#[test]
fn text_has_everything_and_no_colours() {
    let step = serde_json::from_value(troubled_step()).expect("a step");
    insta::assert_snapshot!(
        "text",
        written(&GatewayView::once(history(), step, NOW), 100)
    );
}

#[test]
fn an_outage_is_said_and_keys_are_explained() {
    let mut view = view(troubled_step());
    view.outage = Some(Outage {
        reason: SafeText::of("no gateway listens at 127.0.0.1:9090"),
        retry_at: NOW + Micros::from_secs(5),
    });
    let mut navigation = Navigation::default();
    let shown = screen(&view, &mut navigation, (80, 24));
    let said = "no news: next try in 4 s: no gateway listens at 127.0.0.1:9090\n";
    assert!(shown.contains(said), "{shown}");
    navigation.go(Move::Keys);
    assert!(screen(&view, &mut navigation, (80, 24)).contains("┌ Keys ─"));
    navigation.go(Move::Keys);
    assert_eq!(screen(&view, &mut navigation, (80, 24)), shown);
}

#[test]
fn a_list_scrolls_as_far_as_it_goes() {
    let mut step = troubled_step();
    let policy = |number| json!({ "name": format!("policy-{number:02}"), "refused": 90 - number });
    step["policies"] = (0..40).map(policy).collect();
    let (view, mut navigation) = (view(step), Navigation::default());
    let shown = screen(&view, &mut navigation, (80, 24));
    assert!(shown.contains("─ 1–5 of 42\n"), "{shown}");
    navigation.go(Move::Down(1000));
    let shown = screen(&view, &mut navigation, (80, 24));
    assert!(shown.contains("─ 38–42 of 42\n"), "{shown}");
    navigation.go(Move::Up(1));
    let shown = screen(&view, &mut navigation, (80, 24));
    assert!(shown.contains("─ 37–41 of 42\n"), "{shown}");
}

#[test]
fn the_headline_says_what_happens_in_plain_words() {
    let said = |requests: u64, refused: u64, failed: u64| {
        let counts = |count: u64| vec![count; 5];
        let history = json!({
            "step_ms": 2000,
            "totals": { "requests": counts(requests), "refused": counts(refused), "failed": counts(failed) },
            "policies": [{ "name": "p", "refused": counts(refused) }],
        });
        let history = serde_json::from_value(history).expect("a history");
        let view = GatewayView::new(history, NOW);
        super::summary::headline(&view, &Palette::coloured()).to_string()
    };
    assert_eq!(said(0, 0, 0), "no requests in the last 10 s");
    assert_eq!(said(440, 0, 0), "220 requests a second, none refused");
    assert_eq!(
        said(440, 82, 0),
        "41 of 220 requests a second are refused, by p"
    );
    assert_eq!(
        said(440, 1, 4),
        "0.5 of 220 requests a second are refused, by p; 2.0 fail"
    );
    assert_eq!(
        said(4, 1, 1),
        "5 of 20 requests in the last 10 s were refused, by p; 5 failed"
    );
}

#[test]
fn only_what_is_refused_or_fails_is_red_and_without_colours_nothing_is_coloured() {
    let view = view(troubled_step());
    let coloured = drawn(
        &view,
        &mut Navigation::default(),
        Palette::coloured(),
        (140, 45),
    );
    let of_colour = |color: Color| {
        let cells = coloured.content.iter().filter(|cell| cell.fg == color);
        cells.map(ratatui::buffer::Cell::symbol).collect::<String>()
    };
    let red: String = of_colour(Color::Red).split_whitespace().collect();
    let bars = |c: char| ('▁'..='█').contains(&c);
    assert_eq!(red.replace(bars, ""), "411.4fail40410.61.0812–81540");
    assert!(of_colour(Color::Yellow).starts_with("down: Redis does not answer"));
    let colours = coloured.content.iter().map(|cell| cell.fg);
    let others: Vec<_> = colours
        .filter(|color| ![Color::Reset, Color::Red, Color::Yellow].contains(color))
        .collect();
    assert_eq!(others, Vec::<Color>::new());
    let plain = drawn(
        &view,
        &mut Navigation::default(),
        Palette::colourless(),
        (140, 45),
    );
    assert!(
        plain
            .content
            .iter()
            .all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset))
    );
}

#[test]
fn hostile_names_neither_reach_the_terminal_nor_move_what_stands_beside_them() {
    let hostile = [
        "\u{1b}[2J\u{1b}]0;owned\u{7}",
        "\u{202e}\u{2066}gnp.exe",
        "a\r\nb\tc\u{8}\u{8}",
        "東京都庁東京都庁東京都庁東京都庁東京都庁東京都庁東京都庁東京都庁東京都庁",
        "e\u{301}\u{301}\u{301}\u{301}\u{200d}\u{feff}\u{ad}",
        "\u{9b}31m\u{85}\u{2028}",
        "🇩🇪👩\u{200d}👩\u{200d}👧👍🏽\u{fe0f}",
        "שלום \u{200f}عربى",
        &"\u{202e}x".repeat(5000),
    ];
    let mut step = troubled_step();
    let refused =
        |name: &&str| json!({ "policy": name, "client": name, "at_least": 7, "at_most": 7 });
    let nearest =
        |name: &&str| json!({ "policy": "p", "client": name, "used_percent": 1.0, "limit": 9 });
    let notified = |name: &&str| json!({ "policy": name, "client": name, "quota": name });
    let counted = |name: &&str| json!({ "name": name, "refused": 3 });
    step["top"]["refused"] = hostile.iter().map(refused).collect();
    step["top"]["nearest"] = hostile.iter().map(nearest).collect();
    step["notifications"] = hostile.iter().map(notified).collect();
    step["policies"] = hostile.iter().map(counted).collect();
    step["routes"] = hostile.iter().map(counted).collect();
    step["store"]["text"] = hostile.concat().into();
    step["reload"]["text"] = hostile.concat().into();
    step["overview"]["configuration"]["file"] = hostile[0].into();
    let view = view(step);
    let is_forbidden = |c: char| c.is_control() || Span::raw(c.to_string()).width() == 0;
    let mut navigation = Navigation::default();
    for size in [(80, 24), (140, 45), (30, 8), (5, 2)] {
        for _ in 0..6 {
            navigation.go(Move::NextPane);
            let buffer = drawn(&view, &mut navigation, Palette::coloured(), size);
            let cells = || buffer.content.iter().map(ratatui::buffer::Cell::symbol);
            let found: Vec<_> = cells()
                .filter(|symbol| symbol.contains(is_forbidden))
                .collect();
            assert_eq!(found, Vec::<&str>::new(), "{size:?}");
        }
    }
    let text = written(&view, 100);
    let found: Vec<_> = text
        .chars()
        .filter(|c| *c != '\n' && is_forbidden(*c))
        .collect();
    assert_eq!(found, Vec::<char>::new());
    // The numbers are in the same columns as beside any other name.
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("Policies"));
    let rows: Vec<_> = rows.skip(2).take(hostile.len()).collect();
    assert!(
        rows.iter().all(|row| Span::raw(*row).width() == 100),
        "{rows:#?}"
    );
}
