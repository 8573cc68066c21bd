//! Ctrl-C and SIGTERM: whoever sends one wants an end, and no daemon or namespace left behind.
//! Nothing more is started, what runs is not waited for, and everything clears up as it does when a
//! case fails. A second signal, a moment later, ends the process as if there were nothing here; not
//! at once, as timeout(1) sends each twice, to the process and to its group.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

/// How long a wait may go on that does not see the signal itself.
pub(crate) const GLANCE: Duration = Duration::from_millis(200);

/// After so long a signal is a second one.
const MOMENT: Duration = Duration::from_secs(1);

const NONE: usize = 0;

/// The one that came.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// The next one is to end the process.
static IMPATIENT: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Begins to look out for signals.
///
/// # Errors
///
/// Where the system allows no handlers.
pub fn watch() -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&IMPATIENT)).context("signals")?;
        flag::register_usize(signal, Arc::clone(&SIGNAL), signal as usize).context("signals")?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals")?;
    thread::spawn(move || {
        signals.forever().next();
        thread::sleep(MOMENT);
        IMPATIENT.store(true, Ordering::SeqCst);
    });
    Ok(())
}

/// Whether an end is wanted.
pub(crate) fn has_come() -> bool {
    SIGNAL.load(Ordering::SeqCst) != NONE
}

/// Nothing, unless an end is wanted.
///
/// # Errors
///
/// If one is.
pub fn none_yet() -> Result<()> {
    match has_come() {
        true => bail!("interrupted"),
        false => Ok(()),
    }
}

/// Ends the process by the signal that has come, as who waits for it expects; else does nothing.
pub fn end_if_come() {
    if has_come() {
        let _ = low_level::emulate_default_handler(SIGNAL.load(Ordering::SeqCst) as i32);
    }
}
