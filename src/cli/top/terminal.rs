//! The terminal: draws the screen, reads keys, and restores the terminal however this ends.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, read};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::feed::{self, LiveUpdate};
use super::model::{GatewayView, Outage};
use super::palette::Palette;
use super::screen::{Move, Navigation, draw};
use crate::cli::client::AdminEvents;
use crate::clock::{Clock, Micros};

/// The terminal while it shows the screen; it is restored at the end, and after a panic, too.
struct FullScreen(DefaultTerminal);

/// An input of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Typed {
    Quit,
    Move(Move),
    /// The terminal was resized.
    Resized,
}

/// Signals that end the screen.
struct EndSignals([Signal; 3]);

impl FullScreen {
    fn enter() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        // After a panic, ratatui's hook has restored the terminal already, and it shows the panic's message.
        if !thread::panicking() {
            // If the terminal is gone, there is nothing to restore, and nobody to tell.
            let _ = ratatui::try_restore();
        }
    }
}

/// Shows the updates of a stream until the user quits, or a signal ends that.
///
/// # Errors
/// The terminal's error.
pub(super) async fn show(
    path: &Path,
    mut view: GatewayView,
    events: AdminEvents,
    clock: &Clock,
) -> io::Result<()> {
    let mut signals = EndSignals::new()?;
    let mut screen = FullScreen::enter()?;
    let mut typed = keys()?;
    let (sender, mut updates) = mpsc::channel(UPDATES_MAX);
    let following = feed::follow(path, events, sender);
    tokio::pin!(following);
    let (palette, mut navigation) = (Palette::of_environment(), Navigation::default());
    let mut ageing = tokio::time::interval(Duration::from_secs(1));
    loop {
        let now = clock.steady();
        screen.0.draw(|frame| {
            let area = frame.area();
            draw(
                &view,
                &mut navigation,
                &palette,
                now,
                area,
                frame.buffer_mut(),
            );
        })?;
        tokio::select! {
            typed = typed.recv() => match typed {
                Some(Ok(Typed::Move(step))) => navigation.go(step),
                Some(Ok(Typed::Resized)) => {}
                Some(Ok(Typed::Quit)) | None => return Ok(()),
                Some(Err(error)) => return Err(error),
            },
            update = updates.recv() => if let Some(update) = update {
                take(&mut view, update, clock);
            },
            () = &mut following => return Ok(()),
            () = signals.come() => return Ok(()),
            _ = ageing.tick() => {}
        }
    }
}

fn take(view: &mut GatewayView, update: LiveUpdate, clock: &Clock) {
    let now = clock.steady();
    match update {
        LiveUpdate::History(history) => view.resume(history, now),
        LiveUpdate::Step(step) => view.step(*step, now),
        LiveUpdate::Broken { reason, retry_in } => {
            let retry_in = u64::try_from(retry_in.as_micros()).unwrap_or(u64::MAX);
            let retry_at = now + Micros(retry_in);
            view.outage = Some(Outage { reason, retry_at });
        }
    }
}

/// Reads keys in a thread of its own, which ends with the process.
fn keys() -> io::Result<Receiver<io::Result<Typed>>> {
    let (sender, receiver) = mpsc::channel(KEYS_MAX);
    thread::Builder::new()
        .name("keys".to_owned())
        .spawn(move || read_keys(&sender))?;
    Ok(receiver)
}

fn read_keys(sender: &Sender<io::Result<Typed>>) {
    loop {
        let event = read();
        let is_last = event.is_err();
        if let Some(typed) = event.map(|event| typed(&event)).transpose() {
            let is_sent = sender.blocking_send(typed).is_ok();
            if is_last || !is_sent {
                return;
            }
        }
    }
}

fn typed(event: &Event) -> Option<Typed> {
    let key = match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        Event::Resize(..) => return Some(Typed::Resized),
        _ => return None,
    };
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if is_control => Typed::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Typed::Quit,
        KeyCode::Char('?') => Typed::Move(Move::Keys),
        KeyCode::Tab => Typed::Move(Move::NextPane),
        KeyCode::BackTab => Typed::Move(Move::PreviousPane),
        KeyCode::Up => Typed::Move(Move::Up(1)),
        KeyCode::Down => Typed::Move(Move::Down(1)),
        KeyCode::PageUp => Typed::Move(Move::Up(10)),
        KeyCode::PageDown => Typed::Move(Move::Down(10)),
        _ => return None,
    })
}

impl EndSignals {
    fn new() -> io::Result<Self> {
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
        ];
        let [terminate, interrupt, hangup] = kinds.map(signal);
        Ok(Self([terminate?, interrupt?, hangup?]))
    }

    /// Waits for one of the signals.
    async fn come(&mut self) {
        let Self([terminate, interrupt, hangup]) = self;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// How many updates, and how many keys, may wait to be shown.
const UPDATES_MAX: usize = 4;
const KEYS_MAX: usize = 16;
