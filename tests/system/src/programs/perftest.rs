//! Runs a stock client/server program over a device and judges both ends; reads perftest's table.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::harness::case::Stop;
use crate::harness::process::{self, Finished};
use crate::lab::host::Host;

/// How long a server may take until it listens.
const LISTEN_LIMIT: Duration = Duration::from_secs(20);

/// Where a program finds its device.
pub(crate) trait Runs {
    /// A program, run where it finds the device.
    fn program(&self, name: &str) -> Command;
    /// The address that the device is reached at.
    fn address(&self) -> &str;
    /// The device's name, where it must be said.
    fn device(&self) -> Option<&str> {
        None
    }
}

impl Runs for Host {
    fn program(&self, name: &str) -> Command {
        self.run(name)
    }

    fn address(&self) -> &str {
        &self.address
    }
}

/// What perftest says on stderr, once for each row, where another program kept it from measuring
/// the clock. Its figures are then divided by a clock of 0 MHz.
const NO_CLOCK: &str = "Correlation coefficient r^2";

/// Has perftest send to a multicast group: `::ffff:239.1.2.3`, byte by byte.
pub(crate) const MULTICAST: &str = "-g -M 0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3";
/// Columns of a table of latencies beside size and iterations, and which of them is the deviation.
const LATENCIES: usize = 7;
const DEVIATION: usize = 4;

/// The two ends of a run.
pub(crate) struct Ends {
    /// The server.
    pub server: Finished,
    /// The client.
    pub client: Finished,
}

/// A stock program and how to call it.
#[derive(Clone)]
pub(crate) struct Pair {
    /// Its name.
    pub tool: String,
    /// Options for both ends.
    pub options: Vec<String>,
    /// TCP port of the exchange before the test.
    pub port: u16,
    /// How long the client may take.
    pub limit: Duration,
}

impl Pair {
    /// The program and the options that a line has.
    pub(crate) fn of(line: &str, port: u16, limit: Duration) -> Pair {
        let mut words = line.split_whitespace().map(str::to_owned);
        Pair {
            tool: words.next().unwrap_or_default(),
            options: words.collect(),
            port,
            limit,
        }
    }

    /// Runs server and client to their ends, whatever these are.
    pub(crate) fn run(
        &self,
        server_host: &dyn Runs,
        client_host: &dyn Runs,
        dir: &Path,
    ) -> Result<Ends, Stop> {
        let command = self.command(server_host);
        let mut server = process::spawn(command, dir, &format!("server-{}", self.port))?;
        if !server.listens(self.port, LISTEN_LIMIT) {
            let server = server.finish(Duration::ZERO);
            return Err(Stop::with("the server does not come to listen", &[&server]));
        }

        let mut command = self.command(client_host);
        command.arg(server_host.address());
        let client = process::run(command, dir, &format!("client-{}", self.port), self.limit)?;

        // The ends finish together; a server without its client need not be waited for long.
        let patience = if client.success() {
            self.limit
        } else {
            Duration::from_secs(5)
        };

        Ok(Ends {
            server: server.finish(patience),
            client,
        })
    }
}

impl Pair {
    fn command(&self, host: &dyn Runs) -> Command {
        let mut command = host.program(&self.tool);
        command
            .args(&self.options)
            .args(["-p", &self.port.to_string()])
            .args(
                host.device()
                    .map(|device| ["-d", device])
                    .into_iter()
                    .flatten(),
            );
        command
    }
}

impl Ends {
    /// Fails unless both ends exit with 0 and have nothing to say on stderr.
    pub(crate) fn clean(&self) -> Result<(), Stop> {
        for (end, finished) in [("client", &self.client), ("server", &self.server)] {
            if !finished.success() {
                return Err(self.fail(format!("{end}: {}", finished.ending())));
            }
            if let Some(line) = odd(&finished.err) {
                return Err(self.fail(format!("{end} says on stderr: {line}")));
            }
        }
        Ok(())
    }

    /// A failure with both ends as evidence.
    pub(crate) fn fail(&self, what: String) -> Stop {
        Stop::with(what, &[&self.client, &self.server])
    }

    /// The client's table, which must have this many rows of sound figures.
    pub(crate) fn table(&self, rows: usize) -> Result<Vec<Row>, Stop> {
        let table = rows_of(&self.client.out);
        if table.len() != rows {
            return Err(self.fail(format!("{} rows of figures instead of {rows}", table.len())));
        }
        let excused = self.client.err.matches(NO_CLOCK).count();
        if let Some(row) = first_unsound(&table, excused) {
            return Err(self.fail(format!(
                "unsound figures for {} bytes: {:?}",
                row.bytes, row.figures
            )));
        }
        Ok(table)
    }
}

/// The first row whose figures are not those of a measurement. As many rows as are excused may lack
/// them wholly.
fn first_unsound(table: &[Row], mut excused: usize) -> Option<&Row> {
    table.iter().find(|row| {
        if excused > 0 && row.lacks_a_clock() {
            excused -= 1;
            return false;
        }
        // The last column of short runs may honestly be 0.00 (message rate, deviation); the average
        // may not. Of a few latencies, one of them very long, perftest's deviation is the root of a
        // negative number.
        let deviation = (row.figures.len() == LATENCIES).then_some(DEVIATION);
        row.figures.iter().enumerate().any(|(place, figure)| {
            (!figure.is_finite() && Some(place) != deviation) || *figure < 0.0
        })
    })
}

/// A row of perftest's table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Message size.
    pub bytes: u64,
    /// The other columns. Bandwidth: peak, average, Mpps. Latency: min, max, typical, average,
    /// deviation, 99 %, 99.9 %.
    pub figures: Vec<f64>,
}

impl Row {
    /// Whether the figures are those of a clock of 0 MHz: times are divided by it, rates (`-D`)
    /// multiplied.
    fn lacks_a_clock(&self) -> bool {
        let (rates, times): (Vec<f64>, Vec<f64>) =
            self.figures.iter().partition(|figure| figure.is_finite());

        !times.is_empty() && rates.iter().all(|rate| *rate == 0.0)
    }
}

/// The rows below the heading that starts with `#bytes`.
pub(crate) fn rows_of(output: &str) -> Vec<Row> {
    output
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("#bytes"))
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let bytes = fields.next()?.parse().ok()?;
            let _iterations: u64 = fields.next()?.parse().ok()?;
            let figures = fields
                .map(str::parse)
                .collect::<Result<Vec<f64>, _>>()
                .ok()?;
            (!figures.is_empty()).then_some(Row { bytes, figures })
        })
        .collect()
}

/// The first line that a program should not have needed to say.
pub(crate) fn odd(stderr: &str) -> Option<&str> {
    const KNOWN: &[&str] = &[
        // perftest's own complaint about the clock of a busy or virtual machine; it says nothing
        // about the device.
        NO_CLOCK,
        "Conflicting CPU frequency values",
        // perftest has no table of what rdma_rxe can send inline, so it sends nothing so unless
        // told.
        "Device not recognized to implement inline feature",
        // All sizes, of datagrams.
        "Max msg size in UD is MTU",
        "Changing to this MTU",
    ];

    stderr
        .lines()
        .find(|line| !line.trim().is_empty() && !KNOWN.iter().any(|known| line.contains(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BANDWIDTH: &str = "\
 Data ex. method : Ethernet
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 2          100             0.55               0.52   \t\t   0.272345
 8388608    100             3840.35            3625.21\t\t   0.000453
---------------------------------------------------------------------------------------
";

    #[test]
    fn rows_of_a_bandwidth_table() {
        let rows = rows_of(BANDWIDTH);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].bytes, 8 << 20);
        assert_eq!(rows[1].figures, [3840.35, 3625.21, 0.000453]);
    }

    #[test]
    fn no_rows_before_the_heading_or_without_figures() {
        assert!(rows_of(" 2 100 0.5\n").is_empty());
        assert!(rows_of(" #bytes #iterations t_avg[usec]\n 2 1000\n").is_empty());
    }

    #[test]
    fn a_row_without_a_clock_is_excused_once_for_each_complaint() {
        let row = |figures: &[f64]| Row {
            bytes: 2,
            figures: figures.to_vec(),
        };

        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let sound = row(&[1.0, 9.0, 2.0, 2.5, nan, 8.0, 9.0]);
        let lacking = row(&[inf, inf, inf, inf, nan, inf, inf]);
        let table = [sound.clone(), lacking.clone(), lacking];
        assert!(first_unsound(&table, 2).is_none());
        assert!(first_unsound(&table, 1).is_some());

        // What CI saw of `ib_send_lat -D 1`: an average time and a rate.
        assert!(first_unsound(&[row(&[inf, 0.0])], 1).is_none());
        assert!(first_unsound(&[row(&[inf, 0.0])], 0).is_some());

        // A figure that is missing among others is another matter.
        let torn = row(&[1.0, inf, 2.0, 2.5, 0.5, 8.0, 9.0]);
        assert!(first_unsound(&[sound, torn], 2).is_some());
    }

    #[test]
    fn only_the_clock_may_be_complained_about() {
        assert_eq!(
            odd("\nConflicting CPU frequency values detected: 1 != 2.\n"),
            None
        );
        assert_eq!(odd(" Failed status 12\n"), Some(" Failed status 12"));
    }
}
