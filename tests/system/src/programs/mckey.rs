//! `mckey`, librdmacm's example of multicast.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Running};
use crate::lab::host::Host;

const LIMIT: Duration = Duration::from_secs(60);
const MESSAGES: &str = "20";

/// Runs a member of a group, which has joined it and waits for a sender.
pub(crate) fn joined(member: Command, dir: &Path) -> Result<Running, Stop> {
    let mut member = process::spawn(member, dir, "member")?;
    match member.wait_until(LIMIT, |member| member.output().contains("joined dgid:")) {
        true => Ok(member),
        false => Err(Stop::with("it does not join", &[&member.kill()])),
    }
}

/// Datagrams to a group are heard by a member: `hosts` are the member's and the sender's, who are
/// at `addresses`.
pub(crate) fn heard(hosts: [&Host; 2], addresses: [&str; 2], group: &str, dir: &Path) -> Ending {
    let line = |end: usize| {
        let mut command = hosts[end].run("stdbuf");
        command.args(["-oL", "mckey", "-m", group, "-b", addresses[end]]);
        command.args(["-C", MESSAGES]);
        command
    };
    let member = joined(line(0), dir)?;
    let mut sends = line(1);
    sends.arg("-s");
    let sender = process::run(sends, dir, "sender", LIMIT)?;
    let member = member.finish_after(&sender, LIMIT);
    match member.success() && member.out.contains("return status 0") {
        true => Ok(()),
        false => Err(Stop::with("not all of it came", &[&member, &sender])),
    }
}
