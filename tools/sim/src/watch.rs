//! The transport's events on standard output, in virtual time: the same that a program shows with
//! `FERROCE_LOG=trace`.

use std::cell::Cell;
use std::fmt;

use ferroce_transport::Time;

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

thread_local! {
    static NOW: Cell<Time> = const { Cell::new(Time::ZERO) };
}

/// It is `now` in the world that this thread simulates.
pub(crate) fn at(now: Time) {
    NOW.set(now);
}

/// Prints the events of what `run` does on this thread.
pub(crate) fn watching<T>(run: impl FnOnce() -> T) -> T {
    let lines = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_timer(Virtual)
        .finish();
    tracing::subscriber::with_default(lines, run)
}

struct Virtual;

impl FormatTime for Virtual {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        write!(to, "{:>12}", NOW.get().as_nanos())
    }
}
