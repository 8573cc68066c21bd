//! `ferroce top`: what programs do with the device, as it happens, and what may be wrong where they
//! hang. It looks at memory that the programs share with the daemon, and changes nothing.
//!
//! A [`sample`] becomes a [`report`], a report becomes [`tables`]; these are printed ([`batch`]) or
//! shown on a [`screen`].

pub(crate) mod arguments;
mod batch;
#[cfg(test)]
mod example;
mod hints;
mod names;
mod queue_pair;
mod report;
mod sample;
mod screen;
mod tables;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use ferroce_control::RuntimeDir;

use crate::error::Error;
use arguments::Top;
use batch::Batch;
use sample::Sampler;

/// Shows it until the user, or whoever reads, has had enough.
pub(crate) fn top(dir: &RuntimeDir, top: &Top) -> Result<ExitCode, Error> {
    let sampler = Sampler::new(dir);
    if top.batch {
        let batch = Batch {
            interval: top.interval,
            count: top.count,
            json: top.json,
        };
        return batch::run(sampler, batch).map(|()| ExitCode::SUCCESS);
    }

    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Error::NoTerminal);
    }
    screen::run(sampler, top.interval).map(|()| ExitCode::SUCCESS)
}
