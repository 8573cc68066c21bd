//! riostream: programs that write into each other's memory and look at their own.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use crate::harness::process;
use crate::programs::perftest::Runs;

/// Of rdma_cm's TCP port space.
pub(super) const PORT: u16 = 19_908;
/// Each way.
const TRANSFERS: &str = "1000";

/// Microseconds of a transfer of 64 bytes, on average. `listens`: whether the server does by now.
pub(super) fn riostream(
    [server, client]: [&dyn Runs; 2],
    listens: impl Fn() -> bool,
    dir: &Path,
    limit: Duration,
) -> Result<f64> {
    let (port, at) = (PORT.to_string(), server.address());
    let command = |end: &dyn Runs, options: &[&str]| {
        let mut command = end.program("riostream");
        command.args(["-p", &port, "-S", "64", "-I", TRANSFERS, "-C", "1"]);
        command.args(options);
        command
    };
    let listener = command(server, &["-b", at]);
    let mut listener = process::spawn(listener, dir, "riostream-server")?;
    if !listener.wait_until(limit, |_| listens()) {
        bail!("riostream does not come to listen");
    }

    let options = ["-s", at, "-b", client.address()];
    let ended = process::run(command(client, &options), dir, "riostream-client", limit)?;
    let listener = listener.kill();
    transfer_time(&ended.out).ok_or_else(|| {
        anyhow!(
            "riostream: {}\n{}\n{}\n{}",
            ended.ending(),
            ended.out,
            ended.err,
            listener.err
        )
    })
}

/// The last column of riostream's table: microseconds for each transfer.
fn transfer_time(output: &str) -> Option<f64> {
    let row = output.lines().find(|line| line.starts_with("custom"))?;
    let time: f64 = row.split_whitespace().next_back()?.parse().ok()?;
    (time > 0.0).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn riostream_tells_the_time_of_a_transfer() {
        let said = "name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\n\
                    custom    64      1       1000    125k        0.41s      0.00     205.33\n";
        assert_eq!(transfer_time(said), Some(205.33));
        assert_eq!(transfer_time("name bytes\n"), None);
    }
}
