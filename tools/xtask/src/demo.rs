//! `cargo xtask demo`: the distribution's own ib_write_bw between two processes, over ferroce.

use std::time::Duration;

use anyhow::Result;

use crate::build;
use crate::case::Stop;
use crate::host::Host;
use crate::lab::Lab;
use crate::packages;
use crate::perftest::Pair;

/// Runs it.
pub fn run() -> Result<()> {
    packages::ensure(packages::DEMO)?;
    let programs = build::product()?;
    let mut lab = Lab::new(programs, build::scratch("demo")?);
    let dir = lab.case_dir().map_err(Stop::into_error)?;
    let pair = Pair {
        tool: "ib_write_bw".to_owned(),
        options: ["-F", "--report_gbits"].map(str::to_owned).to_vec(),
        port: lab.port(),
        limit: Duration::from_secs(60),
    };
    // A runtime directory of its own, at whatever address is free: a device that is up is left alone.
    let mut host = Host::new(lab.programs(), "", None)?;
    host.up_anywhere()?;
    println!(
        "xtask: ferroced is up at {}; one ib_write_bw serves, another one writes to it:",
        host.address
    );
    let ends = pair.run(&host, &host, &dir).map_err(Stop::into_error)?;
    println!("\n$ {}\n{}", ends.client.line, ends.client.out);
    ends.clean()
        .and_then(|()| ends.table(1))
        .map_err(Stop::into_error)?;
    Ok(())
}
