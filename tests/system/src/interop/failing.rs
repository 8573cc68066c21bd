//! Runs that come to no good end, for a reason that is known: nobody is there, somebody has gone, a
//! program asks for what cannot be. What is judged is how their ends learn of it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::connected::{listens, serve};
use super::field::{self, Field, Side};
use super::patience::{AFTERMATH, LIMIT, LISTEN_LIMIT};
use super::setting::Setting;
use crate::groups::cm;
use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Running};

fn rping(field: &Field, setting: &Setting, port: u16) -> Command {
    let mut command = field.command(setting.server.other(), "rping");
    let address = setting.server.address(setting.family);
    command.args(["-c", "-a", address, "-p", &port.to_string()]);
    command
}

/// Where nobody listens the answer is at once that one.
pub(super) fn nobody_listens(field: &Field, setting: &Setting, port: u16, dir: &Path) -> Ending {
    let finished = process::run(rping(field, setting, port), dir, "client", LIMIT)?;
    let text = format!("{}{}", finished.out, finished.err);
    // IBTA's reason 8: there is no such service.
    if finished.success() || !text.contains("RDMA_CM_EVENT_REJECTED, error 8") {
        let what = "not rejected for want of a listener";
        return Err(Stop::with(what, &[&finished]));
    }
    Ok(())
}

/// The server learns that its client has gone.
pub(super) fn client_killed(field: &Field, setting: &Setting, port: u16, dir: &Path) -> Ending {
    let line = "rping -s -a ADDR -p PORT -v";
    let words = cm::words(line, setting.server.address(setting.family), port);
    let server = serve(field, setting.server, &words, cm::TCP, port, dir)?;
    let mut command = rping(field, setting, port);
    command.arg("-v");
    let mut client = process::spawn(command, dir, "client")?;
    let busy = client.wait_until(LIMIT, |client| client.output().contains("rdma-ping-"));
    client.signal(Signal::KILL);
    let client = client.finish(AFTERMATH);
    let server = server.finish(LIMIT);
    let evidence = [&client, &server];
    if !busy {
        return Err(Stop::with("the ends do not come to talk", &evidence));
    }
    if server.status.is_none() {
        return Err(Stop::with("the server waits still", &evidence));
    }

    Ok(())
}

/// A client that asks for no retries has none: its device ends the run with the status that is due,
/// and says nothing else before.
pub(super) fn fio_sends(field: &Field, setting: &Setting, port: u16, dir: &Path) -> Ending {
    const ENDED: &str = "cq completion status 13(RNR retry counter exceeded)";

    let line = "fio --ioengine=rdma --thread --verb=send --bs=4k --size=16m --port PORT";
    let address = setting.server.address(setting.family);
    let mut words = cm::words(line, address, port);
    words.extend(["--name=server", "--rw=read"].map(str::to_owned));
    let server = serve(field, setting.server, &words, cm::TCP, port, dir)?;
    let mut command = field.command(setting.server.other(), "fio");
    command.args(&cm::words(line, address, port)[1..]);
    command.args(["--name=client", "--rw=write"]);
    command.arg(format!("--hostname={address}"));
    let mut client = process::spawn(command, dir, "client")?;
    client.wait_until(LIMIT, |client| {
        client.errors().contains("completion status")
    });

    // Both wait then for completions that do not come.
    let (client, server) = (client.kill(), server.kill());
    let said = client
        .err
        .lines()
        .find(|line| line.contains("completion status"));

    match said.is_some_and(|line| line.contains(ENDED)) && !client.success() {
        true => Ok(()),
        false => Err(Stop::with(
            "the client's device does not say that its retries are used up",
            &[&client, &server],
        )),
    }
}

/// The client fills the buffers, 128 KiB, and sends nothing any more; the server gets none of it.
pub(super) fn iperf3_stops(field: &Field, setting: &Setting, port: u16, dir: &Path) -> Ending {
    let address = setting.server.address(setting.family);
    let command = |side: Side, line: &str| {
        let words = cm::words(line, address, port);
        let mut command = field.command(side, &words[0]);
        command.args(&words[1..]).env("LD_PRELOAD", cm::RSOCKETS);
        command
    };

    let line = "iperf3 -4 -s -1 -B ADDR -p PORT --forceflush";
    let server = process::spawn(command(setting.server, line), dir, "server")?;
    let deadline = Instant::now() + LISTEN_LIMIT;
    while !listens(field, setting.server, cm::TCP, port) {
        if Instant::now() > deadline {
            let server = server.kill();
            return Err(Stop::with("the server does not come to listen", &[&server]));
        }
    }

    let line = "iperf3 -4 -c ADDR -p PORT -t 5 -i 1 --forceflush";
    let client = command(setting.server.other(), line);
    let client = process::run(client, dir, "client", LIMIT / 3)?;
    let server = server.kill();
    let (sent, received) = (intervals(&client.out), intervals(&server.out));
    let stops = |moved: &[String], first: &str| {
        moved.first().is_some_and(|amount| amount == first)
            && moved.iter().skip(1).all(|amount| amount == "0.00 Bytes")
    };

    match stops(&sent, "128 KBytes") && stops(&received, "0.00 Bytes") {
        true => Ok(()),
        false => Err(Stop::with(
            "it does not stop where it is known to: see docs/conformance/rdma-cm.md",
            &[&client, &server],
        )),
    }
}

/// What iperf3 says that it has transferred, interval by interval: `[ 22]   0.00-1.00   sec   128
/// KBytes  1.05 Mbits/sec`.
fn intervals(output: &str) -> Vec<String> {
    output
        .lines()
        .filter_map(|line| {
            let (_, said) = line.split_once(" sec ")?;
            let mut words = said.split_whitespace();
            Some(format!("{} {}", words.next()?, words.next()?))
        })
        .collect()
}

/// A connection to an address where nobody is, which takes more than a minute to fail, without
/// doing anything.
pub(super) struct Unanswered(Running);

impl Unanswered {
    /// Begins one.
    pub(super) fn begin(field: &Field, setting: &Setting, dir: &Path) -> Result<Unanswered, Stop> {
        let mut command = field.command(setting.server.other(), "rping");
        command.args(["-c", "-a", field::nobody(setting.family), "-C", "1"]);
        Ok(Unanswered(process::spawn(command, dir, "client")?))
    }

    /// How it ended: told that there was no answer.
    pub(super) fn end(self) -> Ending {
        let finished = self.0.finish(Duration::from_secs(150));
        let text = format!("{}{}", finished.out, finished.err);
        match text.contains("RDMA_CM_EVENT_UNREACHABLE, error -110") {
            true => Ok(()),
            false => Err(Stop::with("not told that nobody answers", &[&finished])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iperf3_says_what_it_transfers() {
        let said = "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n\
                    [ 22]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec  32719   0.00 Bytes\n\
                    iperf3: getsockopt - Operation not supported\n\
                    [ 22]   1.00-1.89   sec  0.00 Bytes  0.00 bits/sec    0   2.57 TBytes\n";
        assert_eq!(intervals(said), ["128 KBytes", "0.00 Bytes"]);
    }
}
