//! `ferroce replay`: what stock programs did, captured, is done again by the transport without a
//! difference, with faults and without; a queue pair's way to its end is seen; files that are none.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use super::capture::read::Capture;
use super::capture::work;
use crate::harness::case::{Case, Ending, Stop, expect};
use crate::harness::process::{self, Finished};
use crate::lab::environment;
use crate::lab::{Lab, Place};

const LIMIT: Duration = Duration::from_secs(60);

/// Where a capture has all that a replay needs. Payload is not.
const WHOLE: [&str; 6] = ["--verbs", "--both", "--snaplen", "96", "--buffer", "64"];

/// Programs, and how many steps of a run agree at least: those of the packets of all messages.
const PROGRAMS: [(&str, u64); 9] = [
    ("ib_send_bw -F -s 65536 -n 100", 1_600),
    ("ib_send_lat -F -s 64 -n 200", 400),
    ("ib_write_bw -F -s 65536 -n 100", 1_600),
    ("ib_write_lat -F -s 64 -n 200", 400),
    ("ib_read_bw -F -s 65536 -n 100", 1_600),
    ("ib_atomic_bw -F -n 200", 400),
    ("ib_send_bw -F -c UC -s 8192 -n 100", 200),
    ("ib_send_lat -F -c UD -s 1024 -n 100", 200),
    ("ibv_rc_pingpong -g 0 -n 100", 800),
];

/// Faults, over which the programs go on.
const FAULTS: [&str; 6] = [
    "--loss 2% --match opcode=ACK --seed 7",
    "--loss 1% --seed 7",
    "--loss 1% --in --seed 7",
    "--rnr --rate 5% --seed 7",
    "--nak psn --rate 2% --seed 7",
    "--duplicate --rate 2% --seed 7",
];

pub(crate) fn cases() -> Vec<Case> {
    let programs = [Place::OneDaemon, Place::Sockets].map(|place| {
        let name = format!("instrument/{}/replay of programs", place.name());
        Case::new(name, move |lab| programs(lab, place))
    });
    let others = [
        Case::new("instrument/replay of runs with faults", faults),
        Case::new("instrument/replay of selective acknowledgements", selective),
        Case::new("instrument/replay of a run that fails", failure),
        Case::new("instrument/replay of one end", one_end),
        Case::new("instrument/replay of a wire's capture", wire),
        Case::new("instrument/replay of files that are none", no_captures),
    ];
    programs.into_iter().chain(others).collect()
}

/// What a replay says, a line of JSON each.
struct Replayed {
    finished: Finished,
    steps: Vec<Value>,
    sums: Vec<Value>,
}

impl Replayed {
    fn of(lab: &mut Lab, place: Place, file: &Path, options: &[&str]) -> Result<Replayed, Stop> {
        let finished = run(lab, place, file, &[&["--json"], options].concat())?;
        let lines = finished.out.lines();
        let mut lines: Vec<Value> = lines
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .context("no JSON")?;
        let last = lines.pop().unwrap_or_default();
        let sums = last["queue_pairs"].as_array().cloned().unwrap_or_default();
        Ok(Replayed {
            finished,
            steps: lines,
            sums,
        })
    }

    fn total(&self, what: &str) -> u64 {
        self.sums.iter().filter_map(|sum| sum[what].as_u64()).sum()
    }

    /// Nothing differs, and so many steps agree.
    fn agrees(&self, what: &str, least: u64) -> Ending {
        let (agreed, differed) = (self.total("agreed"), self.total("differed"));
        let odd = |step: &&Value| step["verdict"] == "differs" || step["verdict"] == "unknown";
        let first = self.steps.iter().find(odd);
        let good = differed == 0 && first.is_none() && self.finished.success();
        expect(good && agreed >= least, || {
            format!(
                "{what}: {agreed} steps agree, {differed} differ, {}: {}",
                self.finished.ending(),
                first.map_or_else(|| self.finished.err.clone(), Value::to_string)
            )
        })
    }
}

/// `ferroce replay` of a file, whatever it comes to.
fn run(lab: &mut Lab, place: Place, file: &Path, options: &[&str]) -> Result<Finished, Stop> {
    let dir = file.parent().unwrap_or(Path::new(".")).to_owned();
    let mut command = lab.site(place)?.client().ferroce();
    command.arg("replay").arg(file).args(options);
    Ok(process::run(command, &dir, "replay", LIMIT)?)
}

/// What a device shows of a run.
fn captured(
    lab: &mut Lab,
    place: Place,
    options: &[&str],
    dir: &Path,
    work: impl FnOnce(&mut Lab) -> Ending,
) -> Result<PathBuf, Stop> {
    let capture = Capture::start(lab.site(place)?.client(), options, dir)?;
    work(lab)?;
    capture.end()
}

/// Each program's two ends are replayed without a difference.
fn programs(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    for (line, least) in PROGRAMS {
        let file = captured(lab, place, &WHOLE, &dir, |lab| {
            work::pair(lab, place, line, &dir)
        })?;
        Replayed::of(lab, place, &file, &[])?.agrees(line, least)?;
    }
    Ok(())
}

/// `ferroce fault` on the one host.
fn fault(lab: &mut Lab, place: Place, dir: &Path, words: &str) -> Ending {
    let mut command = lab.site(place)?.client().ferroce();
    command.arg("fault").args(words.split(' '));
    let finished = process::run(command, dir, "fault", LIMIT)?;
    match finished.success() {
        true => Ok(()),
        false => Err(Stop::with("`ferroce fault` fails", &[&finished])),
    }
}

/// With a fault, which is none afterwards.
fn with_fault<T>(
    lab: &mut Lab,
    place: Place,
    dir: &Path,
    words: &str,
    does: impl FnOnce(&mut Lab) -> Result<T, Stop>,
) -> Result<T, Stop> {
    fault(lab, place, dir, &format!("add {words}"))?;
    let ending = does(lab);
    fault(lab, place, dir, "clear")?;
    ending
}

/// What is lost and sent again, refused and tried again, is done so by the transport, too.
fn faults(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let place = Place::OneDaemon;
    let mut again = 0;
    for words in FAULTS {
        for line in [
            "ib_send_bw -F -s 16384 -n 200",
            "ib_read_bw -F -s 16384 -n 100",
        ] {
            let file = with_fault(lab, place, &dir, words, |lab| {
                captured(lab, place, &WHOLE, &dir, |lab| {
                    work::pair(lab, place, line, &dir)
                })
            })?;
            let replayed = Replayed::of(lab, place, &file, &[])?;
            replayed.agrees(&format!("{line} with {words}"), 500)?;
            let retries = |step: &&Value| step["changes"].to_string().contains("retries left");
            again += replayed.steps.iter().filter(retries).count();
        }
    }
    expect(again > 20, || {
        format!("only {again} changes of retry counters")
    })
}

/// Who keeps what comes early, tells of it, and sends again what is missing alone, is found to do
/// so.
fn selective(lab: &mut Lab) -> Ending {
    let place = Place::Sockets;
    lab.recovering(place, "selective", |lab| selectively(lab, place))
}

fn selectively(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    let mut told = 0;
    for line in [
        "ib_send_bw -F -s 16384 -n 400",
        "ib_write_bw -F -s 16384 -n 400",
        "ib_read_bw -F -s 16384 -n 100",
        "ib_atomic_bw -F -n 400",
        "ib_send_lat -F -s 64 -n 100",
    ] {
        let words = "--loss 2% --seed 7";
        let file = with_fault(lab, place, &dir, words, |lab| {
            captured(lab, place, &WHOLE, &dir, |lab| {
                work::pair(lab, place, line, &dir)
            })
        })?;
        let replayed = Replayed::of(lab, place, &file, &[])?;
        replayed.agrees(line, 300)?;
        let tells = |step: &&Value| {
            let text = step["text"].as_str().unwrap_or_default();
            step["kind"] == "sent" && text.contains("Selective Acknowledge")
        };
        told += replayed.steps.iter().filter(tells).count();
    }
    expect(told > 20, || format!("only {told} tell what has come"))
}

/// The run has failed, and the steps show why.
fn failure(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let place = Place::OneDaemon;
    let file = with_fault(lab, place, &dir, "--loss 100% --match opcode=ACK", |lab| {
        captured(lab, place, &WHOLE, &dir, |lab| {
            match work::pair(lab, place, "ibv_rc_pingpong -g 0 -n 10", &dir) {
                Ok(()) => Err(Stop::fail("nothing fails")),
                Err(_) => Ok(()),
            }
        })
    })?;

    let replayed = Replayed::of(lab, place, &file, &[])?;
    replayed.agrees("a run that fails", 20)?;
    let left: Vec<String> = replayed
        .steps
        .iter()
        .flat_map(|step| step["changes"].as_array().into_iter().flatten())
        .filter(|change| change["name"] == "retries left")
        .filter_map(|change| change["to"].as_str().map(str::to_owned))
        .collect();
    let exceeded = replayed.steps.iter().find(|step| {
        step["kind"] == "completed"
            && step["text"]
                .as_str()
                .unwrap_or_default()
                .contains("RETRY_EXC_ERR")
    });
    let ended = replayed.sums.iter().any(|sum| sum["state"] == "ERR");
    expect(
        left.iter().any(|left| left == "0") && exceeded.is_some() && ended,
        || format!("retries left: {left:?}; {exceeded:?}; {:?}", replayed.sums),
    )?;

    // In words, and only what is asked for.
    let words = run(lab, place, &file, &["--until", "5"])?;
    let good =
        words.success() && words.out.contains("set    RC RESET") && words.out.lines().count() < 20;
    match good {
        true => Ok(()),
        false => Err(Stop::with("other words", &[&words])),
    }
}

/// Packets are shown once, and one end alone is asked for.
fn one_end(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let place = Place::OneDaemon;
    let line = "ib_send_lat -F -s 64 -n 200";
    let file = captured(lab, place, &["--verbs"], &dir, |lab| {
        work::pair(lab, place, line, &dir)
    })?;
    let both = Replayed::of(lab, place, &file, &[])?;
    both.agrees(line, 500)?;
    expect(both.sums.len() == 2, || format!("{:?}", both.sums))?;

    let qp = both.sums[0]["qp"].to_string();
    let one = Replayed::of(lab, place, &file, &["--qp", &qp])?;
    one.agrees(line, 250)?;
    expect(one.sums.len() == 1 && one.sums[0] == both.sums[0], || {
        format!("{:?}, not {:?}", one.sums, both.sums[0])
    })?;

    let none = run(lab, place, &file, &["--qp", "0xfffff0"])?;
    match none.code() == Some(1) && none.err.contains("no queue pair 0xfffff0 in it; there are") {
        true => Ok(()),
        false => Err(Stop::with("no queue pair", &[&none])),
    }
}

/// What others capture on an interface has no journal and no sender: the responder's side, and as
/// much of the requester's as shows.
///
/// By go-back-N: a request that shares a send with an answer is seen as one longer packet, and if
/// it is sent again it is another.
fn wire(lab: &mut Lab) -> Ending {
    let place = Place::Veth(1500);
    lab.recovering(place, "go-back-n", |lab| on_the_wire(lab, place))
}

fn on_the_wire(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    for (line, least) in [
        ("ib_write_bw -F -s 16384 -n 50", 800),
        ("ib_send_lat -F -s 64 -n 100", 200),
        ("ib_read_lat -F -s 4096 -n 50", 100),
    ] {
        let interface = "any";
        let host = lab.site(place)?.client();
        let capture = environment::Capture::start(host, interface, 1_000_000, &dir)?;
        work::pair(lab, place, line, &dir)?;
        capture.settle();
        let file = capture.finish()?;
        let replayed = Replayed::of(lab, place, &file, &[])?;
        let (agreed, differed) = (replayed.total("agreed"), replayed.total("differed"));
        expect(agreed >= least && differed * 50 <= agreed, || {
            let first = replayed
                .steps
                .iter()
                .find(|step| step["verdict"] == "differs");
            format!("{line}: {agreed} steps agree, {differed} differ: {first:?}")
        })?;
    }
    Ok(())
}

/// What is no capture, is cut off or has no queue pair in it is refused in a sentence.
fn no_captures(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let place = Place::OneDaemon;
    let line = "ibv_rc_pingpong -g 0 -n 50";
    let file = captured(lab, place, &WHOLE, &dir, |lab| {
        work::pair(lab, place, line, &dir)
    })?;
    let whole = fs::read(&file).context("the capture")?;

    let mut says = |name: &str, bytes: &[u8], words: &str| -> Ending {
        let file = dir.join(name);
        fs::write(&file, bytes).context("a file")?;
        let finished = run(lab, place, &file, &[])?;
        match finished.code() == Some(1) && finished.err.contains(words) {
            true => Ok(()),
            false => Err(Stop::with(format!("{name}: not {words:?}"), &[&finished])),
        }
    };
    let half = &whole[..whole.len() / 2 + 1];
    says("half.pcapng", half, "it is cut off after")?;
    says("text", b"no capture at all", "neither pcapng nor pcap")?;
    says("empty", b"", "0 bytes are no capture")?;
    says(
        "header.pcapng",
        &whole[..20],
        "nothing in the file can be read",
    )?;
    // The section alone.
    let section = u32::from_le_bytes(whole[4..8].try_into().context("a length")?) as usize;
    says(
        "section.pcapng",
        &whole[..section],
        "no packet of a queue pair",
    )
}
