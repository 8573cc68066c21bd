//! What happens to packets.

use super::{LIMIT, Scene};
use crate::harness::case::{Ending, Stop};
use crate::harness::process;
use crate::programs::perftest::rows_of;
use crate::programs::stream::{Streams, all_right};

/// Messages of 16 packets.
const PINGPONG: &str = "ibv_rc_pingpong -g 0 -c -s 16384 -n 300";

/// The programs go on, and have the right data; what was lost was sent again. Of requests alone:
/// who has all that he waits for ends, and if his last acknowledgement is lost the other end
/// cannot.
pub(super) fn lost(scene: &Scene<'_>) -> Ending {
    let fault = "--loss 1% --match opcode=request --seed 7";
    scene.streams_on(fault, ("roce_retransmits", 1))?;
    scene.streams_on(&format!("{fault} --in"), ("roce_retransmits", 1))?;
    scene.survives(fault, PINGPONG, ("roce_retransmits", 1))
}

/// The same with many packets under way, of all kinds: these ends wait for each other.
pub(super) fn bandwidth(scene: &Scene<'_>) -> Ending {
    let line = "ib_write_bw -F -s 65536 -n 300";
    // For an acknowledgement that is lost later ones may stand; there are fewer of them than of
    // requests.
    scene.survives("--loss 1% --seed 7", line, ("roce_retransmits", 2))
}

/// A requester gives up after its retries, as the program says.
pub(super) fn all_lost(scene: &Scene<'_>) -> Ending {
    let line = "ibv_rc_pingpong -g 0 -n 10";
    scene.says("--loss 100%", line, "transport retry counter exceeded (12)")?;
    // By the expression and by the number alone.
    scene.survives("--nth 17", PINGPONG, ("roce_retransmits", 1))?;
    let few = "ibv_rc_pingpong -g 0 -c -n 30";
    scene.clear()?;
    let requests = "psn%8=3 and opcode=request";
    for host in scene.hosts() {
        scene.fault(host, &["add", "--drop", requests, "--count", "2"])?;
    }
    scene.run(few)?.clean()?;
    match scene.hits()? {
        // Two of each of the two queue pairs.
        4 => Ok(()),
        hits => Err(Stop::fail(format!("{hits} hits, not 4"))),
    }
}

/// Damaged packets are dropped and counted, and come again.
pub(super) fn damaged(scene: &Scene<'_>) -> Ending {
    for way in ["--corrupt", "--corrupt icrc --in"] {
        let fault = format!("{way} --rate 1% --match opcode=request --seed 3");
        scene.streams_on(&fault, ("rx_icrc_encapsulated", 1))?;
    }
    Ok(())
}

/// Before the ICRC nobody notices but the program.
pub(super) fn wrong_data(scene: &Scene<'_>) -> Ending {
    for way in ["", " --in"] {
        let before = scene.counter("rx_icrc_encapsulated")?;
        let hosts = [scene.server(), scene.client()];
        let streams = Streams::start(hosts, scene.port, Some(5), scene.dir(), LIMIT)?;
        scene.add(&format!("--corrupt payload --count 1{way}"))?;
        let ends = streams.finish(LIMIT);
        if ends.iter().all(all_right) || scene.counter("rx_icrc_encapsulated")? != before {
            let what = "the data are right, or a CRC has told";
            return Err(Stop::with(what, &[&ends[0], &ends[1]]));
        }
        scene.clear()?;
    }
    Ok(())
}

/// The responder tells duplicates, which change nothing.
pub(super) fn duplicates(scene: &Scene<'_>) -> Ending {
    let fault = "--duplicate --rate 10% --match opcode=request --seed 3";
    scene.streams_on(fault, ("duplicate_request", 1))
}

/// What is overtaken is asked for again.
pub(super) fn out_of_order(scene: &Scene<'_>) -> Ending {
    let fault = "--reorder --rate 1% --match opcode=request --seed 3";
    scene.streams_on(fault, ("out_of_sequence", 4))
}

/// A round trip takes as long as its two ways at least, and no packet is sent again for it: others
/// on the machine may take their time, too, but not the four seconds after which one is.
pub(super) fn delays(scene: &Scene<'_>) -> Ending {
    let before = scene.counter("roce_retransmits")?;
    scene.add("--delay 2ms±500us")?;
    let ends = scene.run("ib_write_lat -F -n 50 -u 20")?;
    ends.clean()?;
    // perftest has half a round trip, in microseconds: the third column is the typical one.
    let rows = rows_of(&ends.client.out);
    let typical = rows.first().and_then(|row| row.figures.get(2)).copied();
    let again = scene.counter("roce_retransmits")? - before;
    match typical {
        Some(us) if us >= 1_500.0 && again == 0 => Ok(()),
        _ => Err(ends.fail(format!("{typical:?} µs, {again} packets sent again"))),
    }
}

/// A run that is repeated loses the same packets, and with another seed others.
pub(super) fn same_seed(scene: &Scene<'_>) -> Ending {
    let first = lost_places(scene, 11)?;
    let second = lost_places(scene, 11)?;
    let other = lost_places(scene, 12)?;
    let sound = !first.is_empty() && first == second && first != other;
    match sound {
        true => Ok(()),
        false => Err(Stop::fail(format!(
            "lost with one seed: {first:?}, {second:?}; with another: {other:?}"
        ))),
    }
}

/// Which of a client's packets are lost, counted from its first. Nobody acknowledges them, so none
/// is sent again.
fn lost_places(scene: &Scene<'_>, seed: u32) -> Result<Vec<u32>, Stop> {
    let host = scene.client();
    scene.add(&format!("--loss 5% --match opcode=write --seed {seed}"))?;
    let command = || {
        let mut command = host.run("ib_write_bw");
        let port = scene.port.to_string();
        command.args(["-F", "-c", "UC", "-s", "1024", "-n", "400", "-p", &port]);
        command
    };
    let mut server = process::spawn(command(), scene.dir(), "server")?;
    if !server.listens(scene.port, LIMIT) {
        return Err(Stop::with("the server does not listen", &[&server.kill()]));
    }
    let mut client = command();
    client.arg(&host.address);
    client.env("FERROCE_LOG", "ferroce_engine=debug");
    let client = process::run(client, scene.dir(), "client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    scene.clear()?;
    if !client.success() || !server.success() {
        return Err(Stop::with("ib_write_bw fails", &[&client, &server]));
    }

    let number = |word: &str| {
        word.strip_prefix("0x")
            .map(|hex| u32::from_str_radix(hex, 16))
    };
    let mut words = client.out.split_whitespace();
    let first = words.by_ref().find(|word| *word == "PSN").and(words.next());
    let first = first.and_then(number).and_then(Result::ok);
    let first = first.ok_or_else(|| Stop::with("no PSN is said", &[&client]))?;
    let psns = client.err.lines().filter(|line| line.contains("loss hits"));
    let psns = psns.filter_map(|line| line.split("psn=").nth(1)?.split_whitespace().next());
    let psns = psns.filter_map(|psn| psn.parse::<u32>().ok());
    Ok(psns
        .map(|psn| psn.wrapping_sub(first) & 0xff_ffff)
        .collect())
}
