//! What goes on in a program, on its standard error, where `FERROCE_LOG` asks for it: why a verb
//! was refused, and a queue pair at work. Without that variable nothing is set up, and an event
//! costs a look at one word.

use std::fmt;
use std::io::{self, IsTerminal};

use ferroce_engine::switches;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const VARIABLE: &str = "FERROCE_LOG";

/// Says of each variable that is meant for this library and means nothing that it does. When the
/// library is loaded, so once: a program opens devices as often as it likes.
pub(crate) fn complain() {
    for mistake in switches::mistakes() {
        eprintln!("ferroce: {mistake}");
    }
}

/// Begins to log as the environment says: a level (`debug`, `trace`), or levels of parts
/// (`ferroce_transport=trace`).
pub(crate) fn start() {
    let Some(wanted) = std::env::var_os(VARIABLE) else {
        return;
    };

    let wanted = wanted.to_string_lossy();
    let targets: Targets = match wanted.parse() {
        Ok(targets) => targets,
        Err(error) => {
            eprintln!(
                "ferroce: nothing is logged: {VARIABLE}={wanted}: {error}; say a level, such as debug, or part=level"
            );
            return;
        }
    };

    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_timer(Process);

    // It fails where this library has been loaded and set up before.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(targets)
        .try_init();
}

/// The time, and which process it is: those of a host often share a terminal, and a forked child
/// goes on with this library.
struct Process;

impl FormatTime for Process {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        SystemTime.format_time(to)?;
        write!(to, " {}", std::process::id())
    }
}
