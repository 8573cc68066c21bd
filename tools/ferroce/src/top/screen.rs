//! The screen: samples, keys and signals in one loop. What is shown and what keys do is in
//! [`state`], which knows no terminal; how it looks in [`draw`].

mod details;
mod draw;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::report::{Before, report};
use super::sample::Sampler;
use crate::error::Error;
use draw::Theme;
use state::{State, Turn};

/// How long a signal may wait: the kernel may give it to a moment in which nobody waits.
const LOOK: Duration = Duration::from_millis(200);

/// Shows the screen until the user has had enough, or a signal ends it.
pub(super) fn run(mut sampler: Sampler, interval: Duration) -> Result<(), Error> {
    // What cannot be shown at all is said on the terminal as it is.
    let (first, mut before) = report(&sampler.sample()?, None);
    let mut state = State::new(interval);
    state.take(first);

    let ended = watch_signals().map_err(Error::io("waiting for signals"))?;
    let mut terminal = ratatui::try_init().map_err(Error::io("setting the terminal up"))?;
    let shown = show(&mut terminal, &mut sampler, &mut state, &mut before, &ended);
    ratatui::try_restore().map_err(Error::io("restoring the terminal"))?;
    shown.map_err(Error::io("the terminal"))?;

    match ended.load(Ordering::Relaxed) as i32 {
        0 => Ok(()),
        // The exit status says what ended it.
        signal => signal_hook::low_level::emulate_default_handler(signal)
            .map_err(Error::io("ending as the signal says")),
    }
}

/// Has the number of a signal that is to end this program stored.
fn watch_signals() -> io::Result<Arc<AtomicUsize>> {
    let ended = Arc::new(AtomicUsize::new(0));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register_usize(signal, ended.clone(), signal as usize)?;
    }
    Ok(ended)
}

fn show(
    terminal: &mut DefaultTerminal,
    sampler: &mut Sampler,
    state: &mut State,
    before: &mut Before,
    ended: &AtomicUsize,
) -> io::Result<()> {
    let theme = Theme::of_environment();
    let mut next = Instant::now() + state.interval;

    while ended.load(Ordering::Relaxed) == 0 {
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
        if wait_for_key(state, next)? == Turn::Quit {
            return Ok(());
        }
    }

    Ok(())
}

/// Hands the state keys until the next sample is due, or one of them changes what is to be seen.
fn wait_for_key(state: &mut State, next: Instant) -> io::Result<Turn> {
    let left = next.saturating_duration_since(Instant::now());
    if !event::poll(left.min(LOOK))? {
        return Ok(Turn::Go);
    }

    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => state.key(key),
        _ => Turn::Go,
    })
}
