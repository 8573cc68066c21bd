//! A capture of `ferroce capture`, and its packets as tshark takes them apart.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ferroce_wire::icrc::{Flow, Verdict};
use rustix::process::Signal;

use crate::harness::case::{Ending, Stop, expect};
use crate::harness::process::{self, Finished, Running};
use crate::lab::host::Host;

const LIMIT: Duration = Duration::from_secs(60);

/// A capture that runs.
pub(super) struct Capture {
    pub(super) running: Running,
    file: PathBuf,
}

/// A packet.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) comment: String,
    pub(super) incoming: bool,
    pub(super) opcode: u32,
    pub(super) psn: u32,
    pub(super) dest_qp: u32,
    /// Of a MAD.
    pub(super) attribute: String,
    /// From the BTH to the ICRC.
    pub(super) payload: Vec<u8>,
    malformed: bool,
    from: IpAddr,
    to: IpAddr,
    id: u16,
    port: u16,
    udp_len: usize,
}

const FIELDS: [&str; 15] = [
    "frame.comment",
    "frame.p2p_dir",
    "infiniband.bth.opcode",
    "infiniband.bth.psn",
    "infiniband.bth.destqp",
    "infiniband.mad.attributeid",
    "udp.payload",
    "_ws.malformed",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "ip.id",
    "udp.srcport",
    "udp.length",
];

impl Capture {
    /// Captures a host's device from now on.
    pub(super) fn start(host: &Host, options: &[&str], dir: &Path) -> Result<Capture, Stop> {
        let file = dir.join("capture.pcapng");
        let _ = std::fs::remove_file(&file);
        let mut command = host.ferroce();
        command.arg("capture").args(options).arg("-w").arg(&file);
        let mut running = process::spawn(command, dir, "capture")?;
        match running.wait_until(LIMIT, |running| running.errors().contains("capturing")) {
            true => Ok(Capture { running, file }),
            false => Err(Stop::with("does not capture", &[&running.kill()])),
        }
    }

    /// Ends it; returns what it said.
    pub(super) fn stop(self) -> (Finished, PathBuf) {
        self.running.signal(Signal::INT);
        (self.running.finish(LIMIT), self.file)
    }

    /// Ends it, with nothing dropped; returns the file.
    pub(super) fn end(self) -> Result<PathBuf, Stop> {
        let (finished, file) = self.stop();
        match finished.success() && finished.err.contains(" captured, 0 records dropped") {
            true => Ok(file),
            false => Err(Stop::with("does not end well", &[&finished])),
        }
    }

    /// Ends it, and reads its packets.
    pub(super) fn finish(self) -> Result<Vec<Row>, Stop> {
        let rows = fields(&self.end()?, "", &FIELDS)?;
        rows.iter().map(|row| Row::of(row)).collect()
    }
}

/// Some fields of the packets that a filter lets through, as tshark has them.
pub(in super::super) fn fields(
    file: &Path,
    filter: &str,
    names: &[&str],
) -> Result<Vec<Vec<String>>, Stop> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(file).args(["-T", "fields"]);
    // What perftest sends is no RPC, for which tshark may take it.
    command.args(["--disable-heuristic", "rpcrdma_infiniband"]);
    if !filter.is_empty() {
        command.args(["-Y", filter]);
    }
    for name in names {
        command.args(["-e", name]);
    }

    let dir = file.parent().unwrap_or(Path::new("."));
    let finished = process::run(command, dir, "tshark", LIMIT)?;
    if !finished.success() {
        return Err(Stop::with("tshark", &[&finished]));
    }
    let lines = finished.out.lines();
    let split = |line: &str| line.split('\t').map(str::to_owned).collect();
    Ok(lines.map(split).collect())
}

impl Row {
    fn of(fields: &[String]) -> Result<Row, Stop> {
        let bad = || Stop::fail(format!("not a packet of RoCEv2: {fields:?}"));
        let number = |at: usize| -> Result<u32, Stop> {
            let text = fields.get(at).ok_or_else(bad)?;
            let number = match text.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => text.parse(),
            };
            number.map_err(|_| bad())
        };
        let address = |v4: usize, v6: usize| -> Result<IpAddr, Stop> {
            let text = if fields[v4].is_empty() { v6 } else { v4 };
            fields[text].parse().map_err(|_| bad())
        };
        if fields.len() != FIELDS.len() {
            return Err(bad());
        }

        let digits = &fields[6];
        let bytes = (0..digits.len() / 2).map(|n| u8::from_str_radix(&digits[2 * n..][..2], 16));
        Ok(Row {
            comment: fields[0].clone(),
            incoming: fields[1] == "1",
            opcode: number(2)?,
            psn: number(3)?,
            dest_qp: number(4)?,
            attribute: fields[5].clone(),
            payload: bytes.collect::<Result<_, _>>().map_err(|_| bad())?,
            malformed: !fields[7].is_empty(),
            from: address(8, 10)?,
            to: address(9, 11)?,
            id: number(12).unwrap_or(0) as u16,
            port: number(13)? as u16,
            udp_len: number(14)? as usize,
        })
    }

    /// It is what it says to be: tshark finds nothing malformed, lengths fit, and the ICRC is that
    /// of these very addresses, ports and Identification.
    pub(super) fn is_sound(&self) -> Ending {
        let flow = match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => Flow::v4(from, to, self.port, 4791),
            (IpAddr::V6(from), IpAddr::V6(to)) => Flow::v6(from, to, self.port, 4791),
            _ => return Err(Stop::fail(format!("two families: {self:?}"))),
        };
        let right = flow.verify(&self.payload, self.id) == Verdict::Exact;
        let fits = self.udp_len == self.payload.len() + 8;
        let said = self.comment.contains('[');
        expect(!self.malformed && right && fits && said, || {
            format!("ICRC right: {right}, length fits: {fits}: {self:?}")
        })
    }
}
