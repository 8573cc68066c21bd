//! Readers that do not read, that die, and that are too many: programs go on as if there were none.

use std::time::Duration;

use rustix::process::Signal;

use super::LIMIT;
use super::read::{self, Capture};
use super::work::pair;
use crate::harness::case::{Case, Ending, Stop, expect};
use crate::harness::process;
use crate::lab::{Lab, Place};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("instrument/a reader that is killed", killed),
        Case::new("instrument/a reader that is slow", slow),
        Case::new("instrument/readers beside each other", several),
        Case::new("instrument/a daemon that goes is told", gone),
        Case::new("instrument/captures that cannot be", refused),
    ]
}

const PLACE: Place = Place::OneDaemon;
/// Much more than a ring holds.
const LINE: &str = "ib_send_bw -F -s 65536 -n 4000";

/// In the middle of a transfer, which ends well, and another reader finds the device as it was.
fn killed(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let capture = Capture::start(lab.site(PLACE)?.client(), &[], &dir)?;
    let first = std::fs::File::open(dir.join("capture.pcapng")).map_err(anyhow::Error::from)?;
    let killer = std::thread::spawn(move || {
        let mut running = capture.running;
        let begun = |_: &process::Running| first.metadata().is_ok_and(|file| file.len() > 1 << 20);
        let begun = running.wait_until(LIMIT, begun);
        running.kill();
        begun
    });
    let ending = pair(lab, PLACE, LINE, &dir);
    let begun = killer.join().unwrap_or(false);
    ending?;
    expect(begun, || "nothing was captured".to_owned())?;

    let capture = Capture::start(lab.site(PLACE)?.client(), &[], &dir)?;
    pair(lab, PLACE, "ibv_rc_pingpong -g 0 -n 10", &dir)?;
    let packets = capture.finish()?.len();
    expect(packets > 80, || format!("{packets} packets afterwards"))
}

/// Who is stopped loses records, and knows how many; what he has is whole.
fn slow(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let capture = Capture::start(lab.site(PLACE)?.client(), &["--buffer", "1"], &dir)?;
    capture.running.signal(Signal::STOP);
    let ending = pair(lab, PLACE, LINE, &dir);
    capture.running.signal(Signal::CONT);
    ending?;
    let (finished, file) = capture.stop();

    let number = |at: usize| {
        let last = finished.err.lines().last().unwrap_or_default();
        let word = last.split_whitespace().nth(at);
        word.and_then(|word| word.parse::<usize>().ok())
    };
    let (Some(shown), Some(dropped)) = (number(0), number(3)) else {
        return Err(Stop::with("no summary", &[&finished]));
    };
    let rows = read::fields(&file, "", &["infiniband.bth.opcode", "_ws.malformed"])?;
    let sound = rows
        .iter()
        .all(|row| !row[0].is_empty() && row[1].is_empty());
    expect(finished.success() && shown > 0 && dropped > 4000, || {
        format!("{shown} packets captured, {dropped} dropped")
    })?;
    expect(rows.len() == shown && sound, || {
        format!(
            "{} packets in the file, {shown} said; sound: {sound}",
            rows.len()
        )
    })
}

/// Two see the same; who comes too late for a place is told.
fn several(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let host = lab.site(PLACE)?.client();
    let mut all = Vec::new();
    for n in 0..8 {
        let dir = dir.join(n.to_string());
        std::fs::create_dir(&dir).map_err(anyhow::Error::from)?;
        all.push(Capture::start(host, &["--buffer", "1"], &dir)?);
    }
    let mut command = host.ferroce();
    command.args(["capture", "--text"]);
    let late = process::run(command, &dir, "late", LIMIT)?;
    expect(
        late.code() == Some(1) && late.err.contains("8 captures are under way"),
        || format!("the ninth: {}{}", late.ending(), late.err),
    )?;

    pair(lab, PLACE, "ibv_rc_pingpong -g 0 -n 10", &dir)?;
    let seen = all.into_iter().map(Capture::finish);
    let seen: Vec<usize> = seen
        .map(|rows| rows.map(|rows| rows.len()))
        .collect::<Result<_, _>>()?;
    expect(seen[0] > 80 && seen.iter().all(|n| *n == seen[0]), || {
        format!("they see {seen:?} packets")
    })
}

/// A capture ends with its daemon, and says so.
fn gone(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    lab.vacate();
    let mut host = crate::lab::host::Host::new(lab.programs(), "127.0.0.4", None)?;
    host.up()?;
    let capture = Capture::start(&host, &[], &dir)?;
    host.down()?;
    let finished = capture.running.finish(Duration::from_secs(10));
    let said = finished.err.contains("the daemon has gone");
    match finished.success() && said && finished.err.contains("0 packets captured") {
        true => Ok(()),
        false => Err(Stop::with("does not end", &[&finished])),
    }
}

/// Nonsense is named, with the status that it has everywhere.
fn refused(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let host = lab.site(PLACE)?.client();
    for (options, status, word) in [
        (&["--qp", "0x1000000"][..], 2, "0 to 0xffffff"),
        (&["--for", "soon"], 2, "10s"),
        (&["--buffer", "0"], 2, "--buffer"),
        (&["-w", "/nonexistent/x.pcapng"], 1, "/nonexistent/x.pcapng"),
    ] {
        let mut command = host.ferroce();
        command.arg("capture").args(options);
        let finished = process::run(command, &dir, "refused", LIMIT)?;
        expect(
            finished.code() == Some(status) && finished.err.contains(word),
            || format!("{options:?}: {}{}", finished.ending(), finished.err),
        )?;
    }

    let mut command = host.plain(host.programs().join("ferroce"));
    command.arg("--runtime-dir").arg(dir.join("none"));
    command.args(["capture", "--text"]);
    let finished = process::run(command, &dir, "no-daemon", LIMIT)?;
    expect(
        finished.code() == Some(1) && finished.err.contains("ferroce up"),
        || format!("without a daemon: {}{}", finished.ending(), finished.err),
    )
}
