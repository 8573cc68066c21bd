//! The screen: samples, keys and signals in one loop. What is shown and what keys do is in
//! [`state`], which knows no terminal; how it looks in [`draw`].

mod details;
mod draw;
mod keyboard;
mod signals;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::process::{Signal, kill_current_process_group};

use super::report::{Before, report};
use super::sample::Sampler;
use crate::error::Error;
use draw::Theme;
use keyboard::Keyboard;
use signals::Signals;
use state::{State, Turn};

/// How long a signal may wait: the kernel may give it to a moment in which nobody waits.
const LOOK: Duration = Duration::from_millis(200);

/// Shows the screen until the user has had enough, or a signal ends it.
pub(super) fn run(mut sampler: Sampler, interval: Duration) -> Result<(), Error> {
    // What cannot be shown at all is said on the terminal as it is.
    let (first, mut before) = report(&sampler.sample()?, None);
    let mut state = State::new(interval);
    state.take(first);

    let signals = Signals::watch().map_err(Error::io("waiting for signals"))?;
    let mut terminal = ratatui::try_init().map_err(Error::io("setting the terminal up"))?;
    let shown = show(
        &mut terminal,
        &mut sampler,
        &mut state,
        &mut before,
        &signals,
    );
    ratatui::try_restore().map_err(Error::io("restoring the terminal"))?;
    shown.map_err(Error::io("the terminal"))?;

    match signals.ended() {
        None => Ok(()),
        // The exit status says what ended it.
        Some(signal) => signal_hook::low_level::emulate_default_handler(signal)
            .map_err(Error::io("ending as the signal says")),
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    sampler: &mut Sampler,
    state: &mut State,
    before: &mut Before,
    signals: &Signals,
) -> io::Result<()> {
    let theme = Theme::of_environment();
    let keyboard = Keyboard::open()?;
    let mut next = Instant::now() + state.interval;

    while signals.ended().is_none() {
        signals.obey(terminal)?;
        if Instant::now() >= next {
            next = (next + state.interval).max(Instant::now());
            if !state.paused {
                match sampler.sample() {
                    Ok(sample) => {
                        let (shown, kept) = report(&sample, Some(before));
                        *before = kept;
                        state.take(shown);
                    }
                    Err(error) => state.fail(error.to_string()),
                }
            }
        }

        terminal.draw(|frame| draw::screen(frame, state, &theme))?;
        match wait_for_keys(&keyboard, state, next)? {
            Turn::Go => {}
            Turn::Quit => return Ok(()),
            // As the terminal does where it has not been told to leave keys alone: a shell script
            // around this program is to stop as well.
            Turn::Suspend => kill_current_process_group(Signal::TSTP)?,
        }
    }

    Ok(())
}

/// Hands the state the keys that come until the next sample is due.
fn wait_for_keys(keyboard: &Keyboard, state: &mut State, next: Instant) -> io::Result<Turn> {
    let left = next.saturating_duration_since(Instant::now());
    keyboard.wait(left.min(LOOK))?;
    while event::poll(Duration::ZERO)? {
        let turn = match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => state.key(key),
            _ => Turn::Go,
        };
        if turn != Turn::Go {
            return Ok(turn);
        }
    }
    Ok(Turn::Go)
}
