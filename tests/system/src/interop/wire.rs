//! Packets themselves: each side accepts every packet of the other, and drops what was damaged.
//! Counters prove it.
//!
//! rdma_rxe of Linux 6.1 does not count wrong ICRCs; its `rcvd_pkts` counts what passed.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::differs;
use super::exchange;
use super::field::{Family, Field, Side};
use super::programs::Program;
use super::setting::{MTUS, Setting};
use super::{Plan, Scope};
use crate::attack::pcap;
use crate::build;
use crate::harness::case::{Ending, Stop};
use crate::harness::process;
use crate::lab::environment::Capture;

/// One test here: name, setting, how it ended, seconds.
type Done = (String, Setting, Ending, f64);

/// Bytes of BTH and DETH.
const HEADERS: usize = 20;
/// Where the damaged packets come from.
const SOURCE_PORT: u16 = 18_199;
/// Bytes of a management datagram.
const MAD: usize = 256;

/// What runs one test in a setting.
type Test = fn(&mut Field, &Setting, &Path) -> Ending;

/// All of these tests.
pub(super) fn all(field: &mut Field, scope: &Scope, dir: &Path) -> Vec<Done> {
    let mut done = Vec::new();
    let mut run = |name: &str, settings: &[Setting], test: Test| {
        if !scope.wants(name) {
            return;
        }

        for setting in settings {
            let from = Instant::now();
            let ending = field
                .set_mtu(setting.mtu)
                .and_then(|()| test(field, setting, dir));
            done.push((
                name.to_owned(),
                *setting,
                ending,
                from.elapsed().as_secs_f64(),
            ));
        }
    };

    let plan = scope.plan();
    let all = match plan {
        // Its programs are about a library.
        Plan::Exs => return done,
        Plan::Short => settings(&[Family::V4], &MTUS[1..]),
        Plan::Whole => settings(&[Family::V4, Family::V6], &MTUS),
    };
    run("every packet is accepted", &all, whole_sends);
    if plan == Plan::Whole {
        run("every packet is accepted, sends cut early", &all, cut_sends);
        let over_v4 = settings(&[Family::V4], &MTUS);
        run("damaged in the network", &over_v4, damaged_on_the_way);
        run("captured: Identification, ICRC", &all, captured);
        run("XRC", &over_v4[..2], xrc);
    }

    run("one bit flipped", &all, one_bit);
    done
}

/// Each role in each of these.
fn settings(families: &[Family], mtus: &[u32]) -> Vec<Setting> {
    let mut all = Vec::new();
    for mtu in mtus {
        for family in families {
            all.extend([Side::Ferroce, Side::Rxe].map(|server| Setting {
                server,
                family: *family,
                mtu: *mtu,
                bad: false,
            }));
        }
    }
    all
}

/// Packets of each side that were sent, and that the other side took.
struct Traffic {
    sent: [u64; 2],
    taken: [u64; 2],
    /// Wrong ICRCs that ferroce saw.
    wrong: u64,
}

impl Traffic {
    /// The counters now, rdma_rxe's packets first.
    fn now(field: &Field) -> Result<Traffic, Stop> {
        Ok(Traffic {
            sent: [
                field.rxe_counter("sent_pkts")?,
                field.ferroce_counter("sent_pkts")?,
            ],
            taken: [
                field.ferroce_counter("rcvd_pkts")?,
                field.rxe_counter("rcvd_pkts")?,
            ],
            wrong: field.ferroce_counter("rx_icrc_encapsulated")?,
        })
    }

    /// What has come since.
    fn since(&self, field: &Field) -> Result<Traffic, Stop> {
        let now = Traffic::now(field)?;
        let less = |now: [u64; 2], then: [u64; 2]| [now[0] - then[0], now[1] - then[1]];
        Ok(Traffic {
            sent: less(now.sent, self.sent),
            taken: less(now.taken, self.taken),
            wrong: now.wrong - self.wrong,
        })
    }
}

fn whole_sends(field: &mut Field, setting: &Setting, dir: &Path) -> Ending {
    accepted(field, setting, dir)
}

fn cut_sends(field: &mut Field, setting: &Setting, dir: &Path) -> Ending {
    field.cut_early(true)?;
    let ending = accepted(field, setting, dir);
    field.cut_early(false)?;
    ending
}

/// Long messages in both directions: what one sent, the other took, to the packet, and nobody saw a
/// wrong ICRC.
fn accepted(field: &Field, setting: &Setting, dir: &Path) -> Ending {
    let before = Traffic::now(field)?;

    // The server of READs sends responses; all of these are cut from long sends.
    for (line, port) in [
        ("ib_write_bw -s 100000 -n 10", 18_100),
        ("ib_read_bw -s 100000 -n 10", 18_101),
    ] {
        perform(field, Program::Perftest(line), setting, port, dir)?;
    }

    let mut seen = before.since(field)?;

    // What was sent last may still be under way to a counter.
    let deadline = Instant::now() + Duration::from_secs(5);
    while seen.sent != seen.taken && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(50));
        seen = before.since(field)?;
    }

    if seen.sent != seen.taken || seen.wrong != 0 || seen.sent.contains(&0) {
        return Err(Stop::fail(format!(
            "rxe and ferroce sent {:?} packets, the other took {:?}, wrong ICRCs at ferroce: {}",
            seen.sent, seen.taken, seen.wrong
        )));
    }

    Ok(())
}

fn perform(field: &Field, program: Program, setting: &Setting, port: u16, dir: &Path) -> Ending {
    exchange::run(field, program, setting, port, dir)
        .into_iter()
        .try_for_each(|(_, ending)| ending)
}

/// A network that flips a bit now and then: the bytes are right all the same, and those who drop
/// say so.
fn damaged_on_the_way(field: &mut Field, setting: &Setting, dir: &Path) -> Ending {
    let before = Traffic::now(field)?;
    for side in [Side::Rxe, Side::Ferroce] {
        field.netem(side, &["corrupt", "3%"])?;
    }
    field.cut_early(true)?;
    let line = "ibv_rc_pingpong -c -s 50000 -n 40";

    // The last acknowledgement may be among what is dropped.
    let bad = Setting {
        bad: true,
        ..*setting
    };
    let ending = perform(field, Program::Pingpong(line), &bad, 18_102, dir);
    field.mend()?;
    ending?;
    let seen = before.since(field)?;

    // What ferroce sends has a UDP checksum of the kernel's, which sees most of it before rdma_rxe
    // does.
    if seen.wrong == 0 {
        return Err(Stop::fail("ferroce saw no wrong ICRC"));
    }

    Ok(())
}

/// The datagram of a management class that nobody answers: BTH, DETH, MAD.
fn datagram() -> Vec<u8> {
    let mut bytes = vec![0; HEADERS + MAD];
    // UD SEND only, to queue pair 1, default partition.
    bytes[0] = 0x64;
    bytes[2..4].copy_from_slice(&[0xff, 0xff]);
    bytes[7] = 1;
    // Q_Key and queue pair of management.
    bytes[12..16].copy_from_slice(&0x8001_0000_u32.to_be_bytes());
    bytes[19] = 1;
    // Communication management, version 2, Send, an alternate path for a connection that there is
    // not.
    bytes[HEADERS..HEADERS + 4].copy_from_slice(&[1, 7, 2, 3]);
    bytes[HEADERS + 17] = 0x19;
    bytes
}

/// The server's side drops every packet with a bit flipped, wherever it is, and takes the same
/// packet without.
fn one_bit(field: &mut Field, setting: &Setting, dir: &Path) -> Ending {
    let sender = setting.server.other();
    let address = |side: Side| -> Result<IpAddr, Stop> {
        side.address(setting.family)
            .parse()
            .map_err(|error| Stop::fail(format!("{error}")))
    };
    let (from, to) = (address(sender)?, address(setting.server)?);
    let good = pcap::with_icrc(&datagram(), SocketAddr::new(from, SOURCE_PORT), to);

    // PSN, source queue pair, first and last byte of the MAD, both ends of the ICRC.
    let places = [
        11,
        19,
        HEADERS,
        HEADERS + 40,
        HEADERS + MAD - 1,
        good.len() - 4,
        good.len() - 1,
    ];

    let before = Traffic::now(field)?;
    let mut payloads = Vec::new();
    for place in places {
        for bit in [0, 7] {
            let mut bad = good.clone();
            bad[place] ^= 1 << bit;
            payloads.push(bad);
        }
    }

    // Packets of one sender are handled in order: when the good one is there, the bad ones have
    // been dealt with.
    payloads.push(good.clone());
    send(field, sender, from, to, &payloads, dir)?;
    let damaged = 2 * places.len() as u64;
    let ours = setting.server == Side::Ferroce;
    let taken = |seen: &Traffic| seen.taken[usize::from(!ours)];
    wait(|| Ok(taken(&before.since(field)?) > 0))
        .map_err(|stop| with_traffic(field, &before, stop))?;
    if ours {
        wait(|| Ok(before.since(field)?.wrong == damaged))
            .map_err(|stop| with_traffic(field, &before, stop))?;
    }

    match taken(&before.since(field)?) {
        1 => Ok(()),
        taken => Err(Stop::fail(format!("{taken} packets were taken, not 1"))),
    }
}

/// What the counters said when something was waited for in vain.
fn with_traffic(field: &Field, before: &Traffic, stop: Stop) -> Stop {
    match before.since(field) {
        Ok(seen) => Stop::fail(format!(
            "sent {:?}, taken {:?}, wrong ICRCs at ferroce {}",
            seen.sent, seen.taken, seen.wrong
        )),
        Err(_) => stop,
    }
}

/// Waits, within bounds, for something to hold.
fn wait(mut holds: impl FnMut() -> Result<bool, Stop>) -> Ending {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds()? {
        if Instant::now() > deadline {
            return Err(Stop::fail("waited in vain"));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Sends UDP payloads from a side. The kernel makes the UDP checksums of what it is given, so that
/// only the ICRC is there to notice.
fn send(
    field: &Field,
    side: Side,
    from: IpAddr,
    to: IpAddr,
    payloads: &[Vec<u8>],
    dir: &Path,
) -> Ending {
    let file = dir.join("payloads");
    let hex =
        |bytes: &Vec<u8>| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let lines: Vec<String> = payloads.iter().map(hex).collect();
    fs::write(&file, lines.join("\n")).map_err(anyhow::Error::from)?;
    let mut command = field.plain(side, "sh");
    let script = build::workspace().join("tests/interop/send.py");
    command.args(["-c", "python3 \"$0\" \"$1\" \"$2\" \"$3\" <\"$4\""]);
    command.arg(script);
    command.args([from.to_string(), SOURCE_PORT.to_string(), to.to_string()]);
    command.arg(&file);
    let sent = process::run(command, dir, "send", Duration::from_secs(60))?;
    match sent.success() {
        true => Ok(()),
        false => Err(Stop::with(sent.ending(), &[&sent])),
    }
}

/// A capture of both directions: rdma_rxe numbers its packets where IP has numbers, and every
/// packet's ICRC is the one that belongs there.
fn captured(field: &mut Field, setting: &Setting, dir: &Path) -> Ending {
    let capture = Capture::start(&field.ferroce, Side::Ferroce.interface(), 100_000, dir)?;
    field.cut_early(true)?;
    let line = "ib_write_bw -s 100000 -n 10";
    let ran = perform(field, Program::Perftest(line), setting, 18_103, dir);
    capture.settle();
    let file = capture.finish()?;
    field.cut_early(false)?;
    ran?;
    let packets = pcap::read(&file)?;
    let from = |side: Side| {
        packets
            .iter()
            .filter(move |packet| packet.source().to_string() == side.address(setting.family))
    };

    for side in [Side::Rxe, Side::Ferroce] {
        let all = from(side).count();
        let wrong = from(side).filter(|packet| !packet.icrc_is_right()).count();
        if all == 0 || wrong > 0 {
            return Err(Stop::fail(format!(
                "{wrong} of {all} packets of {} have a wrong ICRC",
                side.name()
            )));
        }
    }

    let numbered = from(Side::Rxe)
        .filter(|packet| packet.identification() != Some(0))
        .count();
    if numbered == 0 {
        return Err(Stop::fail("rdma_rxe numbers no packet"));
    }

    Ok(())
}

/// XRC, where the kernel's device has it.
fn xrc(field: &mut Field, setting: &Setting, dir: &Path) -> Ending {
    let output = field
        .command(Side::Rxe, "ibv_devinfo")
        .args(["-v", "-d", Side::Rxe.device()])
        .output()
        .map_err(anyhow::Error::from)?;
    if !String::from_utf8_lossy(&output.stdout).contains("XRC") {
        return Err(Stop::Skip(differs::no_xrc().to_owned()));
    }
    let line = "ib_send_bw -c XRC -n 50";
    perform(field, Program::Perftest(line), setting, 18_104, dir)
}
