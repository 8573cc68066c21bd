//! What `FERROCE_LOG` makes a program say.

use std::time::Duration;

use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::{Lab, Place};

const LIMIT: Duration = Duration::from_secs(20);
const VARIABLE: &str = "FERROCE_LOG";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "errors/one-daemon/FERROCE_LOG shows a queue pair at work",
            at_work,
        ),
        Case::new(
            "errors/one-daemon/FERROCE_LOG says why a verb fails",
            refused,
        ),
        Case::new(
            "errors/one-daemon/FERROCE_LOG that makes no sense",
            senseless,
        ),
        Case::new(
            "errors/one-daemon/variables whose values mean nothing",
            meaningless,
        ),
    ]
}

/// States at `debug`, and packets at `trace` alone.
fn at_work(lab: &mut Lab) -> Ending {
    for (level, packets) in [("debug", false), ("trace", true)] {
        let client = pingpong(lab, level)?;
        for wanted in ["Init to Rtr", "Rtr to Rts"] {
            expect(client.err.contains(wanted), || {
                format!("{level} does not show {wanted:?}:\n{}", client.err)
            })?;
        }
        for wanted in ["sent RC SEND Only", "received RC Acknowledge"] {
            let shown = client.err.contains(wanted);
            expect(shown == packets, || {
                format!("{level}, {wanted:?} shown: {shown}\n{}", client.err)
            })?;
        }
    }

    Ok(())
}

fn refused(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let mut command = lab.site(Place::OneDaemon)?.client().run("raw_ethernet_bw");
    command
        .args([
            "--server",
            "-B",
            "02:00:00:00:00:01",
            "-E",
            "02:00:00:00:00:02",
        ])
        .env(VARIABLE, "ferroce_provider=debug");

    let ended = process::run(command, &dir, "program", LIMIT)?;
    expect(ended.err.contains("fails: Operation not supported"), || {
        format!("{}\n{}", ended.ending(), ended.err)
    })
}

/// A program runs without what cannot be had.
fn senseless(lab: &mut Lab) -> Ending {
    let client = pingpong(lab, "ferroce_transport=loud")?;
    expect(
        client
            .err
            .contains("nothing is logged: FERROCE_LOG=ferroce_transport=loud"),
        || client.err.clone(),
    )
}

/// It says so of each, once, and goes by the default.
fn meaningless(lab: &mut Lab) -> Ending {
    let variables = [("FERROCE_GSO", "OFF"), ("FERROCE_RECOVERY", "sack")];
    let client = pingpong_with(lab, &variables)?;
    for (name, value) in variables {
        let words = format!("ferroce: {name}={value} means nothing: it may be");
        let said = client.err.matches(&words).count();
        expect(said == 1, || client.err.clone())?;
    }
    Ok(())
}

/// The client's end.
fn pingpong(lab: &mut Lab, level: &str) -> Result<Finished, Stop> {
    pingpong_with(lab, &[(VARIABLE, level)])
}

fn pingpong_with(lab: &mut Lab, variables: &[(&str, &str)]) -> Result<Finished, Stop> {
    let (dir, port) = (lab.case_dir()?, lab.port());
    let host = lab.site(Place::OneDaemon)?.client();
    let pingpong = || {
        let mut command = host.run("ibv_rc_pingpong");
        command.args(["-g", "0", "-n", "3", "-s", "64", "-p", &port.to_string()]);
        command
    };
    let mut server = process::spawn(pingpong(), &dir, "server")?;
    if !server.listens(port, LIMIT) {
        return Err(Stop::with("the server does not listen", &[&server.kill()]));
    }

    let mut command = pingpong();
    command.arg(&host.address).envs(variables.iter().copied());
    let client = process::run(command, &dir, "client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    if !client.success() || !server.success() {
        return Err(Stop::with(client.ending(), &[&client, &server]));
    }

    Ok(client)
}
