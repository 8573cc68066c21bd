//! Group `robust`, continued: a peer that is stopped, as by a debugger, for longer than its
//! timeouts allow; and a few rounds of chaos.

use std::time::Duration;

use rustix::process::Signal;

use crate::chaos;
use crate::harness::case::expect;
use crate::harness::case::{Case, Company, Ending, Stop};
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::programs::stream::{Streams, all_right, peer_lost};

const LIMIT: Duration = Duration::from_secs(40);
/// More than the timeouts of a transfer take together: eight, by its attributes of 67 ms, which is
/// 1.81 s at most.
const PAUSE: Duration = Duration::from_secs(3);
/// Of `cargo xtask chaos --seed 1`.
const ROUNDS: u32 = 3;
/// Makes 30 s of it at least.
const STRETCH: &str = "20";

pub(crate) fn cases() -> Vec<Case> {
    let cases = [
        Case::new("robust/a stopped peer", lost),
        Case::new("robust/a stopped peer, timeouts stretched", |lab| {
            waited_for(lab, true)
        }),
        Case::new(
            "robust/a stopped peer, timeouts stretched, sockets",
            |lab| waited_for(lab, false),
        ),
        Case::new("robust/chaos", |lab| {
            lab.vacate();
            let dir = lab.case_dir()?;
            chaos::short(1, ROUNDS, lab.programs(), &dir)
        }),
    ];
    // Who else has the processors is not to be taken for what is done here to a peer.
    cases.map(|case| case.in_company(Company::Alone)).into()
}

/// Its peer gives it up, with RETRY_EXC, and so does it when it goes on.
fn lost(lab: &mut Lab) -> Ending {
    lab.vacate();
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    host.up()?;
    let streams = Streams::start([&host; 2], lab.port(), None, &lab.case_dir()?, LIMIT)?;
    let Streams { server, client } = streams;

    server.signal(Signal::STOP);
    let client = client.finish(LIMIT);
    server.signal(Signal::CONT);
    let server = server.finish(LIMIT);

    for end in [&client, &server] {
        expect(peer_lost(end), || {
            format!("{}, without RETRY_EXC:\n{}{}", end.line, end.out, end.err)
        })?;
    }

    expect(client.elapsed < PAUSE * 3, || {
        format!("the stopped peer was waited for: {:?}", client.elapsed)
    })
}

/// Where timeouts are stretched both wait, and go on when it does.
fn waited_for(lab: &mut Lab, memory: bool) -> Ending {
    lab.vacate();
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    if !memory {
        host = host.without_loopback();
    }

    host.up_with(&["--addr", "127.0.0.1", "--stretch-timeouts", STRETCH])?;
    let status = host.status()?;
    expect(status["device"]["stretch_timeouts"] == 20, || {
        format!("the device does not say by what: {}", status["device"])
    })?;
    let dir = lab.case_dir()?;
    let streams = Streams::start([&host; 2], lab.port(), Some(4), &dir, LIMIT)?;

    streams.server.signal(Signal::STOP);
    std::thread::sleep(PAUSE);
    streams.server.signal(Signal::CONT);
    let [server, client] = streams.finish(LIMIT);

    if !all_right(&client) || !all_right(&server) {
        return Err(Stop::with("a pause ends the transfer", &[&client, &server]));
    }

    Ok(())
}
