//! `cargo xtask demo`: the distribution's own ib_write_bw between two processes, over ferroce.

use std::net::{Ipv6Addr, TcpListener};
use std::time::Duration;

use anyhow::Result;

use crate::build;
use crate::harness::case::Stop;
use crate::lab::host::Host;
use crate::packages;
use crate::programs::perftest::Pair;

/// Runs it.
pub fn run() -> Result<()> {
    packages::ensure(packages::DEMO)?;
    let programs = build::device()?;
    let dir = tempfile::tempdir()?;
    let pair = Pair {
        tool: "ib_write_bw".to_owned(),
        options: ["-F", "--report_gbits"].map(str::to_owned).to_vec(),
        port: free_port()?,
        limit: Duration::from_secs(60),
    };

    // A runtime directory of its own, at whatever address is free: a device that is up is left
    // alone.
    let mut host = Host::new(&programs, "", None)?;
    host.up_anywhere()?;
    println!(
        "xtask: ferroced is up at {}; one ib_write_bw serves, another one writes to it:",
        host.address
    );

    let ends = pair
        .run(&host, &host, dir.path())
        .map_err(Stop::into_error)?;
    println!("\n$ {}\n{}", ends.client.line, ends.client.out);
    ends.clean()
        .and_then(|()| ends.table(1))
        .map_err(Stop::into_error)?;
    Ok(())
}

/// A TCP port that nobody has on any address, of those that the kernel deals out in no order:
/// others may be looking for one too.
fn free_port() -> Result<u16> {
    let any = (Ipv6Addr::UNSPECIFIED, 0);
    let probe = TcpListener::bind(any).or_else(|_| TcpListener::bind(("0.0.0.0", 0)))?;
    Ok(probe.local_addr()?.port())
}
