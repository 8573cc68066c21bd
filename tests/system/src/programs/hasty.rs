//! perftest, spared its look at the processor's clock.
//!
//! Before each row it measures that clock, for 0.2 s at full load and for latencies in microseconds
//! for 0.2 s more: with hundreds of runs that is a quarter of an hour of a processor's time, and
//! most of what these runs take. With a library preloaded (`tests/verbs/hasty_clock.c`) that
//! passes sixteen times as fast. The figures are then those of another clock: what compares them
//! must not go by this. Bytes, rows, endings and what is said on stderr are the same.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::lab::host::Host;
use crate::programs::cprogram;
use crate::programs::perftest::Runs;

/// A host whose programs think that time passes fast.
pub(crate) struct Hasty<'a> {
    host: &'a Host,
    library: PathBuf,
}

impl Hasty<'_> {
    pub(crate) fn on(host: &Host) -> Result<Hasty<'_>> {
        let library = cprogram::compile_plain("hasty_clock", &["-shared", "-fPIC"])?;
        Ok(Hasty { host, library })
    }
}

impl Runs for Hasty<'_> {
    fn program(&self, name: &str) -> Command {
        let mut command = self.host.run(name);
        command.env("LD_PRELOAD", &self.library);
        command
    }

    fn address(&self) -> &str {
        &self.host.address
    }
}
