//! Plain UDP between two ends, by the program of the yardsticks.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::measure::{number, successful};
use crate::harness::process;

const PORT: u16 = 19_901;

/// Plain UDP from one end to another, once.
pub(super) struct PlainUdp<'a> {
    /// The program where the server is, and where the client is.
    pub ends: [Command; 2],
    /// The server's IPv4 address.
    pub address: &'a str,
    /// For what the programs print.
    pub dir: &'a Path,
    /// For each program, however slow.
    pub limit: Duration,
}

impl PlainUdp<'_> {
    /// Payload bytes per second that arrive, in packets of `payload` bytes, out of so many bytes of
    /// memory (64 KiB at least) and into as many.
    pub(super) fn bytes(self, payload: usize, memory: usize, seconds: u32) -> Result<f64> {
        let (payload, memory) = (payload.to_string(), memory.to_string());
        let (sizes, seconds) = (
            ["--payload", &payload, "--memory", &memory],
            seconds.to_string(),
        );
        let send = [&sizes[..], &["--seconds", &seconds]].concat();
        self.run(["receive", "send"], [&sizes, &send], End::Server)
    }

    /// Microseconds one way, of datagrams of so many bytes, by ends that wait so: the median, or
    /// the mean where programs with which it is compared tell no other.
    pub(super) fn latency(self, size: usize, count: usize, ends: Ends) -> Result<f64> {
        let (size, count) = (size.to_string(), count.to_string());
        let (pong, ping, figure) = match ends {
            Ends::Poll => ("poll", "poll", "median"),
            Ends::AnswererSleeps => ("sleep", "poll", "median"),
            Ends::LookAtMemory => ("memory", "memory", "mean"),
        };
        let messages = ["--size", &size, "--count", &count];
        let ask = [&messages[..], &["--wait", ping, "--figure", figure]].concat();
        self.run(["pong", "ping"], [&["--wait", pong], &ask], End::Client)
    }

    /// Runs both ends; the number is printed by one of them.
    fn run(self, verbs: [&str; 2], options: [&[&str]; 2], teller: End) -> Result<f64> {
        let PlainUdp {
            ends: [mut server, mut client],
            address,
            dir,
            limit,
        } = self;
        let address = format!("{address}:{PORT}");
        server.args([verbs[0], &address]).args(options[0]);
        client.args([verbs[1], &address]).args(options[1]);

        let mut server = process::spawn(server, dir, "baseline-server")?;
        if !server.wait_until(limit, |running| running.output().contains("ready")) {
            bail!("the yardstick's server does not start");
        }

        let client = process::run(client, dir, "baseline-client", limit)?;
        let server = server.finish_after(&client, limit);
        successful(&[&client, &server])?;
        let output = match teller {
            End::Server => server.out,
            End::Client => client.out,
        };
        number(output.lines().last().unwrap_or_default())
    }
}

/// How both ends wait for datagrams.
pub(super) enum Ends {
    /// They ask their sockets again and again, as programs that poll for completions do.
    Poll,
    /// Who answers sleeps in the kernel, as whoever serves a READ does: no program waits for it.
    AnswererSleeps,
    /// They look at memory, where threads that sleep in the kernel leave word.
    LookAtMemory,
}

/// Who tells the figure.
enum End {
    Server,
    Client,
}
