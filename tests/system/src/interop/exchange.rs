//! One run: a server on one side, a client on the other, and how both ended.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::cprograms;
use super::differs;
use super::exs;
use super::field::{self, Family, Field, Side};
use super::programs::Program;
use super::setting::Setting;
use crate::groups::cm::{self, Stock};
use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::programs::perftest::Ends;

/// How long an end may take. The guest is emulated, on a machine that may be busy.
pub const LIMIT: Duration = Duration::from_secs(60);
/// How long a server may take until it listens.
const LISTEN_LIMIT: Duration = Duration::from_secs(30);
/// How long the other end may take when one has failed.
const AFTERMATH: Duration = Duration::from_secs(2);
/// The largest size of perftest's `-a`.
const LARGEST: u64 = 8 << 20;

/// Runs a program in a setting. One that is several tests answers one by one.
pub fn run(
    field: &Field,
    program: Program,
    setting: &Setting,
    port: u16,
    dir: &Path,
) -> Vec<(String, Ending)> {
    let name = program.name();
    let one = |ending| vec![(name.clone(), ending)];
    match program {
        Program::Perftest(line) => one(perftest(field, setting, line, port, dir)),
        Program::Connected(line) => one(connected(field, setting, line, port, dir)),
        Program::Pingpong(line) => one(pingpong(field, setting, line, port, dir)),
        Program::Stock(stock) => one(exchange(field, setting, stock, port, dir)),
        Program::Multicast(count) => one(multicast(field, setting, count, dir)),
        Program::NobodyListens => one(nobody_listens(field, setting, port, dir)),
        Program::NobodyAnswers => {
            one(Unanswered::begin(field, setting, dir).and_then(Unanswered::end))
        }
        Program::ClientKilled => one(client_killed(field, setting, port, dir)),
        Program::Iperf3Stops => one(iperf3_stops(field, setting, port, dir)),
        Program::FioSends => one(fio_sends(field, setting, port, dir)),
        Program::Exs(program, mode, ends) => {
            match exs::run(field, setting, (program, mode, ends), port, dir) {
                Ok(endings) => endings
                    .into_iter()
                    .map(|(test, ending)| (format!("{name}: {test}"), ending))
                    .collect(),
                Err(stop) => one(Err(stop)),
            }
        }
        Program::C(program, choice) => match cprograms::run(field, setting, program, choice, dir) {
            Ok(endings) => endings
                .into_iter()
                .map(|(test, ending)| (format!("{name}: {test}"), ending))
                .collect(),
            Err(stop) => one(Err(stop)),
        },
    }
}

/// Both ends of a program that exchanges addresses over TCP: `extra` gives each side's further options.
fn pair(
    field: &Field,
    setting: &Setting,
    line: &str,
    port: u16,
    dir: &Path,
    extra: impl Fn(Side) -> Result<Vec<String>, Stop>,
) -> Result<Ends, Stop> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let command = |side: Side| -> Result<Command, Stop> {
        let mut command = field.command(side, words[0]);
        command.args(&words[1..]).args(extra(side)?);
        command.args(["-p", &port.to_string()]);
        Ok(command)
    };
    let mut server = process::spawn(command(setting.server)?, dir, "server")?;
    if !server.listens(port, LISTEN_LIMIT) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }
    let mut client = command(setting.server.other())?;
    client.arg(setting.server.address(Family::V4));
    // Many megabytes, and so an exception.
    let limit = if has_all_sizes(line) {
        3 * LIMIT
    } else {
        LIMIT
    };
    let client = process::run(client, dir, "client", limit)?;
    let server = server.finish(patience(&client));
    Ok(Ends { server, client })
}

/// Whether perftest is told to try all sizes.
fn has_all_sizes(line: &str) -> bool {
    line.split_whitespace().any(|word| word == "-a")
}

fn patience(client: &Finished) -> Duration {
    if client.success() { LIMIT } else { AFTERMATH }
}

fn perftest(field: &Field, setting: &Setting, line: &str, port: u16, dir: &Path) -> Ending {
    let ends = pair(field, setting, line, port, dir, |side| {
        let gid = field.gid_index(side, setting.family)?;
        Ok(["-F", "-d", side.device(), "-x", &gid.to_string()]
            .map(str::to_owned)
            .to_vec())
    })?;
    ends.clean()?;
    let all = has_all_sizes(line);
    let rows = ends.table(if all { LARGEST.ilog2() as usize } else { 1 })?;
    if all && rows.last().is_none_or(|row| row.bytes != LARGEST) {
        return Err(ends.fail(format!("the last row is not that of {LARGEST} bytes")));
    }
    Ok(())
}

fn pingpong(field: &Field, setting: &Setting, line: &str, port: u16, dir: &Path) -> Ending {
    let mtu = field.path_mtu().to_string();
    let retries = || field.rxe_counter("completer_retry_err");
    let before = retries()?;
    let ends = pair(field, setting, line, port, dir, |side| {
        let gid = field.gid_index(side, setting.family)?.to_string();
        let mut options = vec!["-d", side.device(), "-g", &gid];
        if !line.starts_with("ibv_ud") {
            options.extend(["-m", &mtu]);
        }
        Ok(options.into_iter().map(str::to_owned).collect())
    })?;
    let retries = retries()? - before;
    let (rxe, ferroce) = match setting.server {
        Side::Rxe => (&ends.server, &ends.client),
        Side::Ferroce => (&ends.client, &ends.server),
    };
    let mut whole = vec![&ends.client, &ends.server];
    let lacks_an_acknowledgement = left_alone(rxe, ferroce)
        || left_alone(ferroce, rxe)
        || asks_for_ever(rxe, ferroce, retries);
    if setting.bad && lacks_an_acknowledgement {
        whole.retain(|finished| finished.success());
    } else {
        ends.clean()?;
    }
    for finished in whole {
        if finished.out.contains("invalid data") {
            return Err(ends.fail("the received bytes are wrong".to_owned()));
        }
        if !finished.out.contains(" iters in ") {
            return Err(ends.fail("the result is missing".to_owned()));
        }
    }
    Ok(())
}

/// Whether all that an end of a pingpong lacks is the acknowledgement of its last message: where it is lost nobody is there any more to
/// repeat it, as the other end, which has all that it waits for, has left.
fn left_alone(end: &Finished, other: &Finished) -> bool {
    const SEND_FAILED: &str = "Failed status transport retry counter exceeded (12) for wr_id 2";
    // ibv_rc_pingpong adds how many completions it has polled, ibv_srq_pingpong does not.
    const POLLED: &str = "parse WC failed ";
    let mut said = end.err.lines().filter(|line| !line.trim().is_empty());
    end.code() == Some(1)
        && said.next() == Some(SEND_FAILED)
        && said.next().is_none_or(|line| line.starts_with(POLLED))
        && said.next().is_none()
        && other.success()
        && other.out.contains(" iters in ")
}

/// Whether all that rdma_rxe's end of a pingpong lacks is the acknowledgement of its last message, as above: told to try seven times,
/// as this program tells it, it tries without end. `retries`: how often it did during the run.
fn asks_for_ever(rxe: &Finished, other: &Finished, retries: u64) -> bool {
    // It waits 67 ms each time, until its end is killed.
    let tries = LIMIT.as_millis() as u64 / 67;
    rxe.status.is_none()
        && rxe.err.trim().is_empty()
        && retries > tries / 2
        && other.success()
        && other.out.contains(" iters in ")
}

/// Whether a side listens at a port of rdma_cm.
fn listens(field: &Field, side: Side, space: u64, port: u16) -> bool {
    match side {
        Side::Ferroce => cm::listens(&field.ferroce, space, port),
        Side::Rxe => {
            let mut command = field.plain(side, "rdma");
            command.args(["resource", "show", "cm_id"]);
            let listed = command.output().map(|output| output.stdout);
            let wanted = format!(":{port} ");
            String::from_utf8_lossy(&listed.unwrap_or_default())
                .lines()
                .any(|line| line.contains("LISTEN") && line.contains(&wanted))
        }
    }
}

/// A server that listens.
fn serve(
    field: &Field,
    side: Side,
    words: &[String],
    space: u64,
    port: u16,
    dir: &Path,
) -> Result<Running, Stop> {
    let mut command = field.command(side, &words[0]);
    command.args(&words[1..]);
    let mut server = process::spawn(command, dir, "server")?;
    let deadline = Instant::now() + LISTEN_LIMIT;
    while !listens(field, side, space, port) {
        if Instant::now() > deadline || server.ended_within(Duration::from_millis(20)) {
            let server = server.finish(Duration::ZERO);
            return Err(Stop::with("the server does not come to listen", &[&server]));
        }
    }
    Ok(server)
}

/// Server and client of rdma_cm.
fn exchange(field: &Field, setting: &Setting, stock: &Stock, port: u16, dir: &Path) -> Ending {
    // udaddy cannot be told.
    let port = match stock.server.contains("PORT") {
        true => port,
        false => cm::USUAL_PORT,
    };
    let line = |line| cm::words(line, setting.server.address(setting.family), port);
    let server = serve(
        field,
        setting.server,
        &line(stock.server),
        stock.space,
        port,
        dir,
    )?;
    let words = line(stock.client);
    let mut command = field.command(setting.server.other(), &words[0]);
    command.args(&words[1..]);
    let client = process::run(command, dir, "client", LIMIT)?;
    let server = match stock.stays {
        true => server.kill(),
        false => server.finish(patience(&client)),
    };
    cm::judge(&client, &server, stock)
}

/// perftest through rdma_cm.
fn connected(field: &Field, setting: &Setting, line: &str, port: u16, dir: &Path) -> Ending {
    if setting.bad && setting.server == Side::Rxe {
        return Err(Stop::Skip(differs::asks_too_soon().to_owned()));
    }
    let words = |side: Side| -> Vec<String> {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        words.extend(["-R", "-F", "-d", side.device(), "-p"].map(str::to_owned));
        words.push(port.to_string());
        words
    };
    let server = serve(
        field,
        setting.server,
        &words(setting.server),
        cm::TCP,
        port,
        dir,
    )?;
    let side = setting.server.other();
    let words = words(side);
    let mut command = field.command(side, &words[0]);
    command.args(&words[1..]);
    command.arg(setting.server.address(setting.family));
    let client = process::run(command, dir, "client", LIMIT)?;
    let ends = Ends {
        server: server.finish(patience(&client)),
        client,
    };
    ends.clean()?;
    ends.table(1).map(|_| ())
}

/// Datagrams from one member of a group to another, which awaits 10 of `count`.
fn multicast(field: &Field, setting: &Setting, count: u32, dir: &Path) -> Ending {
    const GROUP: std::net::Ipv4Addr = std::net::Ipv4Addr::new(239, 78, 1, 1);
    let command = |side: Side, count: u32| {
        let mut command = field.command(side, "mckey");
        command.args(["-m", &GROUP.to_string(), "-C", &count.to_string()]);
        command.args(["-b", side.address(setting.family)]);
        command
    };
    let mut server = process::spawn(command(setting.server, 10), dir, "receiver")?;
    let joined = |running: &Running| {
        let table = fs::read_to_string(format!("/proc/{}/net/igmp", running.id()));
        let wanted = format!("{:08X}", u32::from_le_bytes(GROUP.octets()));
        table.is_ok_and(|table| table.contains(&wanted))
    };
    if !server.wait_until(LISTEN_LIMIT, joined) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the receiver does not join", &[&server]));
    }
    let mut sender = command(setting.server.other(), count);
    sender.arg("-s");
    let client = process::run(sender, dir, "sender", LIMIT)?;
    let server = server.finish(patience(&client));
    let stock = cm::stock("mckey", "mckey", "mckey", "return status 0");
    cm::judge(&client, &server, &stock)
}

fn rping(field: &Field, setting: &Setting, port: u16) -> Command {
    let mut command = field.command(setting.server.other(), "rping");
    let address = setting.server.address(setting.family);
    command.args(["-c", "-a", address, "-p", &port.to_string()]);
    command
}

/// Where nobody listens the answer is at once that one.
fn nobody_listens(field: &Field, setting: &Setting, port: u16, dir: &Path) -> Ending {
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
fn client_killed(field: &Field, setting: &Setting, port: u16, dir: &Path) -> Ending {
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

/// A client that asks for no retries has none: its device ends the run with the status that is due, and says nothing else before.
fn fio_sends(field: &Field, setting: &Setting, port: u16, dir: &Path) -> Ending {
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
fn iperf3_stops(field: &Field, setting: &Setting, port: u16, dir: &Path) -> Ending {
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

/// What iperf3 says that it has transferred, interval by interval: `[ 22]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec`.
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

/// A connection to an address where nobody is, which takes more than a minute to fail, without doing anything.
pub struct Unanswered(Running);

impl Unanswered {
    /// Begins one.
    pub fn begin(field: &Field, setting: &Setting, dir: &Path) -> Result<Unanswered, Stop> {
        let mut command = field.command(setting.server.other(), "rping");
        command.args(["-c", "-a", field::nobody(setting.family), "-C", "1"]);
        Ok(Unanswered(process::spawn(command, dir, "client")?))
    }

    /// How it ended: told that there was no answer.
    pub fn end(self) -> Ending {
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
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn iperf3_says_what_it_transfers() {
        let said = "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n\
                    [ 22]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec  32719   0.00 Bytes\n\
                    iperf3: getsockopt - Operation not supported\n\
                    [ 22]   1.00-1.89   sec  0.00 Bytes  0.00 bits/sec    0   2.57 TBytes\n";
        assert_eq!(intervals(said), ["128 KBytes", "0.00 Bytes"]);
    }

    #[test]
    fn only_the_last_acknowledgement_may_be_missing() {
        let finished = |code: i32, out: &str, err: &str| Finished {
            line: "ibv_rc_pingpong".to_owned(),
            status: Some(ExitStatus::from_raw(code << 8)),
            out: out.to_owned(),
            err: err.to_owned(),
            elapsed: Duration::ZERO,
        };
        let done = finished(0, "50 iters in 0.23 seconds = 4504.74 usec/iter", "");
        let lost = "Failed status transport retry counter exceeded (12) for wr_id 2\n";
        assert!(left_alone(&finished(1, "", lost), &done));
        let counted = format!("{lost}parse WC failed 2\n");
        assert!(left_alone(&finished(1, "", &counted), &done));
        // The other end must have had all of it.
        assert!(!left_alone(&finished(1, "", lost), &finished(1, "", lost)));
        let flushed = "Failed status Work Request Flushed Error (5) for wr_id 1\n";
        for said in ["", flushed, &lost.repeat(2), &counted.repeat(2)] {
            assert!(!left_alone(&finished(1, "", said), &done), "{said:?}");
        }
        let killed = Finished {
            status: None,
            ..finished(0, "", "")
        };
        assert!(asks_for_ever(&killed, &done, 800));
        // A server that has not got the last message does not ask.
        assert!(!asks_for_ever(&killed, &done, 20));
        assert!(!asks_for_ever(&killed, &finished(1, "", lost), 800));
        assert!(!asks_for_ever(&finished(1, "", lost), &done, 800));
    }
}
