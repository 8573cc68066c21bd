//! `ferroce capture`: stock programs' packets as tshark takes them apart, in every way that packets
//! go; what filters let through; and readers that are slow, killed or not allowed.

mod read;
mod readers;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use self::read::{Capture, Row};
use self::work::{pair, rping};
use crate::harness::case::{Case, Ending, Stop, expect};
use crate::harness::process;
use crate::lab::subnet::Subnet;
use crate::lab::{Lab, Place};

const LIMIT: Duration = Duration::from_secs(60);

/// Opcodes.
const SEND_FIRST: u32 = 0;
const SEND_MIDDLE: u32 = 1;
const SEND_LAST: u32 = 2;
const ACKNOWLEDGE: u32 = 17;
const DATAGRAM: u32 = 100;

pub(crate) fn cases() -> Vec<Case> {
    let places = [
        Place::OneDaemon,
        Place::Ipv6,
        Place::Sockets,
        Place::TwoDaemons,
        Place::VethIpv6(1500),
    ];
    let traffic = places.map(|place| {
        let name = format!(
            "instrument/{}/capture of all kinds of traffic",
            place.name()
        );
        Case::new(name, move |lab| traffic(lab, place))
    });
    let others = [
        Case::new("instrument/capture of one program or queue pair", chosen),
        Case::new("instrument/capture at both ends", both),
        Case::new("instrument/capture of verbs", verbs),
        Case::new("instrument/capture in words", words),
        Case::new("instrument/capture into tshark", live),
        Case::new("instrument/capture with a short snap length", snapped),
        Case::new("instrument/capture of a cable", cable),
    ];
    let readers = readers::cases();
    traffic.into_iter().chain(others).chain(readers).collect()
}

/// What is captured of a device while `work` is done.
fn captured(
    lab: &mut Lab,
    place: Place,
    options: &[&str],
    dir: &Path,
    work: impl FnOnce(&mut Lab) -> Ending,
) -> Result<Vec<Row>, Stop> {
    let capture = Capture::start(lab.site(place)?.client(), options, dir)?;
    work(lab)?;
    let rows = capture.finish()?;
    rows.iter().try_for_each(Row::is_sound)?;
    Ok(rows)
}

/// How many packets have this opcode.
fn count(rows: &[Row], opcode: u32) -> usize {
    rows.iter().filter(|row| row.opcode == opcode).count()
}

/// Messages of RC, one for each kind of program, datagrams and a connection's management: each
/// packet is there once, whole, in order, and is what tshark takes it for.
fn traffic(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;

    // 10 messages of 4096 bytes each way, in packets of 1024.
    let line = "ibv_rc_pingpong -g 0 -n 10";
    let rows = captured(lab, place, &[], &dir, |lab| pair(lab, place, line, &dir))?;
    for (opcode, wanted) in [(SEND_FIRST, 20), (SEND_MIDDLE, 40), (SEND_LAST, 20)] {
        sent(&rows, opcode, wanted)?;
    }
    expect(count(&rows, ACKNOWLEDGE) > 0, || {
        "no acknowledgement".to_owned()
    })?;

    // 50 messages of 64 KiB, which leave as runs.
    let packets = 65_536 / place.path_mtu() as usize;
    let line = "ib_send_bw -F -s 65536 -n 50";
    let rows = captured(lab, place, &[], &dir, |lab| pair(lab, place, line, &dir))?;
    sent(&rows, SEND_FIRST, 50)?;
    sent(&rows, SEND_MIDDLE, 50 * (packets - 2))?;
    sent(&rows, SEND_LAST, 50)?;
    let longest = rows.iter().map(|row| row.payload.len()).max();
    expect(longest == Some(place.path_mtu() as usize + 16), || {
        format!("the longest packet has {longest:?} bytes")
    })?;

    let line = "ibv_ud_pingpong -g 0 -n 10 -s 1024";
    let rows = captured(lab, place, &[], &dir, |lab| pair(lab, place, line, &dir))?;
    let datagrams = count(&rows, DATAGRAM);
    expect(datagrams == 20, || format!("{datagrams} datagrams"))?;

    let rows = captured(lab, place, &[], &dir, |lab| rping(lab, place, &dir))?;
    messages(&rows)
}

/// So many packets have this opcode, without those that were sent again, and the requests of each
/// queue pair follow each other without a gap.
fn sent(rows: &[Row], opcode: u32, wanted: usize) -> Ending {
    let with = rows.iter().filter(|row| row.opcode == opcode);
    let numbers: BTreeSet<(u32, u32)> = with.map(|row| (row.dest_qp, row.psn)).collect();
    expect(numbers.len() == wanted, || {
        format!("{} packets of opcode {opcode}, not {wanted}", numbers.len())
    })?;

    let mut all: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.opcode <= 4) {
        all.entry(row.dest_qp).or_default().insert(row.psn);
    }
    for (qp, numbers) in all {
        // A number may come round to 0.
        let follows = |psn: &u32| numbers.contains(&((psn + 1) & 0xff_ffff));
        let ends = numbers.iter().filter(|psn| !follows(psn)).count();
        expect(ends == 1, || format!("{ends} gaps in what QP {qp:#x} gets"))?;
    }
    Ok(())
}

/// The messages of a connection that was made and ended, each shown once.
fn messages(rows: &[Row]) -> Ending {
    let messages: Vec<&Row> = rows.iter().filter(|row| row.dest_qp == 1).collect();
    let kinds: BTreeSet<&str> = messages.iter().map(|row| row.attribute.as_str()).collect();
    // REQ, REP, RTU, DREQ, DREP.
    for wanted in ["0x0010", "0x0013", "0x0014", "0x0015", "0x0016"] {
        expect(kinds.contains(wanted), || {
            format!("no message {wanted} among {kinds:?}")
        })?;
    }
    let packets: BTreeSet<&[u8]> = messages.iter().map(|row| row.payload.as_slice()).collect();
    expect(packets.len() == messages.len(), || {
        format!(
            "{} messages, {} of them once",
            messages.len(),
            packets.len()
        )
    })
}

/// A program alone, the daemon alone, a queue pair alone.
fn chosen(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let place = Place::OneDaemon;
    let rows = captured(lab, place, &["--program", "ferroced"], &dir, |lab| {
        rping(lab, place, &dir)
    })?;
    messages(&rows)?;
    expect(rows.iter().all(|row| row.dest_qp == 1), || {
        "others' packets among the daemon's".to_owned()
    })?;

    let rows = captured(lab, place, &["--program", "rping"], &dir, |lab| {
        pair(lab, place, "ibv_rc_pingpong -g 0 -n 10", &dir)?;
        rping(lab, place, &dir)
    })?;
    let others = rows.iter().find(|row| !row.comment.starts_with("rping["));
    expect(!rows.is_empty() && others.is_none(), || {
        format!("{} packets, one of {others:?}", rows.len())
    })?;

    let rows = captured(lab, place, &["--qp", "0x1"], &dir, |lab| {
        rping(lab, place, &dir)
    })?;
    messages(&rows)?;
    expect(rows.iter().all(|row| row.dest_qp == 1), || {
        "packets of other queue pairs".to_owned()
    })
}

/// Asked for, a packet is shown at both ends, and is the same.
fn both(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    for place in [Place::OneDaemon, Place::Sockets] {
        let rows = captured(lab, place, &["--both"], &dir, |lab| {
            pair(lab, place, "ibv_rc_pingpong -g 0 -n 10", &dir)
        })?;
        let ends = |incoming: bool| -> BTreeMap<&[u8], usize> {
            let mut all = BTreeMap::new();
            for row in rows.iter().filter(|row| row.incoming == incoming) {
                *all.entry(row.payload.as_slice()).or_default() += 1;
            }
            all
        };
        let (sent, came) = (ends(false), ends(true));
        expect(sent == came && sent.len() > 80, || {
            format!("{}: {} sent, {} came", place.name(), sent.len(), came.len())
        })?;
    }
    Ok(())
}

/// What is posted and completed stands among the packets.
fn verbs(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let place = Place::OneDaemon;
    let capture = Capture::start(lab.site(place)?.client(), &["--verbs"], &dir)?;
    pair(lab, place, "ibv_rc_pingpong -g 0 -n 10", &dir)?;
    let file = capture.end()?;

    let events = read::fields(&file, "systemd_journal", &["systemd_journal.message"])?;
    let with = |words: &[&str]| {
        let has = |event: &&Vec<String>| words.iter().all(|word| event[0].contains(word));
        events.iter().filter(has).count()
    };
    for (words, wanted) in [
        (&["post_send SEND,", "4096 bytes"][..], 20),
        (&["completion SEND,", "SUCCESS"], 20),
        (&["completion RECV,", "SUCCESS", "4096 bytes"], 20),
        (&["is INIT"], 2),
        (&["is RTR"], 2),
        (&["is RTS"], 2),
    ] {
        let found = with(words);
        expect(found == wanted, || {
            format!("{found} events {words:?}, not {wanted}")
        })?;
    }
    expect(with(&["post_recv"]) >= 20, || {
        "receives are not shown".to_owned()
    })
}

/// A line for each packet, and an end after so many.
fn words(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let place = Place::OneDaemon;
    let mut command = lab.site(place)?.client().ferroce();
    command.args(["capture", "--text", "-c", "10", "--program", "ferroced"]);
    let mut running = process::spawn(command, &dir, "text")?;
    if !running.wait_until(LIMIT, |running| running.errors().contains("capturing")) {
        return Err(Stop::with("does not capture", &[&running.kill()]));
    }
    rping(lab, place, &dir)?;
    rping(lab, place, &dir)?;
    let finished = running.finish(LIMIT);

    let lines: Vec<&str> = finished.out.lines().collect();
    let all = |word: &str| lines.iter().all(|line| line.contains(word));
    let one = |word: &str| lines.iter().any(|line| line.contains(word));
    let good = finished.success()
        && lines.len() == 10
        && all("ferroced[")
        && all("127.0.0.1 > 127.0.0.1: UD SEND Only, QP 0x1, PSN ")
        && ["CM REQ", "CM REP", "CM RTU", "CM DREQ", "CM DREP"].map(one) == [true; 5]
        && finished
            .err
            .contains("10 packets captured, 0 records dropped");
    if !good {
        return Err(Stop::with("the lines are others", &[&finished]));
    }

    // Where two things would be written to one place.
    let mut command = lab.site(place)?.client().ferroce();
    command.args(["capture", "--json", "-w", "-"]);
    let refused = process::run(command, &dir, "refused", LIMIT)?;
    match refused.code() == Some(2) && refused.err.contains("give -w a file") {
        true => Ok(()),
        false => Err(Stop::with("not refused", &[&refused])),
    }
}

/// tshark takes the capture from a pipe while it goes on, and ends it by going.
fn live(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let place = Place::OneDaemon;
    let host = lab.site(place)?.client();
    let ferroce = process::line_of(&host.ferroce());
    let line = format!(
        "{ferroce} capture | tshark -n -l -i - -c 10 \
         --disable-heuristic rpcrdma_infiniband; echo ${{PIPESTATUS[0]}}"
    );
    let mut command = host.plain("bash");
    command.args(["-c", &line]);
    let mut running = process::spawn(command, &dir, "live")?;
    if !running.wait_until(LIMIT, |running| running.errors().contains("capturing")) {
        return Err(Stop::with("does not capture", &[&running.kill()]));
    }
    // As long as both go on.
    for _ in 0..20 {
        pair(lab, place, "ibv_rc_pingpong -g 0 -n 10", &dir)?;
        if running.ended_within(Duration::from_millis(200)) {
            break;
        }
    }
    let finished = running.finish(LIMIT);
    let packets = finished.out.matches("RRoCE").count();
    let good = finished.success() && packets == 10 && finished.out.trim_end().ends_with("\n0");
    match good && finished.err.contains("packets captured") {
        true => Ok(()),
        false => Err(Stop::with(format!("{packets} packets"), &[&finished])),
    }
}

/// Headers are enough: the lengths are the packets' own all the same.
fn snapped(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let place = Place::OneDaemon;
    let capture = Capture::start(lab.site(place)?.client(), &["--snaplen", "20"], &dir)?;
    pair(lab, place, "ibv_rc_pingpong -g 0 -n 10", &dir)?;
    let file = capture.end()?;
    let rows = read::fields(&file, "", &["frame.len", "frame.cap_len"])?;
    let full = rows.iter().filter(|row| row[0] == "1068" && row[1] == "48");
    let full = full.count();
    expect(full == 80, || format!("{full} packets of 1024 bytes"))
}

/// InfiniBand packets off a cable, with the subnet manager's.
fn cable(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    lab.vacate();
    let mut subnet = Subnet::back_to_back(lab.programs(), &dir)?;
    let capture = Capture::start(&subnet.hosts[0], &[], &dir)?;
    let manager = subnet.manage(0, &[])?;
    subnet.pair((0, 1), &["ibv_rc_pingpong", "-n", "10"], lab.port())?;
    manager.kill();

    let file = capture.end()?;
    let fields = [
        "infiniband.lrh.dlid",
        "infiniband.bth.opcode",
        "infiniband.bth.destqp",
        "infiniband.mad.mgmtclass",
        "_ws.malformed",
    ];
    let rows = read::fields(&file, "", &fields)?;
    let broken = rows
        .iter()
        .find(|row| !row[4].is_empty() || row[0].is_empty());
    let sends = rows
        .iter()
        .filter(|row| ["0", "1", "2"].contains(&row[1].as_str()));
    let smps = rows
        .iter()
        .filter(|row| row[2] == "0x000000" && row[3] == "0x81");
    let (sends, smps) = (sends.count(), smps.count());
    expect(broken.is_none() && sends == 80 && smps > 10, || {
        format!("{sends} packets of SENDs, {smps} SMPs, malformed: {broken:?}")
    })
}
