//! Group `ibta`, cables: fewer than the device has ports, none, and such that nobody answers on.

use std::net::{SocketAddr, UdpSocket};

use super::around::{BOUND, DEVICE, Ground, QUICK, REFUSED, TESTER, refused};
use super::{NOT_APPLICABLE, results};
use crate::harness::case::{Case, Ending, Stop};
use crate::lab::Lab;

/// A test of the management agents that needs two ports.
const TWO_PORTS: &str = "C14_024_06_CA_04";
/// Families with several tests each, of the management agents and of the transport.
const MANAGEMENT: &str = "C14-015";
const TRANSPORT: &str = "9.7.7.1";

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("ibta/cables/a device with one port", one_port),
        Case::new("ibta/cables/none at all", no_cable),
        Case::new("ibta/cables/two ports and one cable", one_cable),
        Case::new("ibta/cables/nobody at the end of one", silent_cables),
    ]
}

/// A test of two ports on a device that has one: it says so, and tests that need one port still
/// run.
fn one_port(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let args = [
        "run", TWO_PORTS, QUICK, "--device", "ferroce0", "--tester", TESTER,
    ];
    let finished = ground.inside(&args)?;
    let code = finished.code();
    let said = format!("{}{}", finished.out, finished.err);
    let says = said.contains(TWO_PORTS) && said.contains("port") && said.contains("cable");
    match code == Some(REFUSED) && says {
        true => Ok(()),
        false => Err(Stop::with(
            "must say what ports and cables the test needs",
            &[&finished],
        )),
    }
}

/// Nothing but tests that need a cable, and none: not a run in which nothing failed. Among others
/// they are left out, also where a part has nothing else.
fn no_cable(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let run = |which: &[&str]| {
        let args = ["run", "--device", "ferroce0", "--tester", TESTER];
        ground.inside(&[&args, which].concat())
    };

    refused(&run(&["--family", MANAGEMENT])?, &["--cable"])?;
    refused(&run(&["C14-24.1.1"])?, &["all tests", "--cable"])?;
    refused(&run(&["C14-24.1.1", "--shard", "1/3"])?, &["--cable"])?;

    let mixed = ["C9-60", "C14-15"];
    let listed = ground.outside(&[&["list"], &mixed[..]].concat())?;
    let count = listed.out.lines().count();
    let mut lines = listed.out.lines();
    let nth = lines.position(|line| line.contains(MANAGEMENT));
    let alone = format!("{}/{count}", nth.map_or(0, |nth| nth + 1));
    for which in [&mixed[..], &[&mixed[..], &["--shard", &alone]].concat()] {
        let finished = run(which)?;
        if !finished.success() || !finished.out.contains("needs --cable") {
            let what = format!("{which:?}: what needs a cable must be left out");
            return Err(Stop::with(what, &[&finished]));
        }
    }

    Ok(())
}

/// A device with two ports, of which one has a cable to the tester: nothing is wrong with it, and
/// what is about the other port is inconclusive, however it was asked for.
fn one_cable(lab: &mut Lab) -> Ending {
    let ends = [(); 4].map(|()| format!("{DEVICE}:{}", lab.port()));
    let [device, tester, other, nobody] = &ends;
    let (first, second) = (format!("{device}={tester}"), format!("{other}={nobody}"));
    let cables = ["--cable", &first, "--cable", &second];
    let ground = Ground::with(
        lab,
        &[&["--link-layer", "infiniband"], &cables[..]].concat(),
    )?;

    let cable = format!("{tester}={device}");
    let run = |which: &[&str]| {
        let args = ["run", "--device", "ferroce0", "--json", "results.json"];
        let finished = ground.inside(&[&args[..], &["--cable", &cable], which].concat())?;
        let tests = results(&ground.dir.join("results.json"))?;
        let open = tests.into_iter().filter(|test| test["result"] != "PASS");
        Ok::<_, Stop>((finished, open.collect::<Vec<_>>()))
    };

    for which in [
        &["--family", "C14-024"][..],
        &[TWO_PORTS],
        &["S16_1_05", "C14_024_07"],
    ] {
        let (finished, open) = run(which)?;
        let named = |test: &serde_json::Value| {
            let why = test["reason"].as_str().unwrap_or_default();
            why.contains("the device has 2 ports") && why.contains("--cable")
        };

        // Its ports have no lamps, and one lane.
        let good = |test: &serde_json::Value| match test["result"].as_str() {
            Some("INCONCLUSIVE") => named(test),
            Some("N/A") => NOT_APPLICABLE.iter().any(|id| test["id"] == *id),
            _ => false,
        };
        if finished.code() != Some(REFUSED) || !open.iter().all(good) || open.is_empty() {
            let what = format!("{which:?}: all that fails must be what lacks a cable: {open:?}");
            return Err(Stop::with(what, &[&finished]));
        }
    }

    Ok(())
}

/// A cable that is silent, and one whose far end brings the link up and answers nothing: it is
/// another tester's, that waits for answers itself. However many tests there are, one wait is
/// enough; all four do so at once.
fn silent_cables(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let socket = || UdpSocket::bind((DEVICE, 0)).map_err(anyhow::Error::from);
    let end = |socket: &UdpSocket| socket.local_addr().map_err(anyhow::Error::from);
    let (silent, free) = (socket()?, [socket()?, socket()?, socket()?, socket()?]);
    let mut ends = Vec::new();
    for socket in &free {
        ends.push(end(socket)?);
    }
    drop(free);
    let nobody = end(&silent)?;
    let run = |family: &str, near: SocketAddr, far: SocketAddr| {
        let cable = format!("{near}={far}");
        let args = [
            "run", "--family", family, "--device", "ferroce0", "--cable", &cable,
        ];
        ground.spawn(ground.host.run(&ground.suite), &args)
    };
    let management = run(MANAGEMENT, ends[0], nobody)?;
    let transport = run(TRANSPORT, ends[1], nobody)?;
    let here = run(MANAGEMENT, ends[2], ends[3])?;
    let there = run(TRANSPORT, ends[3], ends[2])?;
    for (running, near) in [(management, ends[0]), (transport, ends[1])] {
        let cable = format!("{near}={nobody}");
        refused(
            &running.finish(BOUND),
            &["nobody answers at the other end of the cable", &cable],
        )?;
    }

    for running in [here, there] {
        refused(
            &running.finish(BOUND),
            &[
                "the device does not answer",
                "SubnGetResp(PortInfo) by port 1",
            ],
        )?;
    }

    Ok(())
}
