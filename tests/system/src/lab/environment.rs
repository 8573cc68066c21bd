//! What several groups need to look at: a daemon's account of itself, captures of the traffic.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::attack::pcap;
use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Running};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::packages;
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(60);

/// How many processes hold a slot.
pub(crate) fn clients(status: &Value) -> u64 {
    status["slots"]["claimed"].as_u64().unwrap_or(u64::MAX)
}

/// The sum of the counters whose names contain a word.
pub(crate) fn counter(status: &Value, word: &str) -> u64 {
    let counters = status["counters"].as_object().into_iter().flatten();
    counters
        .filter(|(name, _)| name.contains(word))
        .filter_map(|(_, value)| value.as_u64())
        .sum()
}

/// A capture that runs.
pub(crate) struct Capture {
    dumpcap: Running,
    file: PathBuf,
}

impl Capture {
    /// Captures RoCEv2 on an interface of a host from now on, at most `packets`.
    pub(crate) fn start(
        host: &Host,
        interface: &str,
        packets: u32,
        dir: &Path,
    ) -> Result<Capture, Stop> {
        if packages::which("dumpcap").is_none() {
            return Err(Stop::Skip("dumpcap is not installed".to_owned()));
        }

        let file = dir.join("capture.pcap");
        let _ = std::fs::remove_file(&file);

        // What tshark itself captures with; it starts sooner.
        let mut command = host.plain("dumpcap");
        command.args([
            "-q",
            "-P",
            "-i",
            interface,
            "-f",
            "udp port 4791",
            "-s",
            "0",
            "-B",
            "64",
        ]);

        command.args(["-c", &packets.to_string(), "-w"]).arg(&file);
        let mut dumpcap = process::spawn(command, dir, "dumpcap")?;

        // It has opened the interface when the file has its header.
        let has_header =
            |_: &Running| std::fs::metadata(&file).is_ok_and(|metadata| metadata.len() >= 24);
        if !dumpcap.wait_until(Duration::from_secs(20), has_header) {
            let finished = dumpcap.finish(Duration::ZERO);
            let denied = ["permission", "Operation not permitted", "privileges"];
            if denied.iter().any(|word| finished.err.contains(word)) {
                return Err(Stop::Skip(format!(
                    "capturing is not allowed on {interface}"
                )));
            }
            return Err(Stop::with("dumpcap does not capture", &[&finished]));
        }

        Ok(Capture { dumpcap, file })
    }

    /// Waits, within bounds, until no more packets reach the file: the kernel hands them over in
    /// blocks, and what it holds when a capture ends is lost.
    pub(crate) fn settle(&self) {
        let length = || std::fs::metadata(&self.file).map_or(0, |metadata| metadata.len());
        let deadline = Instant::now() + Duration::from_secs(10);
        let (mut last, mut since) = (length(), Instant::now());
        while Instant::now() < deadline && since.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(50));
            if length() != last {
                (last, since) = (length(), Instant::now());
            }
        }
    }

    /// Ends the capture.
    pub(crate) fn finish(self) -> Result<PathBuf, Stop> {
        self.dumpcap.signal(Signal::INT);
        let finished = self.dumpcap.finish(Duration::from_secs(20));
        if finished.success() {
            Ok(self.file)
        } else {
            Err(Stop::with(finished.ending(), &[&finished]))
        }
    }
}

/// Traffic of each kind, captured: every packet is RoCEv2 to tshark, none malformed, each ICRC
/// right.
pub(crate) fn capture(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let lines = [
        "ib_send_lat -s 100000 -n 20",
        "ib_send_bw -s 65536 -n 50",
        "ib_write_lat -n 50",
        "ib_read_lat -s 5000 -n 50",
        "ib_atomic_lat -n 50",
    ];
    let ports: Vec<u16> = lines.iter().map(|_| lab.port()).collect();
    let site = lab.site(Place::Veth(9000))?;

    // A capture on the sender's side shows what the kernel passes to the device: cut packets, once
    // the device says that it takes no uncut ones.
    site.segment_in_software()?;
    let capture = Capture::start(site.client(), site.client_interface(), 400_000, &dir)?;
    for (line, port) in lines.iter().zip(ports) {
        let mut words = line.split_whitespace().map(str::to_owned);
        let tool = words.next().unwrap_or_default();
        let options = words.chain(["-F".to_owned()]).collect();
        let pair = crate::programs::perftest::Pair {
            tool,
            options,
            port,
            limit: LIMIT,
        };
        pair.run(site.server(), site.client(), &dir)?.clean()?;
    }

    let file = capture.finish()?;
    let ask = |filter: &str| -> Result<(usize, String), Stop> {
        let mut command = std::process::Command::new("tshark");
        command.args(["-n", "-r"]).arg(&file).args(["-Y", filter]);
        let finished = process::run(command, &dir, "tshark-read", LIMIT)?;
        if !finished.success() {
            return Err(Stop::with(finished.ending(), &[&finished]));
        }
        Ok((
            finished.out.lines().count(),
            finished.out.lines().next().unwrap_or_default().to_owned(),
        ))
    };

    // It shows no ICRC of management datagrams of a vendor's class, as daemons ask each other with.
    let (all, _) = ask("udp.port == 4791 && !(infiniband.bth.destqp == 1)")?;
    let (roce, _) = ask("infiniband.bth && infiniband.invariant.crc")?;
    let (bad, example) = ask("_ws.malformed || infiniband.bth.opcode > 0x81")?;
    if all < 200 || roce != all {
        return Err(Stop::fail(format!(
            "of {all} packets, {roce} decode as RoCEv2"
        )));
    }

    if bad > 0 {
        return Err(Stop::fail(format!(
            "{bad} of {all} packets are malformed, the first: {example}"
        )));
    }

    let packets = pcap::read(&file)?;
    let wrong = packets
        .iter()
        .filter(|packet| !packet.icrc_is_right())
        .count();

    if wrong > 0 || packets.is_empty() {
        return Err(Stop::fail(format!(
            "{wrong} of {} packets have a wrong ICRC",
            packets.len()
        )));
    }

    Ok(())
}
