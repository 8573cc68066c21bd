//! `ferroce replay`: what a capture shows of queue pairs, done again by the transport, step by
//! step. The file is read, and all the rest is `ferroce_replay`'s.

pub(crate) mod arguments;
mod show;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use ferroce_replay::{Capture, Options, Summary, Verdict};
use serde_json::json;

use crate::error::Error;
use arguments::Replay;
use show::Text;

/// The exit status where the transport did something else than the capture shows.
const DIFFERS: u8 = 3;

/// Replays a file.
pub(crate) fn replay(options: &Replay) -> Result<ExitCode, Error> {
    let name = options.file.display().to_string();
    let bytes = fs::read(&options.file).map_err(Error::io(name.as_str()))?;
    let wrong = |error: ferroce_replay::Error| Error::Replay(format!("{name}: {error}"));
    let capture = Capture::parse(&bytes).map_err(wrong)?;

    let mut out = BufWriter::new(io::stdout().lock());
    let mut text = Text::default();
    let mut failed = None;
    let mut ended = false;
    let summaries = ferroce_replay::replay(&capture, &what(options), &mut |step| {
        let shown = match options.differences && step.verdict != Verdict::Differs {
            true => Ok(()),
            false if options.json => serde_json::to_writer(&mut out, step)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(out)),
            false => text.step(&mut out, step),
        };
        let shown = shown.and_then(|()| match options.step {
            true => out.flush().and_then(|()| wait_for_enter()),
            false => Ok(()),
        });
        ended = shown.is_err() || options.until.is_some_and(|until| step.number >= until);
        failed = shown.err();
        match ended {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });

    let summaries = summaries.map_err(wrong)?;
    let shown = match failed {
        Some(error) => Err(error),
        None => sums(&mut out, options, &capture, &summaries).and_then(|()| out.flush()),
    };
    match shown {
        // Whoever read it, or pressed Enter, has had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        shown => shown.map_err(Error::io("writing steps"))?,
    }

    if let Some(why) = &capture.cut {
        let entries = capture.entries.len();
        return Err(Error::Replay(format!(
            "{name}: {why} after {entries} packets and entries: what is before was replayed"
        )));
    }
    match summaries.iter().any(|summary| summary.differed > 0) {
        true => Ok(ExitCode::from(DIFFERS)),
        false => Ok(ExitCode::SUCCESS),
    }
}

fn what(options: &Replay) -> Options {
    Options {
        qp: options.qp,
        peer: options.peer,
        path_mtu: options.path_mtu,
        timeout: options.timeout,
        retry_cnt: options.retry_cnt,
        rnr_retry: options.rnr_retry,
    }
}

fn sums(
    out: &mut impl Write,
    options: &Replay,
    capture: &Capture<'_>,
    summaries: &[Summary],
) -> io::Result<()> {
    if options.json {
        let sums = json!({
            "queue_pairs": summaries,
            "dropped": capture.dropped,
            "cut": capture.cut,
        });
        return writeln!(out, "{sums}");
    }
    if capture.dropped > 0 {
        writeln!(
            out,
            "{} records were dropped as this was captured: what would differ may be for want of them",
            capture.dropped
        )?;
    }
    summaries
        .iter()
        .try_for_each(|summary| show::sum(out, summary))
}

/// An end of standard input is as good, and ends it.
fn wait_for_enter() -> io::Result<()> {
    let mut line = String::new();
    match io::stdin().read_line(&mut line)? {
        0 => Err(io::ErrorKind::BrokenPipe.into()),
        _ => Ok(()),
    }
}
