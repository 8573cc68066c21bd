//! Signals that end the screen, stop it for a while or have it go on, and what becomes of the
//! terminal meanwhile.

use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ratatui::DefaultTerminal;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, disable_raw_mode, enable_raw_mode};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::flag;

/// What signals have asked for.
pub(super) struct Signals {
    /// The number of the one that is to end this program, or 0.
    ended: Arc<AtomicUsize>,
    /// It is to stop for a while.
    suspended: Arc<AtomicBool>,
    /// It was stopped, and goes on.
    continued: Arc<AtomicBool>,
}

impl Signals {
    pub(super) fn watch() -> io::Result<Signals> {
        let signals = Signals {
            ended: Arc::default(),
            suspended: Arc::default(),
            continued: Arc::default(),
        };
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
            flag::register_usize(signal, signals.ended.clone(), signal as usize)?;
        }
        flag::register(SIGTSTP, signals.suspended.clone())?;
        flag::register(SIGCONT, signals.continued.clone())?;
        Ok(signals)
    }

    /// The one that is to end this program.
    pub(super) fn ended(&self) -> Option<i32> {
        match self.ended.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal as i32),
        }
    }

    /// Stops, if it is asked to, with the terminal as it was, and returns when somebody has it go
    /// on. Then, and where it was stopped by what cannot be seen to (SIGSTOP), the terminal is made
    /// the screen's again.
    pub(super) fn obey(&self, terminal: &mut DefaultTerminal) -> io::Result<()> {
        let stops = self.suspended.load(Ordering::Relaxed);
        if stops {
            ratatui::try_restore()?;
            stop()?;
            self.suspended.store(false, Ordering::Relaxed);
        }
        if self.continued.swap(false, Ordering::Relaxed) || stops {
            take_back(terminal)?;
        }
        Ok(())
    }
}

/// Has the terminal for the screen again, whoever has used it meanwhile. In the background this
/// stops the program (SIGTTOU), as it should.
fn take_back(terminal: &mut DefaultTerminal) -> io::Result<()> {
    // Raw mode is set only where it is not known to be set.
    disable_raw_mode()?;
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)?;
    terminal.clear()
}

/// Does what SIGTSTP does where nobody has taken it. Not SIGSTOP: where there is no shell that
/// could have it go on, as in a terminal of its own, the kernel does not stop a program.
fn stop() -> io::Result<()> {
    let done = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: all bits zero is a valid `sigaction`, without flags and with the default action; the
    // one that was set, and is set again, is the C library's own.
    unsafe {
        let default: libc::sigaction = zeroed();
        let mut ours: libc::sigaction = zeroed();
        done(libc::sigaction(SIGTSTP, &raw const default, &raw mut ours))?;
        let stopped = done(libc::raise(SIGTSTP));
        done(libc::sigaction(SIGTSTP, &raw const ours, null_mut()))?;
        stopped
    }
}
