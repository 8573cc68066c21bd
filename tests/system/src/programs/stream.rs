//! A transfer between two processes, each byte of which is checked at both ends
//! (`tests/verbs/stream.c`), for what disturbs it.

use std::path::Path;
use std::time::Duration;

use crate::harness::case::Stop;
use crate::harness::process::{self, Finished, Running};
use crate::lab::host::Host;
use crate::programs::cprogram;

/// Both ends, which transfer.
pub(crate) struct Streams {
    /// The end that was started first.
    pub server: Running,
    /// The end that streams for as long as it is told.
    pub client: Running,
}

impl Streams {
    /// Starts both and waits, `limit` at most each time, until data has come at both ends. They go
    /// on for so many seconds, or until the connection dies.
    pub(crate) fn start(
        hosts: [&Host; 2],
        port: u16,
        seconds: Option<u32>,
        dir: &Path,
        limit: Duration,
    ) -> Result<Streams, Stop> {
        let [server_host, client_host] = hosts;
        let program = cprogram::compile("stream")?;
        let mut command = server_host.run(&program);
        command.args(["server", &port.to_string()]);
        let mut server = process::spawn(command, dir, "server")?;
        if !server.listens(port, limit) {
            let server = server.kill();
            return Err(Stop::with("the server does not come to listen", &[&server]));
        }

        let mut command = client_host.run(&program);
        command.args(["client", &port.to_string(), &server_host.address]);
        command.args(seconds.map(|seconds| seconds.to_string()));
        let client = process::spawn(command, dir, "client")?;
        let mut streams = Streams { server, client };
        if !streams.under_way(limit) {
            let [server, client] = streams.kill();
            return Err(Stop::with(
                "the transfer does not start",
                &[&client, &server],
            ));
        }

        Ok(streams)
    }

    fn under_way(&mut self, limit: Duration) -> bool {
        let streams = |end: &Running| end.output().contains("streaming");
        self.client.wait_until(limit, streams) && self.server.wait_until(limit, streams)
    }

    /// Waits for the end of both, `limit` at most each: the server, then the client.
    pub(crate) fn finish(self, limit: Duration) -> [Finished; 2] {
        let client = self.client.finish(limit);
        [self.server.finish(limit), client]
    }

    fn kill(self) -> [Finished; 2] {
        [self.server.kill(), self.client.kill()]
    }
}

/// An end found every byte right until the orderly end.
pub(crate) fn all_right(end: &Finished) -> bool {
    end.success() && end.out.contains("all right")
}

/// An end lost its peer as the verbs say: RETRY_EXC, then flushes.
pub(crate) fn peer_lost(end: &Finished) -> bool {
    end.success() && end.out.contains("retry exceeded, then flushed")
}
